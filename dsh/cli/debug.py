"""``--debug``: a line about every model request."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..hooks.markers import hookimpl
from ..jsonvalue import dumps
from ..messages import Message
from ..session.codec import default_codec

if TYPE_CHECKING:
    from ..llm.adapter import Request
    from ..llm.chunks import ChunkStream

__all__ = ["RequestDigests"]

_BYTES = object()
"""The key of `Message.memo`."""


@define
class _Seen:
    count: int = 0
    messages: tuple[Message, ...] = ()
    running: Any = field(factory=hashlib.sha256)


class RequestDigests:
    """A plugin that prints how many messages a request has, their digest, and whether they extend the last request's.

    Messages that are the same objects as before are not looked at again, so a step costs what it adds.
    """

    def __init__(self) -> None:
        self._seen: dict[str | None, _Seen] = {}

    @hookimpl(wrapper=True, tryfirst=True)
    def llm_stream(self, request: Request) -> Generator[None, ChunkStream, ChunkStream]:
        """Print the line, and change nothing."""
        self._report(request)
        return (yield)

    def _report(self, request: Request) -> None:
        seen = self._seen.setdefault(request.session_id, _Seen())
        before, messages = seen.messages, request.messages
        extends = len(messages) >= len(before) and all(
            new is old or _bytes(new) == _bytes(old) for new, old in zip(messages, before, strict=False)
        )
        if not extends:
            seen.running = hashlib.sha256()
        for message in messages[len(before) if extends else 0 :]:
            seen.running.update(_bytes(message))
        first = seen.count == 0
        seen.count, seen.messages = seen.count + 1, messages
        print(
            f"dsh: request {seen.count} of {request.session_id or '-'}: {request.model}, {len(messages)} messages,"
            f" sha256={seen.running.hexdigest()[:16]}, extends={'first' if first else 'yes' if extends else 'no'}",
            file=sys.stderr,
            flush=True,
        )


def _bytes(message: Message) -> bytes:
    found: bytes | None = message.memo.get(_BYTES)
    if found is None:
        found = message.memo[_BYTES] = dumps(default_codec().to_json(message)) + b"\n"
    return found
