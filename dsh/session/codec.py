"""The log's values as JSON, and back: one converter for the whole vocabulary.

A `Codec` knows the classes of `dsh.session.events` and those that plugins added.  The functions
that convert a class are generated when it is first met, so that a program pays for what it uses.

An event that was read keeps its line and is written as that line again.  What a type's class has
no attribute for is therefore not lost, nor is a type, a block or a source that nobody knows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from ..errors import CorruptSession
from ..jsonvalue import FrozenDict, FrozenList, Json, NotJson, dumps, freeze, loads
from ..llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from ..messages import (
    Block,
    MessageSource,
    OtherBlock,
    OtherSource,
    PluginSource,
    Reasoning,
    Text,
    ToolCallBlock,
    ToolResultBlock,
    UserSource,
)
from .events import FORMAT, VOCABULARY, Event, OtherData, Replace, SurfaceOp
from .store import SessionHeader

__all__ = ["Codec", "default_codec"]

T = TypeVar("T")
_ToJson: TypeAlias = Callable[[Any], Json]
_FromJson: TypeAlias = Callable[[Json, Any], Any]

_BLOCKS = (Text, Reasoning, ToolCallBlock, ToolResultBlock)
_CHUNKS = (BlockStart, TextDelta, ReasoningDelta, ToolCallDelta, BlockEnd, Usage, Finish)
_SOURCES = (UserSource, PluginSource)
_TAGS: dict[type[Any], tuple[str, str]] = {
    **{cls: ("type", cls.type) for cls in (*_BLOCKS, *_CHUNKS)},
    **{cls: ("kind", cls.kind) for cls in _SOURCES},
}
SURFACE: frozenset[type[Any]] = frozenset(cls for cls in VOCABULARY if getattr(cls, "surface", False))
"""The classes of events that the model sees."""


class Codec:
    """Converts events, and the values they are made of, to JSON and back.

    Args:
        extra_types: plugins' own event classes: frozen attrs classes with a ``type`` class variable.
    """

    def __init__(self, extra_types: Iterable[type[Any]] = ()) -> None:
        self.types: Mapping[str, type[Any]] = {cls.type: cls for cls in (*VOCABULARY, *extra_types)}
        self._to_json = _Unstructurers()
        self._from_json: dict[type[Any], _FromJson] = {}
        self._encoded: Event | None = None
        self._line = b""

    # -- events

    def encode(self, event: Event) -> bytes:
        """The event's line, without the newline: the one it was read from, if it was read.

        The line made last is kept, so that whoever listens to an append gets it for nothing.

        Raises:
            NotJson: the data cannot be serialized as JSON; the message names the type.
        """
        if event.raw is not None:
            return event.raw
        if event is self._encoded:
            return self._line
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
        self._encoded, self._line = event, line
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
            return Event(seq, time, OtherData(kind, data), sources, operation, raw)
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
        return dumps({"type": "session", **self.to_json(header)})

    def decode_header(self, line: bytes) -> SessionHeader:
        """The header of a session's first line.

        Raises:
            CorruptSession: the line is not a session header, or its format is not known here.
        """
        try:
            record = loads(line)
        except ValueError as error:
            raise CorruptSession(f"the header is not JSON: {error}") from None
        if not isinstance(record, dict) or record.get("type") != "session":
            raise CorruptSession("the first line is not the header of a session")
        if record.get("version") != FORMAT:
            raise CorruptSession(
                f"log format {record.get('version')!r} is not known; this version of dsh reads {FORMAT}"
            )
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
            return cast(T, _converter().structure(value, cls))
        except Exception as error:
            raise ValueError(f"{getattr(cls, '__name__', cls)}: {_explain(value, cls, error)}") from None

    def _structure(self, data: Json, cls: type[Any], kind: str) -> Any:
        try:
            function = self._from_json.get(cls)
            if function is None:
                function = self._from_json[cls] = _converter().get_structure_hook(cls)
            return function(data, cls)
        except Exception as error:
            raise CorruptSession(f"{kind}: {_explain(data, cls, error)}") from None


@functools.cache
def default_codec() -> Codec:
    """The codec of the core's own vocabulary."""
    return Codec()


_TRUSTED = frozenset((*VOCABULARY, OtherData))


class _Unstructurers(dict[type[Any], _ToJson]):
    """The function for each class, made when it is first asked for."""

    def __missing__(self, cls: type[Any]) -> _ToJson:
        function: _ToJson = _converter().get_unstructure_hook(cls)
        self[cls] = function
        return function


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


# -- the converter


