"""What carries requests to an address: the way there is direct, or through a proxy of the environment."""

from __future__ import annotations

import os
import sys

import httpx

from ...errors import LlmError
from .transport import TrioTransport, tls_context

__all__ = ["proxy_for", "transport_for"]

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def proxy_for(url: httpx.URL) -> str | None:
    """The proxy that ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY`` names, unless ``NO_PROXY`` has the host."""
    named = {name.lower() for name, value in os.environ.items() if value}
    if sys.platform not in ("darwin", "win32") and named.isdisjoint(_VARIABLES):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host) or (url.port and proxy_bypass(f"{url.host}:{url.port}")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def transport_for(url: httpx.URL) -> tuple[httpx.AsyncBaseTransport, str]:
    """What sends requests to `url`, and words for messages that name the proxy, if there is one.

    Raises:
        LlmError: the proxy is of a kind that is not spoken here, or no address.
    """
    address = proxy_for(url)
    if address is None:
        return TrioTransport(), ""
    try:
        there = httpx.URL(address)
        own = tls_context() if there.scheme == "https" else None
        # No limit, as in a transport of our own: a request waits for nobody.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=128, keepalive_expiry=60.0)
        proxy = httpx.Proxy(there, ssl_context=own)
        transport = httpx.AsyncHTTPTransport(verify=tls_context(), limits=limits, proxy=proxy)
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        kind = address.partition("://")[0]
        why = "needs pip install 'httpx[socks]'" if isinstance(error, ImportError) else "cannot be used"
        raise LlmError(
            f"the {kind}:// proxy that the environment names {why};"
            f" name an http:// or https:// one, unset the variable, or add {url.host} to NO_PROXY",
            code="UNAVAILABLE",
        ) from error
    port = there.port or {"http": 80, "https": 443}.get(there.scheme, 1080)
    return transport, f" through the proxy {there.host}:{port}"
