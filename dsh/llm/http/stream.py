"""The stream of one answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self

import trio

from ...errors import LlmError
from ...messages import FinishReason
from ..chunks import Chunk, Finish
from .failures import shorten
from .service import Service, read_all
from .sse import EventTooLong, SseParser

if TYPE_CHECKING:
    from .link import Exchange

__all__ = ["AnswerStream", "Translator"]

_AFTER_FINISH = 10.0
_BAD = "MALFORMED_RESPONSE"
_HEAD = 400
_FIELDS = (b"data", b"event", b"id", b"retry", b"error", b":")
"""How a stream of events begins."""
_PASSING = frozenset({"OVERLOADED", "SERVER", "TOOL_USE_FAILED"})
"""Codes of an answer's end by which a service says that it failed itself, and that another try may go well."""
_SIGNS_OF_LIFE = 3.0
"""How many times as long as for its beginning a service is waited for that says nothing but that it lives.

Models may think for long without a word, and services send comments and pings meanwhile; some never stop.
"""


class Translator(Protocol):
    """What knows a dialect: takes the data of a stream's events in order and gives chunks."""

    @property
    def complete(self) -> bool:
        """The service said that the answer is over; more may come."""
        ...

    @property
    def done(self) -> bool:
        """Nothing more can come."""
        ...

    def feed(self, payload: bytes, out: list[Chunk]) -> None:
        """Add what `payload` says to `out`.

        Also an answer that was not streamed, as a whole, and an error in its place.

        Raises:
            LlmError: it is an error of the service, or nothing that can be understood; what came
                before it is in `out`.
        """
        ...

    def finish(self) -> list[Chunk]:
        """What ends the answer.

        Raises:
            LlmError: the service said nothing at all (``EMPTY_RESPONSE``), or failed.
        """
        ...


