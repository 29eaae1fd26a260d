"""The way through a proxy, which is httpx's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx

from dsh.errors import LlmError
from dsh_chat.http import Exchange, Target

__all__ = ["ProxiedTransport", "proxy_of"]


def proxy_of(target: Target) -> str | None:
    """The proxy that the environment names for `target`, if it names one."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get("https" if target.secure else "http") or proxies.get("all")
    if not proxy or proxy_bypass(target.host) or proxy_bypass(target.place):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class ProxiedTransport:
    """A `Transport` through a proxy."""

    def __init__(self, target: Target, proxy: str) -> None:
        self._target = target
        scheme = "https" if target.secure else "http"
        host = f"[{target.host}]" if ":" in target.host else target.host
        self._url = f"{scheme}://{host}:{target.port}{target.path}"
        try:
            self._client = httpx.AsyncClient(proxy=proxy, trust_env=False, limits=httpx.Limits(max_connections=None))
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            message = f"{target.provider}: the proxy that the environment names cannot be used: {error}"
            raise LlmError(message, code="UNAVAILABLE") from error

    async def request(self, body: bytes, seconds: float) -> Exchange:
        target = self._target
        timeout = httpx.Timeout(seconds, connect=target.connect)
        request = self._client.build_request(
            "POST", self._url, content=body, headers=list(target.headers), timeout=timeout
        )
        try:
            return _Response(target, await self._client.send(request, stream=True))
        except httpx.TimeoutException as error:
            raise _failure(target, "did not answer in time", "TIMEOUT") from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise _failure(target, f"cannot be reached through the proxy: {error}", "UNAVAILABLE") from error
        except httpx.TransportError as error:
            raise _failure(target, "closed the connection without an answer", "STREAM_CLOSED") from error

    async def aclose(self) -> None:
        await self._client.aclose()


class _Response:
    def __init__(self, target: Target, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._target = target
        self._response = response
        self._parts: AsyncIterator[bytes] = response.aiter_bytes()

    async def read(self, seconds: float) -> bytes:
        try:
            async for part in self._parts:
                if part:
                    return part
            return b""
        except httpx.TimeoutException as error:
            raise _failure(self._target, f"sent nothing for {seconds:g} seconds", "TIMEOUT") from error
        except httpx.TransportError as error:
            raise _failure(
                self._target, "dropped the connection in the middle of the answer", "STREAM_CLOSED"
            ) from error

    async def release(self, *, whole: bool) -> None:
        await self._response.aclose()


def _failure(target: Target, what: str, code: str) -> LlmError:
    return LlmError(f"{target.provider} ({target.place}) {what}", code=code, retryable=True)