@functools.cache
def _converter(detailed: bool = False) -> cattrs.Converter:
    """The converter of the vocabulary; the detailed one is slower and says what was wrong."""
    converter = cattrs.Converter(detailed_validation=detailed, unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook_factory(attrs.has, functools.partial(_unstructure_class, converter))
    converter.register_structure_hook_factory(attrs.has, functools.partial(_structure_class, converter))
    if not detailed:
        converter.register_structure_hook_factory(_is_series, functools.partial(_structure_series, converter))
    for cls in (str, int, bool):
        converter.register_structure_hook(cls, _exactly(cls))
    converter.register_structure_hook(float, _number)
    converter.register_unstructure_hook(float, _finite)
    for union, tag, classes, other in (
        (Block, "type", _BLOCKS, OtherBlock),
        (MessageSource, "kind", _SOURCES, OtherSource),
        (Chunk, "type", _CHUNKS, None),
    ):
        _register_union(converter, union, tag, classes, other)
    for kept in (OtherBlock, OtherSource, OtherData):
        converter.register_unstructure_hook(kept, _own_data)
    return converter


def _own_data(value: OtherBlock | OtherSource | OtherData) -> Json:
    return value.data


def _unstructure_class(converter: cattrs.Converter, cls: type[Any]) -> _ToJson:
    """Attributes by their JSON names, without those that are None by default; a tag first."""
    fields = attrs.fields(attrs.resolve_types(cls))
    optional = {_camel_case(field.name) for field in fields if field.default is None}
    in_order = [_camel_case(field.name) in optional for field in fields]
    late = in_order != sorted(in_order)
    # What may be left out is put last by cattrs; where that is not its place, it is left out afterwards.
    overrides = {
        field.name: override(rename=_camel_case(field.name), omit_if_default=not late and field.default is None)
        for field in fields
    }
    plain: _ToJson = make_dict_unstructure_fn(cls, converter, **overrides)  # type: ignore[arg-type]  # kwargs are overrides
    if late:
        plain = _leaving_out(optional, plain)
    if cls not in _TAGS:
        return plain
    tag, name = _TAGS[cls]

    def tagged(value: Any) -> Json:
        return {tag: name, **plain(value)}

    return tagged


def _leaving_out(optional: set[str], plain: _ToJson) -> _ToJson:
    def unstructure(value: Any) -> Json:
        return {key: item for key, item in plain(value).items() if item is not None or key not in optional}

    return unstructure


def _structure_class(converter: cattrs.Converter, cls: type[Any]) -> _FromJson:
    fields = attrs.fields(attrs.resolve_types(cls))
    overrides = {field.name: override(rename=_camel_case(field.name)) for field in fields}
    plain = make_dict_structure_fn(
        cls,
        converter,
        _cattrs_detailed_validation=converter.detailed_validation,
        **overrides,  # type: ignore[arg-type]  # kwargs are overrides
    )

    def structure(value: Json, _: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, not {_called(value)}")
        return plain(value, cls)

    return structure


def _is_series(wanted: Any) -> bool:
    return get_origin(wanted) is tuple and get_args(wanted)[1:] == (...,)


def _structure_series(converter: cattrs.Converter, wanted: Any) -> _FromJson:
    """Tuples of one type, in a third of the time that cattrs takes for any tuple."""
    item_type = get_args(wanted)[0]
    hook: _FromJson = converter.get_structure_hook(item_type)

    def structure(value: Json, _: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, not {_called(value)}")
        return tuple([hook(item, item_type) for item in value])

    return structure


def _register_union(
    converter: cattrs.Converter, union: Any, tag: str, classes: tuple[type[Any], ...], other: type[Any] | None
) -> None:
    known = {_TAGS[cls][1]: cls for cls in classes}
    hooks: dict[str, _FromJson] = {}
    writers: dict[type[Any], _ToJson] = {}
    allowed = {*classes, other}

    def structure(value: Json, _: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, not {_called(value)}")
        name = value.get(tag)
        hook = hooks.get(name) if isinstance(name, str) else None
        if hook is None:
            cls = known.get(name) if isinstance(name, str) else None
            if cls is None:
                if other is None:
                    raise ValueError(f"unknown {tag} {name!r}; known are {', '.join(known)}")
                return other(value)
            hook = hooks[_TAGS[cls][1]] = converter.get_structure_hook(cls)
        return hook(value, None)

    def unstructure(value: Any) -> Json:
        writer = writers.get(value.__class__)
        if writer is None:
            if value.__class__ not in allowed:
                raise NotJson(f"a {type(value).__name__} where one of {', '.join(c.__name__ for c in classes)} belongs")
            writer = writers[value.__class__] = converter.get_unstructure_hook(value.__class__)
        return writer(value)

    converter.register_structure_hook_func(lambda wanted: wanted == union, structure)
    converter.register_unstructure_hook_func(lambda wanted: wanted == union, unstructure)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _called(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _exactly(cls: type[Any]) -> _FromJson:
    def structure(value: Json, _: Any) -> Any:
        if value.__class__ is cls:
            return value
        raise TypeError(f"expected {cls.__name__}, not {_called(value)}")

    return structure


def _number(value: Json, _: Any) -> float:
    if value.__class__ is float or value.__class__ is int:
        return cast(float, value)
    raise TypeError(f"expected a number, not {_called(value)}")


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise NotJson(f"{value} is no JSON number")


def _explain(value: Json, cls: Any, error: Exception) -> str:
    """What does not fit, from a second try with the converter that keeps count."""
    try:
        _converter(detailed=True).structure(value, cls)
    except cattrs.BaseValidationError as detailed:
        return "; ".join(cattrs.transform_error(detailed, path="data", format_exception=_complaint))
    except Exception as plain:
        return str(plain)
    return str(error)


def _complaint(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return "missing"
    return str(error) or type(error).__name__
