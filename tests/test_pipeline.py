"""One tool call outside of any loop: judged, run, reviewed; only cancellation gets out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from dsh.decisions import Accept, Block, Deny
from dsh.errors import ToolError
from dsh.harness import Harness
from dsh.messages import HookContext, OtherBlock, PluginSource, Text
from dsh.testing import memory_harness, plugin_of
from dsh.tools.pipeline import Judged, Reviewed, error_result, judge, review, run, run_call
from dsh.tools.tool import Tool, ToolCall, ToolErrorInfo, ToolResult, Tools, result_of

CALL = ToolCall("c1", "work", {"a": 1})


def tools(do: Callable[[Any, ToolCall], Any]) -> dict[str, Tool]:
    return {"work": Tool("work", "Work.", {"type": "object"}, do)}


async def ran(harness: Harness, do: Callable[[Any, ToolCall], Any], call: ToolCall = CALL) -> Reviewed:
    return await run_call(harness.hook, tools(do), call, harness.secrets.mask)


async def test_a_call_without_an_agent() -> None:
    async with memory_harness() as harness:
        assert await ran(harness, lambda a, c: f"a is {a['a']}") == Reviewed(ToolResult("a is 1"))


async def test_a_tool_may_be_async() -> None:
    async def do(arguments: Any, call: ToolCall) -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    async with memory_harness() as harness:
        assert (await ran(harness, do)).result == ToolResult("done")


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ("x", ToolResult((Text("x"),))),
        (Text("x"), ToolResult((Text("x"),))),
        ([Text("x"), Text("y")], ToolResult((Text("x"), Text("y")))),
        (None, ToolResult(())),
        (ToolResult("x", is_error=True), ToolResult("x", is_error=True)),
    ],
)
def test_what_tools_may_return(output: object, result: ToolResult) -> None:
    assert result_of(output) == result


async def test_what_a_tool_raises_becomes_its_result() -> None:
    def do(arguments: Any, call: ToolCall) -> None:
        raise ToolError("too bad", code="WORSE")

    async with memory_harness() as harness:
        result = (await ran(harness, do)).result
        assert result == ToolResult("Error: too bad", is_error=True, error=ToolErrorInfo("ToolError", "WORSE"))


def test_an_error_result_of_a_group_of_one_is_that_of_the_one() -> None:
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [ToolError("x")])])
    assert error_result(group) == error_result(ToolError("x"))


def test_an_error_without_a_message_is_told_by_its_type() -> None:
    assert error_result(ValueError()).content == (Text("Error: ValueError"),)


async def test_an_unknown_tool_says_which_there_are() -> None:
    async with memory_harness() as harness:
        result = (await ran(harness, lambda a, c: "x", ToolCall("c1", "wrok", {}))).result
        assert result.error == ToolErrorInfo("ToolNotFoundError", "UNKNOWN_TOOL")
        assert "Did you mean work?" in repr(result.content)
        assert "none" in repr((await run_call(harness.hook, {}, CALL, str)).result.content)


async def test_a_denial_is_reviewed_and_not_run() -> None:
    did: list[object] = []
    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(tools_pre_execute=lambda: Deny("no")))
        reviewed = await ran(harness, lambda a, c: did.append(a))
        assert reviewed.result == ToolResult("Error: no", is_error=True)
        assert did == []


@pytest.mark.parametrize("hook", ["tools_pre_execute", "tools_execute", "tools_post_execute"])
async def test_a_hook_that_raises_makes_an_error_result(hook: str) -> None:
    def broken() -> None:
        raise RuntimeError("broken")

    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(**{hook: broken}))
        result = (await ran(harness, lambda a, c: "x")).result
        assert result.is_error
        assert "broken" in repr(result.content)


@pytest.mark.parametrize("hook", ["tools_pre_execute", "tools_execute", "tools_post_execute"])
async def test_cancellation_gets_out_of_every_stage(hook: str) -> None:
    async def asleep() -> None:
        await trio.sleep_forever()

    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(**{hook: asleep}))
        with trio.CancelScope() as scope:
            scope.cancel()
            await ran(harness, lambda a, c: "x")
        assert scope.cancelled_caught


async def test_cancellation_gets_out_of_a_tool(autojump_clock: trio.testing.MockClock) -> None:
    async def do(arguments: Any, call: ToolCall) -> None:
        await trio.sleep_forever()

    async with memory_harness() as harness:
        with trio.move_on_after(5) as scope:
            await ran(harness, do)
        assert scope.cancelled_caught


async def test_a_deadline_of_the_tools_own_is_an_error_like_any_other(autojump_clock: trio.testing.MockClock) -> None:
    async def do(arguments: Any, call: ToolCall) -> None:
        with trio.fail_after(5):
            await trio.sleep_forever()

    async with memory_harness() as harness:
        assert (await ran(harness, do)).result.is_error


async def test_the_stages_one_by_one() -> None:
    context = HookContext("note", PluginSource("notes"))
    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(tools_post_execute=lambda: Block("withheld", context=context)))
        assert await judge(harness.hook, CALL) == Judged(None)
        result = await run(harness.hook, tools(lambda a, c: "x"), CALL)
        assert result == ToolResult("x")
        assert await review(harness.hook, CALL, result, str) == Reviewed(
            ToolResult("withheld", is_error=True), (context,)
        )


async def test_a_reviewer_cannot_change_the_result_it_is_shown() -> None:
    def post(result: ToolResult) -> Accept:
        with pytest.raises(AttributeError):
            result.is_error = True  # type: ignore[misc]  # that is the point
        return Accept()

    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(tools_post_execute=post))
        assert (await ran(harness, lambda a, c: "x")).result == ToolResult("x")


async def test_secrets_are_masked_in_text_and_meta_and_nothing_else_changes() -> None:
    block = OtherBlock({"type": "image", "data": "aGk="})
    result = ToolResult(
        (Text("token s3cret-value"), block), meta={"lines": ["s3cret-value", 3, None, True], "n": {"x": "s3cret-value"}}
    )
    async with memory_harness() as harness:
        harness.secrets.add("s3cret-value", "TOKEN")
        reviewed = (await ran(harness, lambda a, c: result)).result
        assert reviewed.content == (Text("token [secret TOKEN]"), block)
        assert reviewed.meta == {"lines": ["[secret TOKEN]", 3, None, True], "n": {"x": "[secret TOKEN]"}}


def test_tools_are_sorted_by_name() -> None:
    collected = Tools()
    for name in ("b", "C", "a"):
        collected.view(name).add(Tool(name, "", {"type": "object"}, lambda a, c: "x"))
    assert list(collected.by_name()) == ["C", "a", "b"]
