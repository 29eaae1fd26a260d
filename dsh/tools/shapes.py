"""From a Python annotation to a JSON schema, and from JSON that fits it to the value of that type."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import attrs
from attrs import define, field, frozen

from ..errors import ToolArgsError
from ..jsonvalue import Json, NotJson, freeze, thaw
from .schema import violations

__all__ = ["REQUIRED", "Member", "Shape", "Shapes", "args_error", "object_schema"]

Build: TypeAlias = Callable[[Json], Any]

_PLAIN: Mapping[Any, str] = {str: "string", float: "number", bool: "boolean", None: "null", type(None): "null"}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SETS: Mapping[Any, Callable[[Any], Any]] = {set: set, frozenset: frozenset, collections.abc.Set: frozenset}
_ARRAYS = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)


class _Required:
    """The default of what has none."""


REQUIRED = _Required()


@frozen
class Shape:
    """A type as JSON: its schema, and how to make a value from JSON that fits; None where JSON is the value."""

    schema: dict[str, Json]
    build: Build | None = None

    def value(self, data: Json) -> Any:
        return data if self.build is None else self.build(data)


@frozen
class Member:
    """A field of a class, by the name that JSON has for it."""

    name: str
    annotation: Any
    default: Any = REQUIRED
    description: str | None = None


@define
class Shapes:
    """The shapes of one signature; classes that contain themselves become `definitions`.

    `scope` holds names that annotations of local classes may use.
    """

    scope: Mapping[str, Any] = field(factory=dict)
    definitions: dict[str, Json] = field(factory=dict)
    _open: list[type] = field(factory=list)
    _circular: dict[type, str] = field(factory=dict)
    _done: dict[type, Shape] = field(factory=dict)

    def of(self, annotation: Any) -> Shape:
        """The shape of an annotation whose names are resolved.

        Raises:
            TypeError: nothing in JSON stands for it.
        """
        if annotation in (Any, object):
            return Shape({}, thaw)
        if annotation is int:
            return Shape({"type": "integer"}, int)
        if plain := next((name for kind, name in _PLAIN.items() if annotation is kind), None):
            return Shape({"type": plain})
        if isinstance(annotation, typing.NewType):
            return self.of(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # an alias by the ``type`` statement of Python 3.12
            return self.of(annotation.__value__)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin in (typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        if origin is Literal:
            return _literal(arguments)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        container = origin or annotation
        if container in _MAPPINGS:
            return self._mapping(arguments)
        if container is tuple:
            return self._tuple(arguments)
        if container in (*_ARRAYS, *_SETS):
            return self._array(container, arguments)
        if isinstance(annotation, type):
            return self._class(annotation)
        raise TypeError(f"{_type_name(annotation)} has no JSON schema")

    def _annotated(self, annotation: Any) -> Shape:
        """Text describes, and a dict is merged into the schema: ``Annotated[int, "seconds", {"minimum": 1}]``."""
        inner, *metadata = get_args(annotation)
        shape = self.of(inner)
        extra = {key: value for item in metadata if isinstance(item, dict) for key, value in item.items()}
        return Shape(described(shape.schema, annotated_text(annotation)) | extra, shape.build)

    def _union(self, options: Sequence[Any]) -> Shape:
        shapes = [self.of(option) for option in options]
        schema = {"anyOf": [shape.schema for shape in shapes]}
        if all(shape.build is None for shape in shapes):
            return Shape(schema)

        def build(data: Json) -> Any:
            for shape in shapes:
                if not violations(shape.schema, data, definitions={"$defs": self.definitions}):
                    return shape.value(data)
            raise ValueError("fits no alternative")

        return Shape(schema, build)

    def _mapping(self, arguments: Sequence[Any]) -> Shape:
        key, value = arguments or (str, Any)
        if key is not str:
            raise TypeError(f"the keys of a JSON object are strings, not {_type_name(key)}")
        inner = self.of(value)
        schema: dict[str, Json] = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        return Shape(schema, lambda data: {name: inner.value(item) for name, item in data.items()})

    def _array(self, container: Any, arguments: Sequence[Any]) -> Shape:
        inner = self.of(arguments[0] if arguments else Any)
        make = _SETS.get(container, list)
        schema: dict[str, Json] = {"type": "array"}
        if inner.schema:
            schema["items"] = inner.schema
        if container in _SETS:
            schema["uniqueItems"] = True
        return Shape(schema, lambda data: make(inner.value(item) for item in data))

    def _tuple(self, arguments: Sequence[Any]) -> Shape:
        if not arguments or arguments[-1] is Ellipsis:
            shape = self._array(list, arguments[:1])
            return Shape(shape.schema, lambda data: tuple(shape.value(data)))
        inner = [self.of(argument) for argument in arguments]
        schema = {
            "type": "array",
            "prefixItems": [shape.schema for shape in inner],
            "minItems": len(inner),
            "maxItems": len(inner),
        }
        return Shape(schema, lambda data: tuple(shape.value(item) for shape, item in zip(inner, data, strict=True)))

    def _class(self, cls: type) -> Shape:
        if issubclass(cls, enum.Enum):
            return _enum(cls)
        if cls in self._done:
            return self._done[cls]
        if cls in self._open:
            name = self._circular.setdefault(cls, cls.__name__)
            if name in (other.__name__ for other in self._circular if other is not cls):
                raise TypeError(f"two classes that contain themselves are called {name}")
            return Shape({"$ref": f"#/$defs/{name}"}, lambda data: self._done[cls].value(data))
        members = _members(cls, self.scope)
        self._open.append(cls)
        try:
            shape = self._object(cls, members)
        finally:
            self._open.remove(cls)
        if cls in self._circular:
            self.definitions[self._circular[cls]] = shape.schema
            shape = Shape({"$ref": f"#/$defs/{self._circular[cls]}"}, shape.build)
        self._done[cls] = shape
        return shape

    def _object(self, cls: type, members: Sequence[Member]) -> Shape:
        shapes: dict[str, Shape] = {}
        for member in members:
            try:
                shapes[member.name] = self.of(member.annotation)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}.{member.name}: {error}") from None
        schema = object_schema(members, shapes)
        schema = described(schema, _own_doc(cls))

        def build(data: Mapping[str, Json]) -> Any:
            return cls(**{name: shape.value(data[name]) for name, shape in shapes.items() if name in data})

        return Shape(schema, build)


def object_schema(members: Sequence[Member], shapes: Mapping[str, Shape]) -> dict[str, Json]:
    """The schema of an object with these members."""
    properties = {}
    for member in members:
        schema = described(shapes[member.name].schema, annotated_text(member.annotation) or member.description)
        properties[member.name] = schema | default_of(member.default)
    required = [member.name for member in members if member.default is REQUIRED]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def described(schema: dict[str, Json], text: str | None) -> dict[str, Json]:
    """`schema` with `text`, if there is any, as its description."""
    return {**schema, "description": text} if text else schema


def annotated_text(annotation: Any) -> str | None:
    """The text in an `Annotated`, if it is one."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((item for item in get_args(annotation)[1:] if isinstance(item, str)), None)


