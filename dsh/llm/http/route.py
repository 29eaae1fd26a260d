"""What carries requests to an address: the way there is direct, or through a proxy of the environment."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import httpx

from ...errors import LlmError
from .transport import TrioTransport
from .trust import trusting

__all__ = ["proxy_for", "transport_for"]

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def proxy_for(url: httpx.URL) -> str | None:
    """The proxy that ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY`` names, unless ``NO_PROXY`` has the host."""
    named = {name.lower() for name, value in os.environ.items() if value}
    if sys.platform not in ("darwin", "win32") and named.isdisjoint(_VARIABLES):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = (proxies.get(url.scheme) or proxies.get("all") or "").strip()
    if not proxy or proxy_bypass(url.host) or (url.port and proxy_bypass(f"{url.host}:{url.port}")):
        return None
    if _in_networks(url.host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _in_networks(host: str, excepted: str) -> bool:
    """Whether `host` is an address in one of the networks of ``NO_PROXY``, such as ``10.0.0.0/8``."""
    if "/" not in excepted:
        return False
    from ipaddress import ip_address, ip_network

    try:
        address = ip_address(host)
    except ValueError:
        return False
    for name in excepted.split(","):
        with suppress(ValueError):
            if "/" in name and address in ip_network(name.strip(), strict=False):
                return True
    return False


def transport_for(url: httpx.URL, ca_bundle: str | None = None) -> tuple[httpx.AsyncBaseTransport, str]:
    """What sends requests to `url`, and words for messages that name the proxy, if there is one.

    Args:
        ca_bundle: what is trusted besides the usual, as `trusting` takes it.

    Raises:
        LlmError: the proxy is of a kind that is not spoken here, or no address; or a file of certificates cannot
            be read (``CONFIG``).
    """
    address = proxy_for(url)
    if address is None:
        return TrioTransport(trusting(ca_bundle) if url.scheme == "https" else None), ""
    trusted = trusting(ca_bundle)
    try:
        there = httpx.URL(address)
        own = trusted if there.scheme == "https" else None
        # No limit, as in a transport of our own: a request waits for nobody.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=128, keepalive_expiry=60.0)
        proxy = httpx.Proxy(there, ssl_context=own)
        transport = httpx.AsyncHTTPTransport(verify=trusted, limits=limits, proxy=proxy)
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        kind = address.partition("://")[0]
        why = "needs pip install 'httpx[socks]'" if isinstance(error, ImportError) else "cannot be used"
        variables = ", ".join(_naming(address)) or "the environment"
        raise LlmError(
            f"the {kind}:// proxy that {variables} names {why};"
            f" name an http:// or https:// one, unset the variable, or add {url.host} to NO_PROXY",
            code="CONFIG",
        ) from error
    port = there.port or {"http": 80, "https": 443}.get(there.scheme, 1080)
    return transport, f" through the proxy {there.host}:{port}"


def _naming(address: str) -> list[str]:
    """The variables that name the proxy at `address`."""
    return [
        name
        for name, value in os.environ.items()
        if name.lower() in _VARIABLES and value in (address, address.removeprefix("http://"))
    ]
