"""A validator of JSON values against JSON schemas that says everything that is wrong, and never raises.

It judges the keywords that tools use: ``type`` ``properties`` ``required`` ``additionalProperties``
``patternProperties`` ``items`` ``prefixItems`` ``enum`` ``const`` ``anyOf`` ``oneOf`` ``allOf``
``minimum`` ``maximum`` ``exclusiveMinimum`` ``exclusiveMaximum`` ``minLength`` ``maxLength``
``pattern`` ``minItems`` ``maxItems`` ``uniqueItems`` and ``$ref`` to a place in the same schema.
What it does not know, what makes no sense, and a pattern that takes too long, constrains nothing.
``default`` is never applied.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

from attrs import frozen

from ..errors import ToolArgsError
from ..jsonvalue import Json, dumps

if TYPE_CHECKING:
    from .tool import Tool

__all__ = ["check_arguments", "violations"]

SEARCH_SECONDS = 1.0
"""How much of the processor's time a search for a pattern may take."""
MOST_HOPELESS = 1000
_CLOCK = signal.SIGVTALRM
_hopeless: set[str] = set()
"""Patterns that took longer once; they are not tried again."""


def check_arguments(tool: Tool, arguments: Json) -> None:
    """Compare the arguments of a call with the tool's schema.

    Raises:
        ToolArgsError: they do not fit; the message names every violation.
    """
    if isinstance(arguments, dict):
        found = violations(tool.parameters, arguments)
    else:
        found = [f"arguments must be an object, got {_shown(arguments)}"]
    if found:
        raise ToolArgsError(f"invalid arguments for {tool.name}: {'; '.join(found)}", found)


def violations(schema: Json, value: Json, root: str = "arguments", *, definitions: Json = None) -> list[str]:
    """Everything about `value` that `schema` does not allow, in the order in which the schema declares it.

    Args:
        schema: a JSON schema: an object, or true or false.
        value: any JSON value.
        root: what to call the value itself; the places in it are named without it, as in ``a.b`` or ``tags[1]``.
        definitions: the schema that ``$ref`` points into, where it is not `schema`.
    """
    check = _Check(schema if definitions is None else definitions, root)
    try:
        return list(dict.fromkeys(check.value(schema, value, "", ())))
    except RecursionError:
        return [f"{root} cannot be checked: schema or value is nested too deeply"]


_CHOICE = frozenset({"enum", "const"})
_COMBINED = frozenset({"allOf", "anyOf", "oneOf"})
_Refs = tuple[tuple[str, int], ...]
"""The references followed without going deeper into the value, so that a circle of them ends."""