class AnswerStream:
    """The chunks of one answer; the request is sent when the first is asked for.

    A failure is raised after the chunks that came before it.  Being cancelled closes the
    connection; after that, after a failure and after `aclose` the stream is over.
    """

    def __init__(self, service: Service, body: Callable[[], bytes], translator: Translator) -> None:
        """Args: body: of the request; asked for once, when it is sent."""
        self._service = service
        self._body: Callable[[], bytes] | None = body
        self._exchange: Exchange | None = None
        self._events = SseParser()
        self._translator = translator
        self._ready: deque[Chunk] = deque()
        self._failure: LlmError | None = None
        self._over = False
        self._begun = False
        self._said = 0.0
        self._size = 0
        self._head = b""
        self._fed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._over:
                raise StopAsyncIteration
            try:
                await self._advance()
            except BaseException as error:
                await self._end(whole=False)
                if isinstance(error, LlmError):
                    raise self._service.masked(error) from error.__cause__
                raise
        return self._ready.popleft()

    def take_ready(self) -> list[Chunk]:
        """The chunks that have come already, without waiting: what one read of the network brought."""
        ready = list(self._ready)
        self._ready.clear()
        return ready

    async def aclose(self) -> None:
        """Close the connection, unless the answer is over and it may be kept.  Has no checkpoint."""
        self._ready.clear()
        self._failure = None
        await self._end(whole=False)

    async def _end(self, *, whole: bool) -> None:
        self._over = True
        self._body = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.release(whole=whole)

    async def _advance(self) -> None:
        """Take one read of the network."""
        exchange = self._exchange
        if exchange is None:
            assert self._body is not None
            exchange = self._exchange = await self._service.send(self._body())
            self._said = trio.current_time()
        try:
            data = await exchange.read(self._patience())
        except LlmError as error:
            if not (error.code in ("TIMEOUT", "STREAM_CLOSED") and self._translator.complete):
                raise
            # The answer is over, and the service forgot to say so, or left without a farewell.
            await self._finish(whole=False)
            return
        if not data:
            await self._close_of_body()
            return
        self._size += len(data)
        if self._size > self._service.place.max_answer_bytes:
            await self._fail(self._too_long(), [])
        elif not self._begun and data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b"<"):
            await self._whole_answer(exchange, data)
        else:
            self._begun = self._begun or bool(data.strip())
            if len(self._head) < _HEAD:
                self._head += data[:_HEAD]
            await self._take(data)

    def _patience(self) -> float:
        place = self._service.place
        if self._translator.complete:
            return min(_AFTER_FINISH, place.between)
        return place.between if self._begun else place.first_byte

    async def _take(self, data: bytes) -> None:
        out: list[Chunk] = []
        try:
            for payload in self._events.feed(data):
                self._fed = True
                self._translator.feed(payload, out)
                if self._translator.done:
                    break
        except LlmError as error:
            await self._fail(error, out)
            return
        except EventTooLong as error:
            await self._fail(self._error(str(error), "MALFORMED_RESPONSE"), out)
            return
        self._ready.extend(out)
        if self._translator.done:
            await self._finish(whole=True)
        elif out:
            self._said = trio.current_time()
        elif trio.current_time() - self._said > self._longest():
            await self._fail(self._only_alive(), [])

    async def _close_of_body(self) -> None:
        """The body is at its proper end; is the answer, too?"""
        rest = self._events.flush()
        out: list[Chunk] = []
        if rest is not None:
            try:
                self._translator.feed(rest, out)
            except LlmError as error:
                if error.code == "MALFORMED_RESPONSE":
                    error = self._error("ended the answer in the middle of an event", "STREAM_CLOSED", retryable=True)
                await self._fail(error, out)
                return
        self._ready.extend(out)
        if rest is None and not self._fed and not _may_be_events(self._head):
            shown = shorten(self._head.decode("utf-8", "replace"), 200)
            await self._fail(self._error(f"gave no model's answer; check the base URL: {shown}", _BAD), [])
        elif not self._begun:
            await self._fail(self._error("sent an empty answer", "EMPTY_RESPONSE", retryable=True), [])
        elif not self._translator.complete:
            await self._fail(
                self._error("ended the answer before it was finished", "STREAM_CLOSED", retryable=True), []
            )
        else:
            await self._finish(whole=True)

    async def _whole_answer(self, exchange: Exchange, data: bytes) -> None:
        """A 200 that is no event stream: an answer in one piece, an error, or a page for people."""
        place = self._service.place
        with trio.move_on_after(self._longest()) as scope:
            body = data + await read_all(exchange, place.between, place.max_answer_bytes)
        if scope.cancelled_caught:
            await self._fail(self._only_alive(), [])
            return
        if len(body) > place.max_answer_bytes:
            await self._fail(self._too_long(), [])
            return
        out: list[Chunk] = []
        try:
            self._translator.feed(body.removeprefix(b"\xef\xbb\xbf").strip(), out)
        except LlmError as error:
            if error.code == "MALFORMED_RESPONSE":
                shown = shorten(body[:2000].decode("utf-8", "replace"), 200)
                error = self._error(f"gave no model's answer; check the base URL: {shown}", "MALFORMED_RESPONSE")
            await self._fail(error, out)
            return
        self._ready.extend(out)
        await self._finish(whole=True)

    async def _finish(self, *, whole: bool) -> None:
        try:
            last = self._translator.finish()
            if (
                last
                and isinstance(end := last[-1], Finish)
                and end.reason.kind == "error"
                and end.reason.code in _PASSING
            ):
                del last[-1]
                self._failure = self._error_of(end.reason)
            self._ready.extend(last)
        except LlmError as error:
            self._failure = self._service.masked(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._failure = self._error(f"ended the answer with data that is wrong: {error}", "MALFORMED_RESPONSE")
        await self._end(whole=whole)

    async def _fail(self, error: LlmError, out: list[Chunk]) -> None:
        """`error`, after the chunks that came before it."""
        self._ready.extend(out)
        self._failure = self._service.masked(error)
        await self._end(whole=False)

    def _error_of(self, reason: FinishReason) -> LlmError:
        error = LlmError(reason.message or "the service broke the answer off", code=reason.code, retryable=True)
        return self._service.masked(error)

    def _longest(self) -> float:
        """Seconds that a service may be busy without saying anything."""
        return _SIGNS_OF_LIFE * self._service.place.first_byte

    def _only_alive(self) -> LlmError:
        what = f"has said nothing but that it lives for {self._longest():g} seconds"
        return self._error(what, "TIMEOUT", retryable=True)

    def _too_long(self) -> LlmError:
        most = self._service.place.max_answer_bytes
        what = f"sent an answer of more than {most} bytes; if that is no mistake, raise max_answer_bytes"
        return self._error(what, "ANSWER_TOO_LONG")

    def _error(self, what: str, code: str, *, retryable: bool = False) -> LlmError:
        return LlmError(f"{self._service.place.name} {what}", code=code, retryable=retryable)


def _may_be_events(head: bytes) -> bool:
    """Whether a body that begins so, or has no more than that, may be a stream of events."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return any(head.startswith(field) or field.startswith(head) for field in _FIELDS)
