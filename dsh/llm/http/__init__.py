"""What adapters of services over HTTP have in common; for the plugins that bring providers.

`service` sends requests and explains failures, `stream` turns an event stream into chunks with the
help of the dialect's translator, and `keys` checks what people configure.  Nothing here is imported
before a plugin asks for it, and httpx not before the first request.
"""