@frozen
class _Check:
    definitions: Json
    root: str

    def name(self, path: str) -> str:
        return f'"{path}"' if path else self.root

    def value(self, schema: Json, value: Json, path: str, refs: _Refs) -> Iterator[str]:
        if schema is False:
            yield f"{self.name(path)} is not allowed"
        if not isinstance(schema, Mapping):
            return
        if isinstance(ref := schema.get("$ref"), str) and (ref, id(value)) not in refs:
            yield from self.value(_resolve(self.definitions, ref), value, path, (*refs, (ref, id(value))))
        wrong_type = _type_violation(schema.get("type"), value)
        if wrong_type:
            yield f"{self.name(path)} {wrong_type}"
        # Every call is checked, and few schemas have these: asking is cheaper than a generator that finds nothing.
        if not _CHOICE.isdisjoint(schema):
            yield from (f"{self.name(path)} {text}" for text in _choice(schema, value))
        if not _COMBINED.isdisjoint(schema):
            yield from self.combined(schema, value, path, refs)
        if wrong_type:
            return
        if isinstance(value, str):
            yield from (f"{self.name(path)} {text}" for text in _string(schema, value))
        elif _is_number(value):
            yield from (f"{self.name(path)} {text}" for text in _number(schema, value))
        elif isinstance(value, list):
            yield from self.array(schema, value, path)
        elif isinstance(value, dict):
            yield from self.object(schema, value, path)

    def object(self, schema: Mapping[str, Json], value: dict[str, Json], path: str) -> Iterator[str]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        required = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
        patterns = schema.get("patternProperties")
        patterns = patterns if isinstance(patterns, Mapping) else {}
        undeclared = [key for key in value if key not in properties and not any(_matches(p, key) for p in patterns)]
        for name in dict.fromkeys((*properties, *required)):
            if name in value:
                if name in properties:
                    yield from self.value(properties[name], value[name], _member(path, name), ())
            elif name in required:
                hint = f" (there is no {_quoted(undeclared)})" if undeclared else ""
                yield f'"{_member(path, name)}" is required and missing{hint}'
        for pattern, inner in patterns.items():
            for key in value:
                if _matches(pattern, key):
                    yield from self.value(inner, value[key], _member(path, key), ())
        additional = schema.get("additionalProperties", True)
        for key in undeclared:
            if additional is False:
                known = f"; known are {_quoted(list(properties))}" if properties else ""
                yield f'"{_member(path, key)}" is not allowed{known}'
            else:
                yield from self.value(additional, value[key], _member(path, key), ())

    def array(self, schema: Mapping[str, Json], value: list[Json], path: str) -> Iterator[str]:
        least, most = _size(schema, "minItems"), _size(schema, "maxItems")
        if least is not None and len(value) < least:
            yield f"{self.name(path)} must have at least {_count(least, 'item')}, got {len(value)}"
        if most is not None and len(value) > most:
            yield f"{self.name(path)} must have at most {_count(most, 'item')}, got {len(value)}"
        first = schema.get("prefixItems")
        rest = schema.get("items")
        if isinstance(rest, list | tuple):
            first, rest = rest, None
        first = first if isinstance(first, list | tuple) else ()
        for index, item in enumerate(value):
            yield from self.value(first[index] if index < len(first) else rest, item, f"{path}[{index}]", ())
        if schema.get("uniqueItems") is True:
            seen: dict[Hashable, int] = {}
            for index, item in enumerate(value):
                earlier = seen.setdefault(_identity(item), index)
                if earlier != index:
                    yield f'"{path}[{index}]" repeats "{path}[{earlier}]", and items must be unique'

    def combined(self, schema: Mapping[str, Json], value: Json, path: str, refs: _Refs) -> Iterator[str]:
        for inner in _schemas(schema, "allOf"):
            yield from self.value(inner, value, path, refs)
        for keyword in ("anyOf", "oneOf"):
            options = _schemas(schema, keyword)
            found = [list(self.value(option, value, path, refs)) for option in options]
            fitting = found.count([])
            if keyword == "oneOf" and fitting > 1:
                yield f"{self.name(path)} fits {fitting} of {len(options)} alternatives, and must fit one alone"
            elif options and not fitting:
                yield from self.alternatives(options, found, value, path)

    def alternatives(self, options: list[Json], found: list[list[str]], value: Json, path: str) -> Iterator[str]:
        """None of `options` fits.  Those that are of the value's type are what was meant."""
        types = [self.type_of(option) for option in options]
        near = [texts for texts, kind in zip(found, types, strict=True) if not _type_violation(kind, value)]
        if len(near) == 1:
            yield from near[0]
        elif not near:
            yield f"{self.name(path)} {_type_violation([name for kind in types for name in _type_names(kind)], value)}"
        else:
            yield f"{self.name(path)} fits no alternative: {' | '.join(', '.join(texts) for texts in near)}"

    def type_of(self, schema: Json) -> Json:
        for _ in range(20):
            if not isinstance(schema, Mapping) or "type" in schema or not isinstance(schema.get("$ref"), str):
                break
            schema = _resolve(self.definitions, schema["$ref"])
        return schema.get("type") if isinstance(schema, Mapping) else None


# -- one keyword each


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, tuple[str, Callable[[Json], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer())),
    "number": ("a number", _is_number),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("an array", lambda value: isinstance(value, list)),
    "null": ("null", lambda value: value is None),
}


def _type_names(kind: Json) -> list[str]:
    """The names in a ``type`` keyword; empty when it does not constrain, which one unknown name is enough for."""
    names = [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, list | tuple) else []
    return names if all(isinstance(name, str) and name in _TYPES for name in names) else []


def _type_violation(kind: Json, value: Json) -> str | None:
    if kind.__class__ is str and kind in _TYPES and _TYPES[kind][1](value):
        return None  # as it is nearly always
    names = list(dict.fromkeys(_type_names(kind)))
    if not names or any(_TYPES[name][1](value) for name in names):
        return None
    text = f"must be {' or '.join(_TYPES[name][0] for name in names)}, got {_shown(value)}"
    wrapped = {"[": "array", "{": "object"}.get(value[:1]) if isinstance(value, str) else None
    if wrapped in names:
        text += "; send the value itself, not a string that holds it"
    return text


