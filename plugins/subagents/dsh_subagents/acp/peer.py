"""JSON-RPC 2.0 with one other program, which may answer late, wrongly or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol, TypeAlias

import trio
from attrs import define, field, frozen

from dsh.jsonvalue import Json, dumps

from .lines import Garbage, objects

__all__ = ["INTERNAL", "INVALID", "NO_METHOD", "Failed", "Gone", "Peer", "Pipe", "Refusal", "Reply", "Served"]

NO_METHOD, INVALID, INTERNAL, BUSY = -32601, -32602, -32603, -32000
AT_ONCE = 64
"""Requests of the other side that are worked on at the same time."""
END_SECONDS = 2.0
"""How long to wait for the end of another side that takes no more messages, before saying no more than that."""


class Pipe(Protocol):
    """Where messages go."""

    async def send_all(self, data: bytes) -> None: ...


class Gone(Exception):
    """There is no talking to the other side any more; the message says why."""


class Refusal(Exception):
    """The answer to a request of the other side is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@frozen
class Failed:
    """The other side answered with an error, in its own words."""

    code: int
    message: str


Reply: TypeAlias = "dict[str, Any] | Failed | Gone"
"""What became of a request: its result, an error, or no answer."""


class Served(Protocol):
    """What the other side can ask for, and tell."""

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        """Answer a request.

        Raises:
            Refusal: the answer is an error.
        """
        ...

    async def told(self, method: str, params: Mapping[str, Any]) -> None:
        """Hear a notification, in the order in which they come."""
        ...


@define(eq=False)
class Peer:
    """The other side.

    Attributes:
        ended: why there is no talking to it any more; None while there is.
    """

    _pipe: Pipe
    _served: Served
    ended: Gone | None = None
    _next: int = 0
    _waiting: dict[int, Callable[[Reply], Awaitable[None]]] = field(factory=dict)
    _lock: trio.Lock = field(factory=trio.Lock)
    _over: trio.Event = field(factory=trio.Event)
    _busy: int = 0

    async def call(self, method: str, params: Json) -> dict[str, Any]:
        """Ask for something, and wait for the answer.  Cancelled, an answer that comes later is ignored.

        Raises:
            Gone: the other side is gone.
            Refusal: it answered with an error.
        """
        found: list[Reply] = []
        done = trio.Event()

        async def answered(reply: Reply) -> None:
            found.append(reply)
            done.set()

        number = await self.begin(method, params, answered)
        try:
            await done.wait()
        finally:
            self.forget(number)
        match found[0]:
            case Gone() as gone:
                raise gone
            case Failed(code=code, message=message):
                raise Refusal(code, message)
            case result:
                return result

    async def begin(self, method: str, params: Json, answered: Callable[[Reply], Awaitable[None]]) -> int:
        """Ask for something; `answered` is awaited behind all that came before the answer.

        Raises:
            Gone: the other side is gone.
        """
        number, self._next = self._next, self._next + 1
        self._waiting[number] = answered
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        except BaseException:
            self.forget(number)
            raise
        return number

    def forget(self, number: int) -> None:
        """Wait for the answer to a request no more."""
        self._waiting.pop(number, None)

    async def tell(self, method: str, params: Json) -> None:
        """Send a notification.

        Raises:
            Gone: the other side is gone.
        """
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _send(self, message: Json) -> None:
        data = dumps(message) + b"\n"
        async with self._lock:
            if self.ended is not None:
                raise self.ended
            try:
                await self._pipe.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                with trio.move_on_after(END_SECONDS):
                    await self._over.wait()  # how it ended says more
                raise self.ended or Gone("takes no more messages") from None
            except trio.Cancelled:
                # Half of a message may be on its way, and nothing can follow it.
                self.ended = self.ended or Gone("did not take a message")
                raise

    async def listen(self, receive: Callable[[int], Awaitable[bytes | bytearray]]) -> str:
        """Serve the other side until it says nothing more; why.  Cancelling stops what it had asked for."""
        async with trio.open_nursery() as nursery:
            try:
                async with aclosing(objects(receive)) as messages:
                    async for message in messages:
                        await self._take(message, nursery)
                why = ""
            except Garbage as error:
                why = str(error)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                why = ""
            nursery.cancel_scope.cancel()
        return why

    async def end(self, why: str) -> None:
        """There is no talking to the other side any more: nobody waits for an answer."""
        if self.ended is None:
            self.ended = Gone(why)
        self._over.set()
        while self._waiting:
            _, answered = self._waiting.popitem()
            await answered(self.ended)

    async def _take(self, message: dict[str, Any], nursery: trio.Nursery) -> None:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            if "id" not in message:
                await self._served.told(method, params)
            elif not isinstance(id, str | int | float | None) or self._busy >= AT_ONCE:
                # Here, so that whoever asks for ever without listening has to wait.
                await self._answer(None if isinstance(id, dict | list) else id, BUSY, "too many requests at once")
            else:
                self._busy += 1
                nursery.start_soon(self._serve, id, method, params)
            return
        answered = self._waiting.pop(id, None) if type(id) is int else None
        if answered is not None:
            await answered(_reply(message))

    async def _serve(self, id: Json, method: str, params: Mapping[str, Any]) -> None:
        try:
            result = await self._served.request(method, params)
        except Refusal as refusal:
            await self._answer(id, refusal.code, str(refusal))
        except Exception as error:
            await self._answer(id, INTERNAL, f"{type(error).__name__}: {error}")
        else:
            await self._reply({"jsonrpc": "2.0", "id": id, "result": result})
        finally:
            self._busy -= 1

    async def _answer(self, id: Json, code: int, message: str) -> None:
        await self._reply({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    async def _reply(self, message: Json) -> None:
        with suppress(Gone):  # whoever asked is not there to hear it
            await self._send(message)


def _reply(message: Mapping[str, Any]) -> Reply:
    error = message.get("error")
    if error is not None:
        details = error if isinstance(error, dict) else {"message": str(error)}
        code = details.get("code")
        data = details.get("data")
        text = str(details.get("message") or "an error without words")[:2000]
        if isinstance(data, str) and data.strip():
            text = f"{text} ({data[:500]})"
        return Failed(code if type(code) is int else INTERNAL, text)
    result = message.get("result")
    return result if isinstance(result, dict) else {}
