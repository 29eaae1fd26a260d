"""The pipeline of a tool call: judge, run, review.

    judge   ``tools_pre_execute``: may it run?
    run     ``tools_execute`` around the tool itself
    review  ``tools_post_execute``: what does the model read?

None of the three raises but for cancellation: whatever goes wrong becomes an error result, so no
call stays unanswered.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from ..decisions import Allow, Block, Deny, contexts_of, expected
from ..errors import PROBLEMS, DshError, ToolError, ToolNotFoundError, blamed_message, survivable
from ..jsonvalue import Json
from ..messages import Block as ContentBlock
from ..messages import HookContext, Text
from .restrict import VisibleTools
from .schema import check_arguments
from .tool import Tool, ToolCall, ToolErrorInfo, ToolResult, result_of

if TYPE_CHECKING:
    from ..hookspecs import Hooks

__all__ = ["Judged", "Reviewed", "error_result", "foreseen_failure", "judge", "no_tool", "review", "run", "run_call"]

UNANSWERED = "APPROVAL_UNANSWERED"
"""The code of a call that needed a person's approval, with nobody there to give it."""


@frozen
class Judged:
    """What the gate said: None is a go, a result is the denial; and the contexts that guards added."""

    denial: ToolResult | None
    contexts: tuple[HookContext, ...] = ()


@frozen
class Reviewed:
    """A result as it is logged, and the contexts that follow the step's results."""

    result: ToolResult
    contexts: tuple[HookContext, ...] = ()


def error_result(error: BaseException) -> ToolResult:
    """The result of a call that failed with `error`."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    info = ToolErrorInfo(type(error).__name__, error.code) if isinstance(error, DshError) else None
    kind = f"{type(error).__name__}: " if isinstance(error, _BARE) and str(error) else ""
    return ToolResult(f"Error: {kind}{blamed_message(error)}", is_error=True, error=info)


_BARE = (LookupError, AttributeError, NameError, TypeError, AssertionError, ArithmeticError)
"""Errors of Python's own whose text says little without their type: that of a KeyError is the key."""


async def judge(hook: Hooks, call: ToolCall) -> Judged:
    """Ask the gate.  Cancellation passes."""
    try:
        verdict = await hook.tools_pre_execute(agent=call.agent, call=call)
    except Exception as exc:
        return Judged(error_result(exc))
    if isinstance(verdict, Allow):
        return Judged(None, contexts_of(verdict))
    assert isinstance(verdict, Deny)  # the gate makes a denial of an open question
    info = ToolErrorInfo("ToolError", UNANSWERED) if verdict.unanswered else None
    return Judged(ToolResult(f"Error: {verdict.reason}", is_error=True, error=info))


def no_tool(name: str, tools: Mapping[str, Tool]) -> str:
    """What is said of a call whose tool is not among `tools`."""
    close = difflib.get_close_matches(name, tools, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"there is no tool {name!r}.{hint} The tools are: {', '.join(tools) or 'none'}"


def foreseen_failure(call: ToolCall, *, ever: bool = False) -> str | None:
    """What a call would fail with as things stand; None where that is not known.  For who is about to ask a person.

    Args:
        ever: only what it would fail with at any time: there is no such tool, or its arguments do not fit.
    """
    tool = call.tool
    if tool is None:
        return call.missing
    try:
        check_arguments(tool, call.arguments)
        if tool.check is not None and not ever:
            tool.check(call.arguments, call)
    except Exception as exc:
        return blamed_message(exc)
    return None


async def run(hook: Hooks, tools: Mapping[str, Tool], call: ToolCall) -> ToolResult:
    """Run a call that was allowed.  Cancellation passes, and is the tool's to clean up after."""

    async def body() -> ToolResult:
        try:
            return await _dispatch(tools, call)
        except PROBLEMS as exc:
            return error_result(survivable(exc))

    if isinstance(tools, VisibleTools) and tools.masked(call.name):
        return await body()  # nobody runs elsewhere what was taken away from the agent
    try:
        result = await hook.tools_execute(agent=call.agent, call=call, default=body)
        return expected("tools_execute", result, ToolResult)
    except Exception as exc:
        return error_result(exc)


async def _dispatch(tools: Mapping[str, Tool], call: ToolCall) -> ToolResult:
    tool = tools.get(call.name)
    if tool is None:
        raise ToolNotFoundError(no_tool(call.name, tools))
    check_arguments(tool, call.arguments)
    output: Any = tool.execute(call.arguments, call)
    if hasattr(output, "__await__"):
        output = await output
    try:
        return result_of(output)
    except (TypeError, ValueError) as exc:
        raise ToolError(f"the tool {call.name} returned what is no result: {exc}") from exc


async def review(hook: Hooks, call: ToolCall, result: ToolResult, mask: Callable[[str], str]) -> Reviewed:
    """Ask what the model shall read, and mask secrets in it.  Cancellation passes."""
    contexts: tuple[HookContext, ...] = ()
    try:
        verdict = await hook.tools_post_execute(agent=call.agent, call=call, result=result)
        contexts = contexts_of(verdict)
        if isinstance(verdict, Block):
            result = ToolResult(verdict.reason, is_error=True)
        elif verdict.content is not None:
            result = evolve(result, content=verdict.content)
    except Exception as exc:
        result = error_result(exc)
    content = tuple(_masked(block, mask) for block in result.content)
    return Reviewed(evolve(result, content=content, meta=masked_json(result.meta, mask)), contexts)


def _masked(block: ContentBlock, mask: Callable[[str], str]) -> ContentBlock:
    if not isinstance(block, Text):
        return block
    masked = mask(block.text)
    return block if masked == block.text else Text(masked)


def masked_json(value: Json, mask: Callable[[str], str]) -> Json:
    """`value` with `mask` applied to every string in it; keys stay."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [masked_json(item, mask) for item in value]
    if isinstance(value, dict):
        return {key: masked_json(item, mask) for key, item in value.items()}
    return value


async def run_call(hook: Hooks, tools: Mapping[str, Tool], call: ToolCall, mask: Callable[[str], str]) -> Reviewed:
    """All three stages for one call, outside of any loop."""
    judged = await judge(hook, call)
    result = judged.denial
    if result is None:
        result = await run(hook, tools, call)
    reviewed = await review(hook, call, result, mask)
    return evolve(reviewed, contexts=(*judged.contexts, *reviewed.contexts))
