"""The decorator `tool`: a tool made from a typed function.

    @tool(parallel=True)
    async def weather(city: str, days: Annotated[int, "how far ahead"] = 1) -> str:
        '''Look up the forecast.

        Args:
            city: where.
        '''

The docstring up to its ``Args:`` is what the model reads of the tool; ``Args:`` or ``:param x:``
describe the parameters, and text in `typing.Annotated` wins over both.  A parameter annotated
`ToolCall` or `Agent` is given the call or its agent, and is not shown to the model.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from attrs import frozen

from ..jsonvalue import Json, dumps
from ..messages import OtherBlock, Reasoning, Text, ToolCallBlock, ToolResultBlock
from .shapes import REQUIRED, Member, Shape, Shapes, args_error, object_schema
from .tool import Effect, Tool, ToolCall, ToolOutput, ToolResult

if TYPE_CHECKING:
    from .views import CallView, ResultView

__all__ = ["tool"]

PresentCall: TypeAlias = "Callable[[Mapping[str, Any]], CallView | None]"
PresentResult: TypeAlias = "Callable[[Mapping[str, Any], ToolResult], ResultView | None]"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLOCKS = (Text, Reasoning, ToolCallBlock, ToolResultBlock, OtherBlock)


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    present_call: PresentCall | None = None,
    present_result: PresentResult | None = None,
    effect: Effect | None = None,
    subject: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    present_call: PresentCall | None = None,
    present_result: PresentResult | None = None,
    effect: Effect | None = None,
    subject: str | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function, sync or async.

    The function returns what a tool may return, or any JSON value, which becomes its JSON text.  Of a sync
    function mind that the whole program waits for it.  Keys in a call that are no parameters are left out.

    Args:
        name: what the model calls it by; by default the function's name.
        description: what the model reads of it; by default from the docstring.
        parallel: safe to run beside other calls of the same step.
        present_call, present_result: see `Tool`.
        effect, subject: what a call touches, and the parameter that says so; see `Tool`.  Where no effect is
            named, a person is asked before each call.

    Raises:
        TypeError: a parameter has no annotation, one that JSON has no schema for, or cannot be given by name;
            the message names function and parameter.
        ValueError: the name is none that providers take.
    """
    scope = sys._getframe(1).f_locals

    def decorate(function: Callable[..., Any]) -> Tool:
        called: str = name or getattr(function, "__name__", None) or ""
        if not _NAME.fullmatch(called):
            raise ValueError(f"{called!r} cannot be a tool's name: it takes 1 to 64 letters, digits, '_' and '-'")
        text, documented = _read_docstring(inspect.getdoc(function) or "")
        signature = _read(function, called, documented, scope)
        return Tool(
            name=called,
            description=text if description is None else description,
            parameters=signature.schema,
            execute=_execute(function, called, signature),
            parallel=parallel,
            present_call=present_call,
            present_result=present_result,
            effect=effect,
            subject=subject,
        )

    return decorate if function is None else decorate(function)


# -- the function's side


@frozen
class _Signature:
    """How to call the function: shapes of what the model gives, and names of what the harness gives."""

    schema: dict[str, Json]
    shapes: Mapping[str, Shape]
    given: Mapping[str, Callable[[ToolCall], Any]]


def _read(
    function: Callable[..., Any], called: str, documented: Mapping[str, str], scope: Mapping[str, Any]
) -> _Signature:
    shapes: dict[str, Shape] = {}
    given: dict[str, Callable[[ToolCall], Any]] = {}
    members: list[Member] = []
    builder = Shapes(scope)
    for parameter in inspect.signature(function).parameters.values():
        try:
            annotation = _annotation(function, parameter, scope)
            if giver := _injected(annotation):
                given[parameter.name] = giver
                continue
            shapes[parameter.name] = builder.of(annotation)
        except TypeError as error:
            raise TypeError(f"tool {called!r}, parameter {parameter.name!r}: {error}") from None
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        members.append(Member(parameter.name, annotation, default, documented.get(parameter.name)))
    schema = object_schema(members, shapes)
    if builder.definitions:
        schema["$defs"] = builder.definitions
    return _Signature(schema, shapes, given)


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter, scope: Mapping[str, Any]) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError("a tool's parameters are named one by one; there is no schema for *args and **kwargs")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError("a tool is called with arguments by name; take the '/' out of its signature")
    if parameter.annotation is parameter.empty:
        raise TypeError("it has no annotation, so the model would not know what to give")
    names = getattr(inspect.unwrap(function), "__globals__", {})
    # The names of dsh's own classes are often imported for type checkers alone.
    local = {**{n: t for n, t in _own().items() if n not in names}, **scope}
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, names, local, include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(f"its annotation {parameter.annotation!r} cannot be resolved: {error}") from None


