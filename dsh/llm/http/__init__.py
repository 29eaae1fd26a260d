"""What adapters of services over HTTP have in common; for the plugins that bring providers.

`service` sends requests and explains failures, `stream` turns an event stream into chunks with the
help of the dialect's translator, `failures` knows what refusals mean, `keys` checks what people
configure, and `settings` has the table ``[network]``.  Nothing here is imported before a plugin asks
for it, and httpx not before the first request.  ``docs/writing-plugins.md`` has a provider as an example.
"""
