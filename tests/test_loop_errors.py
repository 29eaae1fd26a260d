"""What an error of a plugin does, at each place: it ends the turn at most, and the next one works."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import pytest
import trio
import trio.testing
from attrs import frozen

from dsh.agents import AgentOptions
from dsh.decisions import Accept, Block
from dsh.errors import DshError
from dsh.llm.chunks import Finish
from dsh.messages import FinishReason, HookContext, PluginSource
from dsh.prompt import Sections
from dsh.session import events as ev
from dsh.testing import Reply, ScriptedModel, call, fail, memory_agent, on_event, plugin_of, reply, shape, text, tool_of
from dsh.tools.tool import ToolCall


def boom(*_: object) -> NoReturn:
    raise RuntimeError("boom")


@frozen
class Ran:
    """A turn that went wrong: its log, what was reported, and what was warned of."""

    log: str
    reason: ev.EndReason
    errors: list[tuple[int, int, str]]
    warnings: list[str]


async def run_with(plugin: object, *replies: Reply, plugins: dict[str, object] | None = None) -> Ran:
    """A turn with a plugin that fails once, and a turn behind it that must work."""
    errors: list[tuple[int, int, str]] = []
    warnings: list[str] = []
    model = ScriptedModel(*replies, otherwise=text("fine"))
    async with memory_agent(model=model, plugins=plugins, warnings=warnings) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda turn, step, error: errors.append((turn, step, str(error)))))
        agent.plugins.register(plugin, "bad")
        result = await agent.run("go")
        log = shape(agent.session.events)
        agent.plugins.unregister(plugin)
        assert agent.status == "idle"
        after = await agent.run("again")
        assert after.text
        assert after.reason == ev.EndReason("completed")
        assert result.reason is not None
        return Ran(log, result.reason, errors, warnings)


def failed(reason: ev.EndReason | None, step: int, message: str = "boom") -> bool:
    """Whether a turn ended by this error, and says whose it is."""
    assert reason is not None
    named = re.fullmatch(r"(.*) \(raised by \w+ of the plugin '.+'\)", reason.message or "", re.DOTALL)
    return (reason.kind, reason.step, named and named[1]) == ("error", step, message)


WORK = {"tool": tool_of("work")}
STEP = "T+1 U S+1 H(initial) C×6 A"


@pytest.mark.parametrize(
    ("kind", "step", "log"),
    [
        (ev.TurnStart, 0, "T+1 T-(error 0)"),
        (ev.UserMessage, 0, "T+1 U T-(error 0)"),
        (ev.StepStart, 1, "T+1 U S+1 S-1 T-(error 1)"),
        (ev.RequestHeader, 1, "T+1 U S+1 H(initial) S-1 T-(error 1)"),
        (ev.AssistantChunk, 1, "T+1 U S+1 H(initial) C×1 S-1 T-(error 1)"),
        (ev.AssistantMessage, 1, f"{STEP} TC(c1) TR!(c1) S-1 T-(error 1)"),
        (ev.ToolCall, 1, f"{STEP} TC(c1) TR!(c1) S-1 T-(error 1)"),
        (ev.ToolResult, 1, f"{STEP} TC(c1) TR(c1) S-1 T-(error 1)"),
        (ev.StepEnd, 1, f"{STEP} TC(c1) TR(c1) S-1 T-(error 1)"),
    ],
)
async def test_a_listener_that_raises_ends_the_turn(kind: type, step: int, log: str) -> None:
    """D01, D05, D07."""
    ran = await run_with(on_event(kind, boom), call("work"), plugins=WORK)
    assert ran.log == log
    assert failed(ran.reason, step)
    assert ran.errors == [(1, step, "boom")]


async def test_a_listener_that_raises_on_a_blocked_prompt_ends_the_turn() -> None:
    answers = iter([Block("no")])
    gate = plugin_of(agent_prompt_submit=lambda: next(answers, None))
    ran = await run_with(on_event(ev.PromptBlocked, boom), text("x"), plugins={"gate": gate})
    assert ran.log == "T+1 D(gate block) PB T-(error 0)"
    assert failed(ran.reason, 0)


async def test_a_listener_that_raises_on_steering_ends_the_turn() -> None:
    def steer(call: ToolCall) -> None:
        assert call.agent is not None
        call.agent.steer("left")

    tool = tool_of("work", steer)
    ran = await run_with(on_event(ev.SteeringMessage, boom), call("work"), plugins={"tool": tool})
    assert ran.log == f"{STEP} TC(c1) TR(c1) ST S-1 T-(error 1)"


async def test_a_listener_that_raises_on_added_context_ends_the_turn() -> None:
    context = HookContext("note", PluginSource("notes"))
    notes = plugin_of(tools_post_execute=lambda: Accept(context=context))
    ran = await run_with(on_event(ev.ContextMessage, boom), call("work"), plugins={**WORK, "notes": notes})
    assert ran.log == f"{STEP} TC(c1) D(notes accept) TR(c1) CX S-1 T-(error 1)"


async def test_a_listener_that_raises_on_the_end_of_a_turn_is_a_warning() -> None:
    ran = await run_with(on_event(ev.TurnEnd, boom), text("x"))
    assert ran.log == "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"
    assert ran.reason == ev.EndReason("completed")
    assert ran.errors == []
    assert len(ran.warnings) == 1
    assert "boom" in ran.warnings[0]
    assert "'bad'" in ran.warnings[0]


BEFORE_A_STEP = "T+1 U T-(error 1)"
IN_A_REQUEST = "T+1 U S+1 S-1 T-(error 1)"


@pytest.mark.parametrize(
    ("hook", "log"),
    [
        ("prompt_sections", BEFORE_A_STEP),
        ("prompt_variables", BEFORE_A_STEP),
        ("tools_register", BEFORE_A_STEP),
        ("prompt_assemble", BEFORE_A_STEP),
        ("agent_session_prefix", BEFORE_A_STEP),
        ("agent_pre_step", BEFORE_A_STEP),
        ("agent_request", IN_A_REQUEST),
        ("llm_stream", "T+1 U S+1 H(initial) S-1 T-(error 1)"),
        ("agent_step_result", "T+1 U S+1 H(initial) C×5 S-1 T-(error 1)"),
        ("agent_turn_continuation", "T+1 U S+1 H(initial) C×5 A S-1 T-(error 1)"),
    ],
)
async def test_a_hook_that_raises_ends_the_turn(hook: str, log: str) -> None:
    """D04, D10.  Deciding hooks leave a record; it is left out here."""
    ran = await run_with(plugin_of(**{hook: lambda: boom()}), text("x"))
    assert ran.log.replace(" D(bad raised)", "") == log
    assert failed(ran.reason, 1)
    assert ran.errors == [(1, 1, "boom")]


@pytest.mark.parametrize("hook", ["tools_pre_execute", "tools_execute", "tools_post_execute"])
async def test_a_hook_of_a_tool_that_raises_makes_an_error_result(hook: str) -> None:
    """J08."""
    ran = await run_with(plugin_of(**{hook: lambda: boom()}), call("work"), plugins=WORK)
    assert ran.log.replace(" D(bad raised)", "") == f"{STEP} TC(c1) TR!(c1) S-1 S+2 C×8 A S-2 T-(completed)"
    assert ran.errors == []


async def test_a_rendering_error_names_the_section() -> None:
    def sections(sections: Sections) -> None:
        sections.add("mine", "{{nobody}}")

    ran = await run_with(plugin_of(prompt_sections=sections), text("x"))
    assert ran.log == BEFORE_A_STEP
    assert "section 'mine'" in str(ran.reason.message)
    assert ran.reason.code == "PROMPT"


async def test_a_script_that_is_over_fails_the_turn() -> None:
    """D14."""
    async with memory_agent() as agent:
        result = await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) S-1 T-(error 1)"
        assert result.reason is not None
        assert result.reason.code == "SCRIPT_EXHAUSTED"


async def test_an_aborted_finish_is_an_error_not_an_abort() -> None:
    """D16."""
    ran = await run_with(plugin_of(), Reply([Finish(FinishReason("aborted"))]))
    assert ran.log == "T+1 U S+1 H(initial) C×1 S-1 T-(error 1)"
    assert ran.reason.code == "ABORTED"


async def test_a_listener_on_the_end_of_a_failed_step_speaks_first() -> None:
    """D08."""
    failing = Reply([Finish(FinishReason("error", "theirs", "SERVER"))])
    ran = await run_with(on_event(ev.StepEnd, boom), failing)
    assert ran.log == "T+1 U S+1 H(initial) C×1 S-1 T-(error 1)"
    assert failed(ran.reason, 1)
    assert ran.errors == [(1, 1, "boom")]


async def test_a_listener_on_a_result_leaves_no_call_unanswered() -> None:
    """D17."""
    calls = [("c1", "work", "{}"), ("c2", "work", "{}")]
    ran = await run_with(on_event(ev.ToolResult, boom), reply(calls=calls), plugins=WORK)
    assert ran.log == "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(error 1)"


async def test_the_first_request_after_a_failed_header_writes_it_again() -> None:
    bad = on_event(ev.RequestHeader, boom)
    async with memory_agent(text("a")) as agent:
        agent.plugins.register(bad)
        await agent.run("one")
        await agent.run("two")
        assert "S+1 H(initial) S-1 T-(error 1)" in shape(agent.session.events)
        assert "S+1 H(resume) C×5" in shape(agent.session.events)


async def test_a_failing_flush_is_reported_and_changes_nothing() -> None:
    """D11."""
    failures = [OSError("disk full")]

    def flush() -> None:
        if failures:
            raise failures.pop()

    ran = await run_with(plugin_of(session_flush=flush), text("x"))
    assert ran.log.endswith("T-(completed)")
    assert ran.errors == [(1, 1, "disk full")]


async def test_status_listeners_that_raise_change_nothing() -> None:
    """D13."""
    warnings: list[str] = []
    async with memory_agent(text("x"), warnings=warnings) as agent:
        agent.plugins.register(plugin_of(agent_status=boom_status))
        agent.send("go")
        await agent.when_idle()
        assert shape(agent.session.events).endswith("T-(completed)")
        assert len([warning for warning in warnings if "boom" in warning]) == 2


def boom_status(status: str) -> None:
    boom()


async def test_error_listeners_that_raise_change_nothing() -> None:
    warnings: list[str] = []
    async with memory_agent(fail("theirs"), warnings=warnings) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda: boom()))
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.message == "theirs"
        assert any("boom" in warning for warning in warnings)


async def test_an_error_names_the_plugin_that_raised_it() -> None:
    heard: list[BaseException] = []
    async with memory_agent(text("x")) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda error: heard.append(error)))
        agent.plugins.register(plugin_of(agent_pre_step=lambda: boom()), "culprit")
        await agent.run("go")
        assert any("'culprit'" in note for note in heard[0].__notes__)


async def test_of_several_errors_the_first_speaks() -> None:
    class Coded(DshError):
        default_code = "CODED"

    def coded(event: ev.Event) -> None:
        raise Coded("first")

    async with memory_agent(text("x")) as agent:
        agent.plugins.register(on_event(ev.StepStart, boom))
        agent.plugins.register(on_event(ev.StepStart, coded))  # registered last, called first
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.code == "CODED"
        assert (result.reason.message or "").startswith("first (raised by")


async def test_an_error_group_of_a_plugins_nursery_is_an_ordinary_error() -> None:
    async def failing() -> None:
        await trio.lowlevel.checkpoint()
        boom()

    async def pre_step() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing)

    ran = await run_with(plugin_of(agent_pre_step=pre_step), text("x"))
    assert failed(ran.reason, 1)


async def test_the_message_of_an_error_has_no_secrets() -> None:
    secrets = plugin_of(secrets_register=lambda secrets: secrets.add("hunter2222", "password"))

    def pre_step() -> None:
        raise RuntimeError("wrong password hunter2222")

    ran = await run_with(plugin_of(agent_pre_step=pre_step), text("x"), plugins={"secrets": secrets})
    assert failed(ran.reason, 1, "wrong password [secret password]")


async def test_a_source_that_is_no_json_opens_no_turn_and_harms_nobody() -> None:
    errors: list[tuple[int, int]] = []
    warnings: list[str] = []
    async with memory_agent(text("x"), warnings=warnings) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda turn, step: errors.append((turn, step))))
        bad: Any = object()
        agent.send("go", bad)
        await agent.when_idle()
        assert errors == [(1, 0)]
        assert "turn 1 could not be opened" in warnings[0]
        assert (await agent.run("again")).text == "x"
        assert agent.session.last_turn == 1


async def test_errors_while_a_turn_is_closed_are_warnings() -> None:
    """The results that answer open calls are logged whatever listeners do."""
    warnings: list[str] = []
    calls = [("c1", "stop", "{}"), ("c2", "work", "{}")]
    async with memory_agent(reply(calls=calls), warnings=warnings, plugins=WORK) as agent:
        agent.plugins.register(tool_of("stop", lambda _: agent.cancel("enough")))
        agent.plugins.register(
            on_event(ev.ToolResult, lambda event: None if event.data.call_id == "c1" else boom(), every=True)
        )
        await agent.run("go")
        assert shape(agent.session.events).endswith("TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted enough)")
        assert any("boom" in warning for warning in warnings)


async def test_a_task_of_the_agent_that_dies_is_reported() -> None:
    heard: list[tuple[int, int, str]] = []
    warnings: list[str] = []

    async def dies() -> None:
        await trio.lowlevel.checkpoint()
        boom()

    async with memory_agent(text("x"), warnings=warnings) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda turn, step, error: heard.append((turn, step, str(error)))))
        agent.start_soon(dies)
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [(0, 0, "boom")]
        assert "boom" in warnings[0]
        assert (await agent.run("go")).text == "x"


@pytest.mark.parametrize("options", [AgentOptions(model="nowhere/model"), AgentOptions(model="mistyped")])
async def test_a_model_that_nobody_serves_is_an_error_that_says_what_there_is(options: AgentOptions) -> None:
    async with memory_agent(text("x"), options=options) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.code == "NO_ADAPTER"
        assert "scripted" in str(result.reason.message)
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) S-1 T-(error 1)"


async def test_text_that_a_failing_hook_was_to_look_at_stays_out_of_the_conversation() -> None:
    """Who raises in a filter has not let anything pass."""
    async with memory_agent(text("seen")) as agent:
        agent.plugins.register(plugin_of(agent_step_result=lambda: boom()))
        await agent.run("go")
        assert [message.role for message in agent.session.derive_messages()] == ["user"]
