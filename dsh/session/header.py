"""Request headers: how the log records what a request holds beside its messages.

The first request of an agent writes the whole header; later ones write what changed, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..errors import CorruptSession
from ..jsonvalue import dumps
from ..messages import Message, ToolSchema
from .codec import default_codec
from .events import Event, Header, LinesDelta, RequestHeader, RequestHeaderDelta, ToolsDelta

if TYPE_CHECKING:
    from .log import Session

__all__ = ["canonical", "diff", "fold", "fold_all", "owed", "same"]

T = TypeVar("T")


def canonical(header: Header) -> Header:
    """`header` with None for empty text, no tools and no prefix."""
    if header.system == "" or header.tools == () or header.message_prefix == ():
        return attrs.evolve(
            header,
            system=header.system or None,
            tools=header.tools or None,
            message_prefix=header.message_prefix or None,
        )
    return header


def same(a: Header | None, b: Header | None) -> bool:
    """Whether two canonical headers make the same request, byte for byte."""
    if a is b:
        return True
    if a is None or b is None:
        return False
    return (
        a.config == b.config
        and a.system == b.system
        and _same_tools(a.tools, b.tools)
        and _same_prefix(a.message_prefix, b.message_prefix)
    )


def _same_tools(a: tuple[ToolSchema, ...] | None, b: tuple[ToolSchema, ...] | None) -> bool:
    if a is b:
        return True
    if a is None or b is None or len(a) != len(b):
        return False
    return all(_same_tool(x, y) for x, y in zip(a, b, strict=True))


def _same_tool(a: ToolSchema, b: ToolSchema) -> bool:
    # Equality of dicts knows neither the order of keys nor 1 from True; a request's bytes do.
    return a is b or (
        a.name == b.name
        and a.description == b.description
        and (a.parameters is b.parameters or dumps(a.parameters) == dumps(b.parameters))
    )


def _same_prefix(a: tuple[Message, ...] | None, b: tuple[Message, ...] | None) -> bool:
    if a is b:
        return True
    if not a or not b or len(a) != len(b):
        return not a and not b
    codec = default_codec()
    return dumps(codec.to_json(a)) == dumps(codec.to_json(b))


def diff(old: Header, new: Header) -> RequestHeaderDelta | None:
    """What turns `old` into `new`, both canonical; None if a delta cannot say it."""
    delta = RequestHeaderDelta(
        system=None if old.system == new.system else _lines_delta(_lines(old.system), _lines(new.system)),
        tools=None if _same_tools(old.tools, new.tools) else _tools_delta(old.tools or (), new.tools or ()),
        config=None if old.config == new.config else new.config,
        message_prefix=None if _same_prefix(old.message_prefix, new.message_prefix) else new.message_prefix or (),
    )
    return delta if same(_amended(old, delta), new) else None


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.split("\n")


def _lines_delta(old: list[str], new: list[str]) -> LinesDelta:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return LinesDelta(start, end, tuple(new[start : len(new) - end]))


def _tools_delta(old: tuple[ToolSchema, ...], new: tuple[ToolSchema, ...]) -> ToolsDelta:
    before = {tool.name: tool for tool in old}
    names = {tool.name for tool in new}
    return ToolsDelta(
        added=tuple(tool for tool in new if tool.name not in before),
        removed=tuple(name for name in before if name not in names),
        changed=tuple(tool for tool in new if tool.name in before and not _same_tool(before[tool.name], tool)),
    )


def fold(header: Header | None, data: RequestHeader | RequestHeaderDelta, seq: int) -> Header:
    """The header in force after one more header event.

    Args:
        header: the one in force before, if any.
        data: the event's data.
        seq: the event's, for the error.

    Raises:
        CorruptSession: there is nothing that the delta could change, or it does not fit what there is.
    """
    if isinstance(data, RequestHeader):
        return canonical(data.header)
    if header is None:
        raise CorruptSession(f"event {seq} changes a request header, but there is none before it")
    try:
        return _amended(header, data)
    except ValueError as error:
        raise CorruptSession(f"event {seq} does not fit the request header before it: {error}") from None


def fold_all(events: Iterable[Event]) -> Header | None:
    """The header in force after `events`."""
    header: Header | None = None
    for event in events:
        if isinstance(event.data, RequestHeader | RequestHeaderDelta):
            header = fold(header, event.data, event.seq)
    return header


def _amended(header: Header, delta: RequestHeaderDelta) -> Header:
    return canonical(
        Header(
            config=_or(delta.config, header.config),
            system=header.system if delta.system is None else _amended_text(header.system, delta.system),
            tools=header.tools if delta.tools is None else _amended_tools(header.tools or (), delta.tools),
            message_prefix=_or(delta.message_prefix, header.message_prefix),
        )
    )


def _or(new: T | None, old: T) -> T:
    return old if new is None else new


def _amended_text(text: str | None, delta: LinesDelta) -> str | None:
    lines = _lines(text)
    if min(delta.keep_start, delta.keep_end) < 0 or delta.keep_start + delta.keep_end > len(lines):
        raise ValueError(f"it keeps more lines than the {len(lines)} of the system prompt")
    lines[delta.keep_start : len(lines) - delta.keep_end] = delta.insert
    return "\n".join(lines) if lines else None


def _amended_tools(tools: tuple[ToolSchema, ...], delta: ToolsDelta) -> tuple[ToolSchema, ...]:
    by_name = {tool.name: tool for tool in tools}
    for name in (*delta.removed, *(tool.name for tool in delta.changed)):
        if name not in by_name:
            raise ValueError(f"there is no tool {name!r}")
    for name in delta.removed:
        del by_name[name]
    for tool in (*delta.changed, *delta.added):
        by_name[tool.name] = tool
    return tuple(by_name.values())


def owed(session: Session, wanted: Header, anchored: bool) -> RequestHeader | RequestHeaderDelta | None:
    """What has to be logged before a request with the header `wanted`; None if the log says it already.

    Args:
        session: the session of the request.
        wanted: the header, canonical or not.
        anchored: whether this agent has logged a whole header already.
    """
    wanted = canonical(wanted)
    if not anchored or not session.has_header:
        return RequestHeader(wanted, "resume" if session.has_header else "initial")
    logged = session.request_header()
    assert logged is not None  # there is an event of it
    if same(logged, wanted):
        return None
    return diff(logged, wanted) or RequestHeader(wanted, "fallback")
