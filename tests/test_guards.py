"""A guard that fails, denies: whatever it does, the tool's body does not run, and the log says who it was."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from typing import Any, NoReturn

import pytest
import trio
import trio.testing

from dsh import Allow, Ask, Config, Deny, hookimpl
from dsh.config import HooksConfig
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.testing import call, fail, memory_agent, plugin_of, shape, text, tool_of, wrapper_of

DEADLINE = 0.05


class Raises:
    @hookimpl
    def tools_pre_execute(self) -> None:
        raise RuntimeError("out of order")


class Sleeps:
    @hookimpl
    async def tools_pre_execute(self) -> None:
        await trio.sleep_forever()


class Blocks:
    """Cannot be interrupted, and is late all the same."""

    @hookimpl
    def tools_pre_execute(self) -> Allow:
        time.sleep(2 * DEADLINE)
        return Allow()


class Allows:
    @hookimpl(tryfirst=True)
    def tools_pre_execute(self) -> Allow:
        return Allow()


class Denies:
    @hookimpl
    def tools_pre_execute(self) -> Deny:
        return Deny("not that one")


class Asks:
    @hookimpl
    def tools_pre_execute(self) -> Ask:
        return Ask("is this wanted?")


class Undoes:
    """Tries to turn a denial into a permission."""

    @hookimpl(wrapper=True)
    def tools_pre_execute(self) -> Generator[None, Any, Allow]:
        yield
        return Allow()


@pytest.mark.parametrize(
    ("guards", "told", "decisions"),
    [
        ({"bad": Raises()}, "out of order", [("bad", "raised")]),
        ({"bad": Sleeps()}, "missed its deadline", [("bad", "late")]),
        ({"bad": Blocks()}, "missed its deadline", [("bad", "late")]),
        ({"yes": Allows(), "no": Denies()}, "not that one", [("yes", "allow"), ("no", "deny")]),
        ({"no": Denies(), "undo": Undoes()}, "not that one", [("no", "deny"), ("undo", "restored")]),
        ({"bad": Raises(), "undo": Undoes()}, "out of order", [("bad", "raised"), ("undo", "restored")]),
        ({"ask": Asks()}, "is this wanted?", [("ask", "ask")]),
    ],
)
async def test_the_tool_does_not_run(guards: dict[str, object], told: str, decisions: list[tuple[str, str]]) -> None:
    ran: list[str] = []
    plugins = {"tool": tool_of("work", lambda call: ran.append("ran")), **guards}
    config = Config(hooks=HooksConfig(deadline=DEADLINE))
    async with memory_agent(call("work"), text("I see"), plugins=plugins, config=config) as agent:
        result = await agent.run("go")
        events = agent.session.events

        assert ran == []
        assert result.text == "I see"
        (answer,) = [event.data for event in events if isinstance(event.data, ev.ToolResult)]
        assert answer.is_error
        assert told in answer.content[0].text  # type: ignore[union-attr]  # a text block
        logged = [event.data for event in events if isinstance(event.data, ev.HookDecision)]
        assert [(data.plugin, data.verdict) for data in logged] == decisions
        assert {(data.hook, data.turn, data.step, data.call_id) for data in logged} == {
            ("tools_pre_execute", 1, 1, "c1")
        }
        assert "TC(c1) D(" in shape(events)


async def test_a_question_that_an_approver_answers_is_a_permission() -> None:
    ran: list[str] = []
    tool = tool_of("work", lambda call: ran.append("ran"))
    async with memory_agent(
        call("work"), text("done"), plugins={"tool": tool, "ask": Asks(), "approver": Undoes()}
    ) as agent:
        await agent.run("go")
        assert ran == ["ran"]


async def test_a_guard_that_wants_to_end_the_program_denies() -> None:
    """`sys.exit` in a plugin is its error, and names it; nobody's exit code is a plugin's to choose."""

    def leaves() -> None:
        raise SystemExit(9)

    async with memory_agent(call("work"), text("I see"), plugins={"tool": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(tools_pre_execute=leaves), "leaver")
        result = await agent.run("go")
        assert result.text == "I see"
        (answer,) = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)]
        assert answer.is_error
        assert "leaver" in text_of(answer.content)


@pytest.mark.parametrize("hook", ["agent_pre_step", "agent_status", "prompt_sections", "agent_step_result"])
async def test_no_hook_ends_the_program(hook: str) -> None:
    def leaves() -> None:
        raise SystemExit(9)

    async with memory_agent(text("x"), text("y"), plugins={"leaver": plugin_of(**{hook: leaves})}) as agent:
        await agent.run("go")
        agent.harness.plugins.unregister(name="leaver")
        assert (await agent.run("again")).text


@pytest.mark.parametrize(
    "hook",
    ["agent_request", "agent_step_result", "agent_turn_continuation", "prompt_assemble", "agent_request_error"],
)
@pytest.mark.parametrize("wrapping", [False, True])
async def test_an_answer_of_the_wrong_kind_names_its_plugin(hook: str, wrapping: bool) -> None:
    """And nobody else's: the plugins around it are not handed the wrong answer."""

    def replace() -> Generator[None, Any, int]:
        yield
        return 42

    def innocent() -> Generator[None, Any, Any]:
        result = yield
        assert result != 42
        return result

    answers = wrapper_of(**{hook: replace}) if wrapping else plugin_of(**{hook: lambda: 42})
    model = fail() if hook == "agent_request_error" else text("x")
    plugins = {"wrong": answers, "zinnocent": wrapper_of(**{hook: innocent})}
    async with memory_agent(model, plugins=plugins) as agent:
        reason = (await agent.run("go")).reason
        assert reason is not None
        assert reason.kind == "error"
        assert "'wrong'" in (reason.message or "")
        assert "not with 42" in (reason.message or "")


