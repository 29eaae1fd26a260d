"""The calls of an answer: judged and logged in the model's order, run beside each other where they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import trio
from attrs import define
from trio.lowlevel import checkpoint_if_cancelled

from ..errors import ToolArgsError
from ..hooks.trace import HeldTraces, held
from ..jsonvalue import Json, freeze, loads
from ..messages import HookContext, ToolCallBlock
from ..session.events import ContextMessage, ErrorInfo, ToolCall, ToolResult
from ..tasks import single
from ..tools import pipeline
from ..tools.pipeline import Judged, Reviewed, error_result
from ..tools.tool import Tool
from ..tools.tool import ToolCall as Call
from ..tools.tool import ToolResult as Result

if TYPE_CHECKING:
    from .turn import Turn

__all__ = ["OpenCall", "run_calls"]

PARALLEL = 16
"""How many calls of one step run at once, where their tools allow it."""
KEEPING_SECONDS = 5.0
"""How long the review of results may take that were there when their turn was cancelled."""


@define
class OpenCall:
    """A call without a result.

    Attributes:
        seq: of its ``tool/call``, once there is one.
        started: it was allowed, and may have had effects.
        result: what is to be logged of it, if it had ended when its turn was cancelled.
    """

    block: ToolCallBlock
    seq: int | None = None
    started: bool = False
    result: ToolResult | None = None


async def run_calls(turn: Turn, tools: Mapping[str, Tool], blocks: Sequence[ToolCallBlock]) -> bool:
    """Run the calls of the step's message; whether there were any."""
    contexts: list[HookContext] = []
    for parallel, group in groupby(blocks, key=lambda block: block.name in tools and tools[block.name].parallel):
        calls = list(group)
        if parallel and len(calls) > 1:
            await _beside_each_other(turn, tools, calls, contexts)
        else:
            for block in calls:
                await _one(turn, tools, block, contexts)
    # Providers want all results of a message before anything else.
    for context in contexts:
        turn.agent.session.append(ContextMessage(turn.agent.masked(context.content), context.source))
    return bool(blocks)


async def _one(turn: Turn, tools: Mapping[str, Tool], block: ToolCallBlock, contexts: list[HookContext]) -> None:
    call, judged = await _judged(turn, tools, block)
    result = judged.denial
    if result is None:
        result = await _run(turn, tools, call)
    contexts += await _conclude(turn, call, judged, result)


async def _beside_each_other(
    turn: Turn, tools: Mapping[str, Tool], blocks: Sequence[ToolCallBlock], contexts: list[HookContext]
) -> None:
    """Start each call that may run, then conclude them in the model's order, as each is ready."""
    # Workers take the calls from a queue, so that those that have to wait begin in the model's order, too.
    queue, allowed = trio.open_memory_channel[_Running](len(blocks))
    started: list[_Running] = []
    try:
        async with trio.open_nursery() as nursery:
            for _ in blocks[:PARALLEL]:
                nursery.start_soon(_work, turn, tools, allowed)
            # Workers that wait already, and get their calls one by one, begin them in the model's order.
            await trio.lowlevel.checkpoint()
            with queue:
                for block in blocks:
                    running = _Running(*await _judged(turn, tools, block))
                    started.append(running)
                    if running.judged.denial is None:
                        queue.send_nowait(running)
                        await trio.lowlevel.checkpoint()
            for running in started:
                result = await running.wait()
                running.traces.release(turn.agent.plugins.settings)
                contexts += await _conclude(turn, running.call, running.judged, result)
    except (BaseExceptionGroup, trio.Cancelled) as error:
        _release(turn, started)
        if _is_cancelled(error):
            await _keep_results(turn, started)
        raise single(error) if isinstance(error, BaseExceptionGroup) else error from None


def _is_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(trio.Cancelled) is not None
    return isinstance(error, trio.Cancelled)


def _release(turn: Turn, started: Sequence[_Running]) -> None:
    """Log what was decided in calls that are not concluded; whoever asks why later wants to know of them, too."""
    for running in started:
        try:
            running.traces.release(turn.agent.plugins.settings)
        except Exception as exc:
            turn.agent.harness.warn_error("hook/decision", exc)