def default_of(default: Any) -> dict[str, Json]:
    """The ``default`` keyword, for defaults that JSON can show."""
    if isinstance(default, enum.Enum):
        default = default.value
    if isinstance(default, tuple):
        default = list(default)
    try:
        return {} if default is REQUIRED else {"default": thaw(freeze(default))}
    except NotJson:
        return {}


def _literal(options: Sequence[Any]) -> Shape:
    for option in options:
        if option is not None and type(option) not in (str, int, bool):
            raise TypeError(f"Literal[{option!r}] has no JSON schema")
    schema = _choices(list(options))
    if not any(type(option) is int for option in options):
        return Shape(schema)
    return Shape(schema, lambda data: int(data) if isinstance(data, float) else data)


def _enum(cls: type[enum.Enum]) -> Shape:
    values = [member.value for member in cls]
    if not values or any(value is not None and not isinstance(value, str | int | float) for value in values):
        raise TypeError(f"{cls.__name__} has members that JSON has no value for")
    return Shape(_choices(values), cls)


def _choices(values: list[Any]) -> dict[str, Json]:
    kinds = {"integer" if type(v) is int else _PLAIN.get(type(v), "string") for v in values}
    plain = [v.value if isinstance(v, enum.Enum) else v for v in values]
    return ({"type": kinds.pop()} if len(kinds) == 1 else {}) | {"enum": plain}


def _members(cls: type, scope: Mapping[str, Any]) -> list[Member]:
    """The fields of an attrs class, a dataclass or a typed dict.

    Raises:
        TypeError: it is none of these, or the names in its annotations cannot be resolved.
    """
    if typing.is_typeddict(cls):
        required: frozenset[str] = cls.__required_keys__  # type: ignore[attr-defined]  # typed dicts have it
        return [Member(n, a, REQUIRED if n in required else ...) for n, a in _hints(cls, scope).items()]
    if attrs.has(cls):
        hints = _hints(cls, scope)
        return [
            Member(a.alias, hints[a.name], _default(a.default, attrs.NOTHING), a.metadata.get("description"))
            for a in attrs.fields(cls)
            if a.init and a.alias is not None
        ]
    if dataclasses.is_dataclass(cls):
        hints = _hints(cls, scope)
        return [
            Member(
                f.name,
                hints[f.name],
                ... if f.default_factory is not dataclasses.MISSING else _default(f.default, dataclasses.MISSING),
                f.metadata.get("description"),
            )
            for f in dataclasses.fields(cls)
            if f.init
        ]
    raise TypeError(f"{_type_name(cls)} has no JSON schema; use JSON's types, enums, attrs classes or dataclasses")


def _hints(cls: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, localns=dict(scope), include_extras=True)
    except NameError as error:
        raise TypeError(f"{cls.__name__}: {error}; annotations must name what can be imported at run time") from None


def _default(default: Any, nothing: Any) -> Any:
    return REQUIRED if default is nothing else default


def _own_doc(cls: type) -> str | None:
    """The first paragraph of a docstring that the class's author wrote."""
    if cls.__doc__ is None or cls.__doc__.startswith((f"{cls.__name__}(", "Method generated by attrs")):
        return None
    return inspect.cleandoc(cls.__doc__).partition("\n\n")[0].replace("\n", " ")


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def args_error(tool: str, path: str, error: Exception) -> ToolArgsError:
    """What a class said about JSON that fits its schema, as an error of the call."""
    text = f'"{path}": {str(error) or type(error).__name__}'
    return ToolArgsError(f"invalid arguments for {tool}: {text}", [text])
