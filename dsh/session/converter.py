"""The one cattrs converter of the vocabulary, between attrs classes and plain JSON.

Names become camelCase, attributes that are None by default and None are left out, and members of
a union begin with their tag.  The functions for a class are generated when it is first met.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast, get_args, get_origin

import attrs
import cattrs
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from ..jsonvalue import Json, NotJson
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
from .events import OtherData

__all__ = ["FromJson", "ToJson", "converter", "explain"]

ToJson: TypeAlias = Callable[[Any], Json]
FromJson: TypeAlias = Callable[[Json, Any], Any]

_BLOCKS = (Text, Reasoning, ToolCallBlock, ToolResultBlock)
_CHUNKS = (BlockStart, TextDelta, ReasoningDelta, ToolCallDelta, BlockEnd, Usage, Finish)
_SOURCES = (UserSource, PluginSource)
_TAGS: dict[type[Any], tuple[str, str]] = {
    **{cls: ("type", cls.type) for cls in (*_BLOCKS, *_CHUNKS)},
    **{cls: ("kind", cls.kind) for cls in _SOURCES},
}


@functools.cache
def converter(detailed: bool = False) -> cattrs.Converter:
    """The converter of the vocabulary; the detailed one is slower and says what was wrong."""
    made = cattrs.Converter(detailed_validation=detailed, unstruct_collection_overrides={tuple: list})
    made.register_unstructure_hook_factory(attrs.has, functools.partial(_unstructure_class, made))
    made.register_structure_hook_factory(attrs.has, functools.partial(_structure_class, made))
    if not detailed:
        made.register_structure_hook_factory(_is_series, functools.partial(_structure_series, made))
    for cls in (str, int, bool):
        made.register_structure_hook(cls, _exactly(cls))
    made.register_structure_hook(float, _number)
    made.register_unstructure_hook(float, _finite)
    made.register_unstructure_hook_func(lambda wanted: wanted is Any, identity)
    for union, tag, classes, other in (
        (Block, "type", _BLOCKS, OtherBlock),
        (MessageSource, "kind", _SOURCES, OtherSource),
        (Chunk, "type", _CHUNKS, None),
    ):
        _register_union(made, union, tag, classes, other)
    for kept in (OtherBlock, OtherSource, OtherData):
        made.register_unstructure_hook(kept, _own_data)
    return made


def _own_data(value: OtherBlock | OtherSource | OtherData) -> Json:
    return value.data


def _unstructure_class(converter: cattrs.Converter, cls: type[Any]) -> ToJson:
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
    plain: ToJson = make_dict_unstructure_fn(cls, converter, **overrides)  # type: ignore[arg-type]  # kwargs are overrides
    if late:
        plain = _leaving_out(optional, plain)
    if cls not in _TAGS:
        return plain
    tag, name = _TAGS[cls]

    def tagged(value: Any) -> Json:
        return {tag: name, **plain(value)}

    return tagged


def _leaving_out(optional: set[str], plain: ToJson) -> ToJson:
    def unstructure(value: Any) -> Json:
        return {key: item for key, item in plain(value).items() if item is not None or key not in optional}

    return unstructure


def _structure_class(converter: cattrs.Converter, cls: type[Any]) -> FromJson:
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


def _structure_series(converter: cattrs.Converter, wanted: Any) -> FromJson:
    """Tuples of one type, in a third of the time that cattrs takes for any tuple."""
    item_type = get_args(wanted)[0]
    hook: FromJson = converter.get_structure_hook(item_type)

    def structure(value: Json, _: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, not {_called(value)}")
        return tuple([hook(item, item_type) for item in value])

    return structure


def _register_union(
    converter: cattrs.Converter, union: Any, tag: str, classes: tuple[type[Any], ...], other: type[Any] | None
) -> None:
    known = {_TAGS[cls][1]: cls for cls in classes}
    hooks: dict[str, FromJson] = {}
    writers: dict[type[Any], ToJson] = {}
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


def _exactly(cls: type[Any]) -> FromJson:
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


def explain(value: Json, cls: Any, error: Exception) -> str:
    """What does not fit, from a second try with the converter that keeps count."""
    try:
        converter(detailed=True).structure(value, cls)
    except cattrs.BaseValidationError as detailed:
        problems = cattrs.transform_error(detailed, path="data", format_exception=_complaint)
        return "; ".join(_ATTRIBUTE.sub(lambda name: _camel_case(name.group()), problem) for problem in problems)
    except Exception as plain:
        return str(plain)
    return str(error)


_ATTRIBUTE = re.compile(r"(?<=\w\.)[a-z_]+")


def _complaint(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return "missing"
    return str(error) or type(error).__name__