async def _keep_results(turn: Turn, started: Sequence[_Running]) -> None:
    """Have the results reviewed that were there when the turn was cancelled: a call that hangs must not cost them."""
    agent = turn.agent
    with trio.move_on_after(KEEPING_SECONDS, shield=True):
        for running in started:
            opened = turn.open_calls.get(running.call.id)
            if opened is None or running.result is None:
                continue
            reviewed = await pipeline.review(
                agent.hook, running.call, running.result, agent.harness.secrets.mask_output
            )
            opened.result = _logged(turn, running.call, reviewed.result)


async def _work(turn: Turn, tools: Mapping[str, Tool], allowed: trio.MemoryReceiveChannel[_Running]) -> None:
    async for running in allowed:
        # Only the driver appends: what plugins decide in this task is logged when the call is concluded.
        with held(running.traces):
            running.finish(await _run(turn, tools, running.call))


class _Running:
    """A call that was let go, or denied."""

    def __init__(self, call: Call, judged: Judged) -> None:
        self.call = call
        self.judged = judged
        self.traces = HeldTraces()
        self.result = judged.denial
        self._done = trio.Event()

    def finish(self, result: Result) -> None:
        self.result = result
        self._done.set()

    async def wait(self) -> Result:
        if self.result is None:
            await self._done.wait()
        assert self.result is not None
        return self.result


async def _judged(turn: Turn, tools: Mapping[str, Tool], block: ToolCallBlock) -> tuple[Call, Judged]:
    """Log the call and ask whether it may run; a denial says that it may not, or cannot."""
    await checkpoint_if_cancelled()
    agent = turn.agent
    opened = turn.open_calls[block.id]
    opened.seq = len(agent.session.events)
    agent.session.append(ToolCall(turn.number, turn.step, block.id, block.name, block.arguments))
    arguments: Mapping[str, Json] = {}
    problem: Judged | None = None
    try:
        arguments = _parsed(block.arguments)
    except ToolArgsError as exc:
        problem = Judged(error_result(exc))
    tool = tools.get(block.name)
    missing = pipeline.no_tool(block.name, tools) if tool is None else None
    call = Call(block.id, block.name, arguments, agent, turn.number, turn.step, tool, missing)
    return call, problem or await pipeline.judge(agent.hook, call)


def _parsed(raw: str) -> Mapping[str, Json]:
    """The arguments of a call; nothing, and null, are none at all.

    Raises:
        ToolArgsError: the text is not a JSON object; the message shows it.
    """
    if not raw.strip():
        return {}
    shown = raw if len(raw) <= 2000 else f"{raw[:1000]} ... {raw[-900:]}"
    try:
        value: Any = freeze(loads(raw))
    except ValueError as exc:
        message = f"the call was not run: its arguments are not valid JSON ({exc}). They were: {shown}"
        raise ToolArgsError(message, [str(exc)]) from exc
    if value is None:
        return {}
    if not isinstance(value, dict):
        message = f"the call was not run: its arguments must be a JSON object. They were: {shown}"
        raise ToolArgsError(message, ["arguments must be an object"])
    return value


async def _run(turn: Turn, tools: Mapping[str, Tool], call: Call) -> Result:
    turn.open_calls[call.id].started = True
    return await pipeline.run(turn.agent.hook, tools, call)


async def _conclude(turn: Turn, call: Call, judged: Judged, result: Result) -> tuple[HookContext, ...]:
    """Have the result reviewed, and log it; the contexts that hooks added to the call."""
    agent = turn.agent
    reviewed: Reviewed = await pipeline.review(agent.hook, call, result, agent.harness.secrets.mask_output)
    opened = turn.open_calls.pop(call.id)
    agent.session.append(_logged(turn, call, reviewed.result), sources=[opened.seq or 0])
    await checkpoint_if_cancelled()
    return (*judged.contexts, *reviewed.contexts)


def _logged(turn: Turn, call: Call, result: Result) -> ToolResult:
    error = None if result.error is None else ErrorInfo(result.error.name, result.error.code)
    return ToolResult(turn.number, turn.step, call.id, result.content, result.is_error, error, result.meta)
