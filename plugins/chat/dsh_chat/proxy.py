"""The way through a proxy that the environment names."""

from __future__ import annotations

import base64
import os
import sys
from urllib.parse import unquote, urlsplit

import h11
import trio
from attrs import field, frozen

from dsh.errors import LlmError

__all__ = ["Proxy", "proxy_for", "tunnel"]

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


@frozen
class Proxy:
    """An HTTP proxy.

    Attributes:
        secure: it is itself spoken to over TLS.
        headers: what it wants to be told, a password among it.
    """

    secure: bool
    host: str
    port: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)


def proxy_for(secure: bool, host: str, port: int) -> Proxy | None:
    """The proxy for connections to `host`, by ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``.

    Raises:
        LlmError: it is of a kind that is not spoken here, or no address.
    """
    named = {name.lower() for name, value in os.environ.items() if value}
    if sys.platform not in ("darwin", "win32") and named.isdisjoint(_VARIABLES):
        return None
    # An import of some weight, for the few who need it.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get("https" if secure else "http") or proxies.get("all")
    if not proxy or proxy_bypass(host) or proxy_bypass(f"{host}:{port}"):
        return None
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        there, door = parts.hostname, parts.port
    except ValueError:
        there, door, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not there:
        kind = parts.scheme or "no address"
        raise LlmError(
            f"the proxy that the environment names is {kind}, but only http:// and https:// proxies are supported;"
            f" unset the variable, or add {host} to NO_PROXY",
            code="UNAVAILABLE",
        )
    headers = []
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers.append(("proxy-authorization", "Basic " + base64.b64encode(pair.encode()).decode()))
    at_tls = parts.scheme == "https"
    return Proxy(at_tls, there, door or (443 if at_tls else 80), tuple(headers))


async def tunnel(stream: trio.abc.Stream, proxy: Proxy, host: str, port: int) -> None:
    """Have `proxy` connect `stream` to `host`.

    Raises:
        LlmError: it refused.
        trio.BrokenResourceError: it closed the connection.
    """
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    protocol = h11.Connection(h11.CLIENT)
    request = h11.Request(method="CONNECT", target=place, headers=[("host", place), *proxy.headers])
    await stream.send_all(protocol.send(request) or b"")
    while True:
        try:
            event = protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise LlmError(f"the proxy {proxy.host} does not speak HTTP", code="UNAVAILABLE") from error
        if event is h11.NEED_DATA:
            data = bytes(await stream.receive_some())
            if not data:
                raise trio.BrokenResourceError("the proxy closed the connection")
            protocol.receive_data(data)
        elif isinstance(event, h11.Response):
            break
    if event.status_code != 200:
        hint = "; it wants a name and password in the proxy's address" if event.status_code == 407 else ""
        raise LlmError(
            f"the proxy {proxy.host} refused to connect to {place} (HTTP {event.status_code}{hint})",
            code="UNAVAILABLE",
            status=event.status_code,
            retryable=event.status_code >= 500,
        )
