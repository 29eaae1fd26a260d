"""The log's values as JSON, and back: one converter for the whole vocabulary.

A `Codec` knows the classes of `dsh.session.events` and those that plugins added.  The functions
that convert a class are generated when it is first met, so that a program pays for what it uses.

An event that was read keeps its line and is written as that line again.  What a type's class has
no attribute for is therefore not lost, nor is a type, a block or a source that nobody knows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import attrs

from ..errors import CorruptSession
from ..jsonvalue import FrozenDict, FrozenList, Json, NotJson, clean, dumps, freeze, loads
from .converter import FromJson, ToJson, converter, explain
from .events import (
    FORMAT,
    VOCABULARY,
    Event,
    OtherData,
    Replace,
    RequestHeader,
    RequestHeaderDelta,
    StepEnd,
    StepStart,
    SurfaceOp,
    TurnEnd,
    TurnStart,
)
from .store import SessionHeader

__all__ = ["FOLDED", "Codec", "default_codec"]

T = TypeVar("T")
SURFACE: frozenset[type[Any]] = frozenset(cls for cls in VOCABULARY if getattr(cls, "surface", False))
"""The classes of events that the model sees."""
FOLDED: frozenset[type[Any]] = SURFACE | {TurnStart, TurnEnd, StepStart, StepEnd, RequestHeader, RequestHeaderDelta}
"""The classes of events that a session is made from when it is loaded."""


class Codec:
    """Converts events, and the values they are made of, to JSON and back.

    Args:
        extra_types: plugins' own event classes: frozen attrs classes with a ``type`` class variable.
    """

    def __init__(self, extra_types: Iterable[type[Any]] = ()) -> None:
        self.types: Mapping[str, type[Any]] = {cls.type: cls for cls in (*VOCABULARY, *extra_types)}
        self._to_json = _Unstructurers()
        self._from_json: dict[type[Any], FromJson] = {}
        self._last: tuple[Event | None, bytes] = (None, b"")  # one value, as threads may load meanwhile

    # -- events

    def encode(self, event: Event) -> bytes:
        """The event's line, without the newline: the one it was read from, if it was read.

        The line made last is kept, so that whoever listens to an append gets it for nothing.

        Raises:
            NotJson: the data cannot be serialized as JSON; the message names the type.
        """
        if event.raw is not None:
            return event.raw
        last, line = self._last
        if event is last:
            return line
        data = event.data
        try:
            record: dict[str, Any] = {
                "type": data.type,
                "seq": event.seq,
                "time": event.time,
                "data": self._to_json[data.__class__](data),
            }
            if event.source_event_seqs is not None:
                record["sourceEventSeqs"] = event.source_event_seqs
            if event.surface_op is not None:
                record["surfaceOp"] = _surface_op_to_json(event.surface_op)
            line = dumps(record)
        except Exception as error:
            raise NotJson(_unserializable(data, error)) from error
        self._last = (event, line)
        return line

    def decode(self, line: bytes) -> Event:
        """The event of a line; it keeps the line.

        Raises:
            CorruptSession: the line is not JSON, not an event, or its data do not fit its type.
        """
        try:
            record = loads(line)
        except ValueError as error:
            raise CorruptSession(f"not JSON: {error}") from None
        return self.event(record, line)

    def read(self, line: bytes) -> Event:
        """Like `decode`, but where no session is made from such events, one that does not fit is kept unread.

        It is then an event of a type that nobody knows: another version may have written it.

        Raises:
            CorruptSession: the line is no event, or a session is made from it and its data do not fit.
        """
        try:
            return self.decode(line)
        except CorruptSession:
            event = self._unread(line)
            if event is None:
                raise
            return event

    def _unread(self, line: bytes) -> Event | None:
        try:
            record = loads(line)
            kind, seq, time, data = record["type"], record["seq"], record["time"], record["data"]
        except (ValueError, KeyError, TypeError):
            return None
        if kind.__class__ is not str or seq.__class__ is not int or time.__class__ is not int:
            return None
        return None if self.types.get(kind) in FOLDED else Event(seq, time, _unknown(kind, data), raw=line)

    def event(self, record: Json, raw: bytes | None = None) -> Event:
        """The event of a parsed line.

        Raises:
            CorruptSession: it is not an event, or its data do not fit its type; the message names type and field.
        """
        try:
            kind, seq, time, data = record["type"], record["seq"], record["time"], record["data"]
        except (KeyError, TypeError):
            raise CorruptSession("not an event: it needs type, seq, time and data") from None
        if kind.__class__ is not str or seq.__class__ is not int or time.__class__ is not int:
            raise CorruptSession("not an event: type must be a string, seq and time integers")
        sources = record.get("sourceEventSeqs")
        if sources is not None:
            sources = _seqs(sources, kind)
        operation = record.get("surfaceOp")
        if operation is not None and operation != "append":
            operation = _surface_op(operation, kind)
        cls = self.types.get(kind)
        if cls is None:
            return Event(seq, time, _unknown(kind, data), sources, operation, raw)
        if operation is None and cls in SURFACE:
            raise CorruptSession(f"{kind}: surfaceOp is missing")
        return Event(seq, time, self._structure(data, cls, kind), sources, operation, raw)

    def imported(self, data: Any) -> Any:
        """`data` as the log may keep it: of the core's classes itself, of others a copy that nobody can change.

        Raises:
            NotJson: it is no event data, or cannot be serialized as JSON.
        """
        if data.__class__ in _TRUSTED:
            return data
        cls = type(data)
        try:
            if not isinstance(getattr(data, "type", None), str) or not attrs.has(cls):
                raise NotJson("event data is an instance of an attrs class with a `type` class variable")
            tree = freeze(self._to_json[cls](data))
            return self._structure(tree, cls, data.type) if _changeable(data) else data
        except Exception as error:
            raise NotJson(_unserializable(data, error)) from error

    # -- headers and single values

    def encode_header(self, header: SessionHeader) -> bytes:
        """The first line of a session's file, without the newline."""
        # A folder's name may be no UTF-8; `clean` is how such a name is spelled wherever it is stored or looked for.
        cwd = header.cwd if header.cwd is None else clean(header.cwd)
        return dumps({"type": "session", **self.to_json(attrs.evolve(header, cwd=cwd))})

    def decode_header(self, line: bytes) -> SessionHeader:
        """The header of a session's first line.

        Raises:
            CorruptSession: the line is not a session header, or its format is not known here.
        """
        try:
            if b"\0" in line:  # as in UTF-16, which the standard library would guess
                raise ValueError("it is no UTF-8")
            record = loads(line)
        except ValueError as error:
            raise CorruptSession(f"the header is not JSON: {error}") from None
        if not isinstance(record, dict) or record.get("type") != "session":
            raise CorruptSession("the first line is not the header of a session")
        version = record.get("version")
        if type(version) is not int or version != FORMAT:
            raise CorruptSession(_other_format(version))
        return cast(SessionHeader, self._structure(record, SessionHeader, "session"))

    def to_json(self, value: Any) -> Json:
        """A block, source, chunk, message, header or event as plain JSON."""
        if isinstance(value, Event):
            return loads(self.encode(value))
        if isinstance(value, list | tuple):
            return [self.to_json(item) for item in value]
        return self._to_json[value.__class__](value)

    def from_json(self, value: Json, cls: type[T] | Any) -> T:
        """An instance of `cls` (a class or a union of the vocabulary) from plain JSON.

        Raises:
            ValueError: `value` does not fit; the message names the field.
        """
        try:
            return cast(T, converter().structure(value, cls))
        except Exception as error:
            raise ValueError(f"{getattr(cls, '__name__', cls)}: {explain(value, cls, error)}") from None

    def _structure(self, data: Json, cls: type[Any], kind: str) -> Any:
        try:
            function = self._from_json.get(cls)
            if function is None:
                function = self._from_json[cls] = converter().get_structure_hook(cls)
            return function(data, cls)
        except Exception as error:
            raise CorruptSession(f"{kind}: {explain(data, cls, error)}") from None


