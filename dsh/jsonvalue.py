"""JSON values that nobody can change, and the one encoder of the project.

A value that enters the log from outside (a tool's ``meta``, a schema's ``parameters``, a
plugin's own event) is copied by `freeze`, which also refuses what is not JSON.  The copies
are dicts and lists to every reader and to every encoder, and raise on writing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import orjson

__all__ = ["Json", "NotJson", "clean", "dumps", "freeze", "loads", "thaw"]

Json: TypeAlias = Any
"""``None``, bool, int, finite float, str, list and dict with str keys, nested."""

_SURROGATES = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """A value cannot be serialized as JSON; the message says where and why."""


class FrozenDict(dict[str, Any]):
    """A dict that refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            "this value belongs to the session log and cannot be changed; copy it with dsh.jsonvalue.thaw()"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self


class FrozenList(list[Any]):
    """A list that refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            "this value belongs to the session log and cannot be changed; copy it with dsh.jsonvalue.thaw()"
        )

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self


def clean(text: str) -> str:
    """`text` without lone surrogates, which neither UTF-8 nor JSON encoders take.

    Halves that belong together are joined; what stays alone becomes U+FFFD.
    """
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def freeze(value: Json) -> Json:
    """A deep copy of `value` that cannot be changed.

    Raises:
        NotJson: for NaN and infinities, tuples, sets, bytes, other objects, keys that are no
            strings, and cycles.  The message names the place, as in ``$.a[2]``.
    """
    if isinstance(value, FrozenDict | FrozenList):
        return value
    try:
        return _freeze(value, "$", ())
    except RecursionError:
        raise NotJson("cannot be serialized as JSON: it is nested too deeply") from None


def _freeze(value: Json, path: str, above: tuple[int, ...]) -> Json:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise NotJson(f"cannot be serialized as JSON: {path} is {value}")
    if isinstance(value, dict | list):
        if id(value) in above:
            raise NotJson(f"cannot be serialized as JSON: {path} contains itself")
        above = (*above, id(value))
        if isinstance(value, list):
            return FrozenList(_freeze(item, f"{path}[{n}]", above) for n, item in enumerate(value))
        for key in value:
            if not isinstance(key, str):
                raise NotJson(f"cannot be serialized as JSON: {path} has the key {key!r}, which is no string")
        return FrozenDict({clean(key): _freeze(item, f"{path}.{key}", above) for key, item in value.items()})
    raise NotJson(f"cannot be serialized as JSON: {path} is a {type(value).__name__}")


def thaw(value: Json) -> Json:
    """A deep copy of `value` in plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value


def dumps(value: Json) -> bytes:
    """Compact UTF-8 JSON: no spaces, insertion order, nothing escaped that need not be.

    Integers beyond 64 bits, which orjson refuses, take the standard library's way.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return _dumps(value)


def _dumps(value: Json) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    except RecursionError:
        raise NotJson("cannot be serialized as JSON: it is nested too deeply") from None


def loads(data: bytes | str) -> Json:
    """Parse JSON; integers keep all their digits and lone surrogates become U+FFFD.

    Raises:
        ValueError: the text is not JSON (NaN and Infinity are not).
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return thaw(freeze(_loads(data)))
    # orjson turns integers beyond 64 bits into floats; such text is rare, and shows.
    if _LONG_INTEGER.search(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")):
        return _loads(data)
    return value


def _loads(data: bytes | str) -> Json:
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_LONG_INTEGER = re.compile(rb"[0-9]{19,}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