def _own() -> dict[str, Any]:
    from ..agents import Agent

    return {"ToolCall": ToolCall, "Agent": Agent}


def _injected(annotation: Any) -> Callable[[ToolCall], Any] | None:
    """What gives a parameter its value, for those that the model does not fill in."""
    own = _own()
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    wanted = [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        wanted = [option for option in typing.get_args(annotation) if option is not type(None)]
    if wanted == [own["ToolCall"]]:
        return lambda call: call
    if wanted == [own["Agent"]]:
        return lambda call: call.agent
    return None


def _execute(
    function: Callable[..., Any], called: str, signature: _Signature
) -> Callable[[Mapping[str, Json], ToolCall], ToolOutput | Awaitable[ToolOutput]]:
    def execute(arguments: Mapping[str, Json], call: ToolCall) -> ToolOutput | Awaitable[ToolOutput]:
        values: dict[str, Any] = {name: give(call) for name, give in signature.given.items()}
        for name, shape in signature.shapes.items():
            if name in arguments:
                try:
                    values[name] = shape.value(arguments[name])
                except (ValueError, TypeError) as error:
                    raise args_error(called, name, error) from error
        result = function(**values)
        return _awaited(result, called) if inspect.isawaitable(result) else _output(result, called)

    return execute


async def _awaited(result: Awaitable[Any], called: str) -> ToolOutput:
    return _output(await result, called)


def _output(value: Any, called: str) -> ToolOutput:
    """What the function returned, as what a tool may return."""
    if value is None:
        return ToolResult(())
    if isinstance(value, (str, ToolResult, *_BLOCKS)):
        return value
    if isinstance(value, collections.abc.Iterable) and not isinstance(value, collections.abc.Mapping):
        items = list(value)
        if items and all(isinstance(item, _BLOCKS) for item in items):
            return tuple(items)
        value = items
    try:
        return dumps(value).decode()
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        raise TypeError(f"tool {called!r} returned a {kind}; return text, blocks, a ToolResult or JSON") from error


# -- the docstring


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises):\s*$|^:\w+.*?:")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")
_ENTRY = re.compile(r"^(\w+(?:\s*,\s*\w+)*)\s*(?:\([^)]*\))?:\s*(.*)$")


def _read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring's description, and what it says of each parameter."""
    lines = doc.splitlines()
    start = next((n for n, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return "\n".join(lines[:start]).strip(), _described_fields(lines[start:]) | _described_entries(lines[start:])


def _described_fields(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    current = None
    for line in lines:
        if line.startswith(":"):
            field = _FIELD.match(line)
            current = field[1] if field else None
            if field:
                found[field[1]] = field[2].strip()
        elif current and line.strip():
            found[current] = f"{found[current]} {line.strip()}".strip()
        else:
            current = None
    return found


def _described_entries(lines: list[str]) -> dict[str, str]:
    """The entries of ``Args:``; lines that stand deeper than the first entry go on with the one before."""
    found: dict[str, str] = {}
    inside, indent, current = False, 0, ""
    for line in lines:
        if not line.startswith((" ", "\t")):
            if line.strip():
                inside, indent = bool(re.match(r"(Args|Arguments|Parameters):\s*$", line)), 0
            continue
        if not inside or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        entry = _ENTRY.match(line.strip()) if depth <= indent else None
        if entry:
            current = entry[1]
            found |= {name.strip(): entry[2].strip() for name in current.split(",")}
        elif current:
            text = f"{found[current.split(',')[0].strip()]} {line.strip()}".strip()
            found |= {name.strip(): text for name in current.split(",")}
    return found