@functools.cache
def default_codec() -> Codec:
    """The codec of the core's own vocabulary."""
    return Codec()


_TRUSTED = frozenset((*VOCABULARY, OtherData))


class _Unstructurers(dict[type[Any], ToJson]):
    """The function for each class, made when it is first asked for."""

    def __missing__(self, cls: type[Any]) -> ToJson:
        function: ToJson = converter().get_unstructure_hook(cls)
        self[cls] = function
        return function


def _unknown(kind: str, data: Json) -> OtherData:
    try:
        return OtherData(kind, data)
    except NotJson as error:
        raise CorruptSession(f"{kind}: {error}") from None


def _other_format(version: Json) -> str:
    if type(version) is not int:
        return f"the header's version is {version!r}, which is no log format"
    if version > FORMAT:
        return (
            f"log format {version} is newer than this dsh, which knows {FORMAT}: "
            "the session was written by a later version; install that one to read it"
        )
    return f"log format {version} is older than this dsh, which knows {FORMAT} and has no way to convert it"


def _unserializable(data: object, error: Exception) -> str:
    kind = getattr(data, "type", None)
    name = kind if isinstance(kind, str) else type(data).__name__
    reason = str(error).removeprefix("cannot be serialized as JSON: ") or type(error).__name__
    return f"{name}: the event's data cannot be serialized as JSON: {reason}"


def _changeable(value: object) -> bool:
    """Whether somebody who holds a part of `value` could still change it."""
    if isinstance(value, FrozenDict | FrozenList):
        return False
    if isinstance(value, tuple):
        return any(_changeable(item) for item in value)
    cls: type[Any] = type(value)
    if attrs.has(cls):
        return any(_changeable(getattr(value, field.name)) for field in attrs.fields(cls))
    return isinstance(value, dict | list | set | bytearray)


# -- the envelope


def _surface_op_to_json(operation: SurfaceOp) -> Json:
    if isinstance(operation, str):
        return operation
    return {"op": "replace", "start": operation.start, "end": operation.end}


def _surface_op(value: Json, kind: str) -> Replace:
    if isinstance(value, dict) and value.get("op") == "replace":
        start, end = value.get("start"), value.get("end")
        if type(start) is int and type(end) is int:
            return Replace(start, end)
    raise CorruptSession(f"{kind}: surfaceOp is neither 'append' nor a replace with start and end")


def _seqs(value: Json, kind: str) -> tuple[int, ...]:
    if isinstance(value, list) and {*map(type, value)} <= {int}:
        return tuple(value)
    raise CorruptSession(f"{kind}: sourceEventSeqs is no list of integers")
