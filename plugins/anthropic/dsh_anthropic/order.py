"""Encoded messages, put in the order that the service demands."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dsh.jsonvalue import dumps

__all__ = ["Order", "Part", "text_block"]

_NO_RESULT = "(the call was not answered)"
_BEGINNING = "(the conversation goes on)"


@frozen
class Part:
    """One message, encoded.

    Attributes:
        blocks: what is sent of it beside results.
        calls: ids that must be answered after it.
        results: the id of each call, its answer, and the answer as words of a person.
    """

    role: str
    blocks: tuple[bytes, ...]
    calls: tuple[str, ...] = ()
    results: tuple[tuple[str, bytes, bytes], ...] = ()


class Order:
    """Puts encoded messages in the order that the service demands.

    What nothing can change any more is joined; the last two messages of the user, which carry the
    marks, and the one between them stay in blocks.
    """

    __slots__ = ("_answers", "_assistant", "_done", "_open", "_said", "_user")

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._user: list[bytes] = []
        self._assistant: list[bytes] = []
        self._open: tuple[str, ...] = ()
        self._answers: dict[str, bytes] = {}
        self._said: list[bytes] = []

    def add(self, part: Part) -> None:
        """Append `part`."""
        if part.role == "assistant":
            if part.blocks:
                self._take_turns(part)
            return
        for call, answer, words in part.results:
            if call in self._open and call not in self._answers:
                self._answers[call] = answer
            else:
                # Nobody called, so it can only be something that a person said.
                self._said.append(words)
        self._said += part.blocks

    def turns(self, mark: bytes, begun: Sequence[bytes]) -> list[bytes]:
        """Every message, and the beginning of an answer behind them.

        The service keeps what it has up to a mark.  Of the four that a request may have, tools and
        system prompt carry two.  The last message moves with each request, and the one before it
        is where the last request's mark stood.
        """
        last = self._last_of_user()
        if not self._assistant:
            last = last or [text_block(_BEGINNING)]
        elif not last:
            return [*self._done, _turn(b"user", self._user, mark), _turn(b"assistant", [*self._assistant, *begun])]
        turns = self._done.copy()
        if self._assistant:
            turns += (_turn(b"user", self._user, mark), _turn(b"assistant", self._assistant))
        turns.append(_turn(b"user", last, mark))
        if begun:
            turns.append(_turn(b"assistant", begun))
        return turns

    def _take_turns(self, part: Part) -> None:
        last = self._last_of_user()
        if self._assistant and not last:
            self._assistant += part.blocks
        else:
            if self._assistant:
                self._done += (_turn(b"user", self._user), _turn(b"assistant", self._assistant))
            self._user, self._assistant = last or [text_block(_BEGINNING)], list(part.blocks)
        self._open, self._answers, self._said = part.calls, {}, []

    def _last_of_user(self) -> list[bytes]:
        """What the user said behind the last answer, results first."""
        return [*(self._answers.get(call) or _no_result(call) for call in self._open), *self._said]


def _turn(role: bytes, blocks: Sequence[bytes], mark: bytes = b"") -> bytes:
    end = mark + b"}]}" if mark else b"}]}"
    return b'{"role":"%s","content":[%s%s' % (role, b",".join(blocks)[:-1], end)


def text_block(text: str) -> bytes:
    """A block of text."""
    return dumps({"type": "text", "text": text})


def _no_result(call: str) -> bytes:
    return dumps({"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True})