def _choice(schema: Mapping[str, Json], value: Json) -> Iterator[str]:
    enum = schema.get("enum")
    if isinstance(enum, list | tuple) and _identity(value) not in {_identity(option) for option in enum}:
        yield f"must be one of {_json(list(enum))}, got {_shown(value)}"
    if "const" in schema and _identity(value) != _identity(schema["const"]):
        yield f"must be {_json(schema['const'])}, got {_shown(value)}"


def _string(schema: Mapping[str, Json], value: str) -> Iterator[str]:
    least, most = _size(schema, "minLength"), _size(schema, "maxLength")
    if least is not None and len(value) < least:
        yield f"must have at least {_count(least, 'character')}, got {len(value)}"
    if most is not None and len(value) > most:
        yield f"must have at most {_count(most, 'character')}, got {len(value)}"
    if "pattern" in schema and not _matches(schema["pattern"], value, unusable=True):
        yield f"must match the pattern {schema['pattern']}, got {_shown(value)}"


def _number(schema: Mapping[str, Json], value: float) -> Iterator[str]:
    minimum: Json = schema.get("minimum")
    maximum: Json = schema.get("maximum")
    above: Json = schema.get("exclusiveMinimum")
    below: Json = schema.get("exclusiveMaximum")
    # Draft 4 wrote the exclusive bounds as flags beside the plain ones.
    above, minimum = (minimum, None) if above is True else (above, minimum)
    below, maximum = (maximum, None) if below is True else (below, maximum)
    if _is_number(minimum) and not value >= minimum:
        yield f"must be at least {_json(minimum)}, got {_shown(value)}"
    if _is_number(above) and not value > above:
        yield f"must be greater than {_json(above)}, got {_shown(value)}"
    if _is_number(maximum) and not value <= maximum:
        yield f"must be at most {_json(maximum)}, got {_shown(value)}"
    if _is_number(below) and not value < below:
        yield f"must be less than {_json(below)}, got {_shown(value)}"


def _size(schema: Mapping[str, Json], keyword: str) -> int | None:
    size: Json = schema.get(keyword)
    return int(size) if _is_number(size) and size == size and abs(size) < 2**63 else None


def _schemas(schema: Mapping[str, Json], keyword: str) -> list[Json]:
    found = schema.get(keyword)
    return list(found) if isinstance(found, list | tuple) else []


def _matches(pattern: Any, text: str, *, unusable: bool = False) -> bool:
    try:
        return _found(pattern, text)
    except (re.error, TypeError, OverflowError, TimeoutError):
        return unusable


def _found(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`.

    Some patterns take longer than the world lasts, and nothing else runs meanwhile, not even a cancel; models write
    patterns, too.  In the main thread, where signals are heard, a search is bounded.

    Raises:
        TimeoutError: it takes too long.
    """
    if pattern in _hopeless:
        raise TimeoutError
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(_CLOCK) is not signal.SIG_DFL:
        return re.search(pattern, text) is not None

    def late(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(_CLOCK, late)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SEARCH_SECONDS)
            return re.search(pattern, text) is not None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    except TimeoutError:
        if len(_hopeless) < MOST_HOPELESS:
            _hopeless.add(pattern)
        raise
    finally:
        signal.signal(_CLOCK, signal.SIG_DFL)


def _resolve(definitions: Json, ref: str) -> Json:
    """What a local reference points at; None, which constrains nothing, when there is no such place."""
    if not ref.startswith("#"):
        return None
    found = definitions
    for part in unquote(ref[1:]).split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list | tuple) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def _identity(value: Json) -> Hashable:
    """Equal for values that JSON holds to be equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _identity(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(_identity(item) for item in value))
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    return value if isinstance(value, str | int | float) else ("other", repr(value))


# -- words


def _member(path: str, key: Any) -> str:
    key = str(key)
    if not key or re.search(r'[\s.\[\]"]', key):
        return f"{path}[{_json(key)}]"
    return f"{path}.{key}" if path else key


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _quoted(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown


def _json(value: Json) -> str:
    try:
        return dumps(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def _shown(value: Json) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = _json(value[:100] if isinstance(value, str) else value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f"the string {text}" if isinstance(value, str) else text