async def leaves_in_a_nursery() -> None:
    """As it comes out of Trio: in a group, maybe with others' errors."""

    async def leave() -> None:
        raise SystemExit(9)

    async def fail() -> None:
        raise ValueError("beside")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        nursery.start_soon(fail)


async def test_a_guard_that_wants_to_end_the_program_in_a_nursery_denies() -> None:
    ran: list[str] = []
    tool = tool_of("work", lambda call: ran.append("ran"))
    async with memory_agent(call("work"), text("I see"), plugins={"tool": tool}) as agent:
        agent.plugins.register(plugin_of(tools_pre_execute=leaves_in_a_nursery), "leaver")
        assert (await agent.run("go")).text == "I see"
        assert ran == []
        (answer,) = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)]
        assert "the plugin leaver failed" in text_of(answer.content)


@pytest.mark.parametrize("hook", ["agent_pre_step", "agent_request", "agent_session_prefix", "agent_step_result"])
@pytest.mark.parametrize("wrapping", ["no", "before", "after"])
async def test_no_nursery_in_a_hook_ends_the_program(hook: str, wrapping: str) -> None:
    async def wrapper() -> AsyncGenerator[None, None]:
        if wrapping == "before":
            await leaves_in_a_nursery()
        yield
        await leaves_in_a_nursery()

    plugin = plugin_of(**{hook: leaves_in_a_nursery}) if wrapping == "no" else wrapper_of(**{hook: wrapper})
    async with memory_agent(text("x"), text("y"), plugins={"leaver": plugin}) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.kind == "error"
        assert f"raised by {hook} of the plugin 'leaver'" in (result.reason.message or "")
        agent.harness.plugins.unregister(name="leaver")
        assert (await agent.run("again")).text


async def test_a_model_that_wants_to_end_the_program_fails_the_turn() -> None:
    """A stream is no hook, and runs in the turn all the same."""

    class Leaving:
        def __aiter__(self) -> Leaving:
            return self

        async def __anext__(self) -> NoReturn:
            raise SystemExit(9)

        async def aclose(self) -> None: ...

    async with memory_agent(text("fine")) as agent:
        with agent.plugins.using(plugin_of(llm_stream=lambda: Leaving()), "leaver"):
            result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.kind == "error"
        assert "wants to end the program (SystemExit: 9)" in (result.reason.message or "")
        assert (await agent.run("again")).text == "fine"


async def test_a_task_that_wants_to_end_the_program_is_reported() -> None:
    warnings: list[str] = []
    async with memory_agent(text("fine"), warnings=warnings) as agent:
        agent.start_soon(leaves_in_a_nursery)
        agent.harness.start_soon(leaves_in_a_nursery)
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.run("go")).text == "fine"
    assert len([one for one in warnings if "wants to end the program (SystemExit: 9)" in one]) == 2
