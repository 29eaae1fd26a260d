"""``dsh why``: for a call, a prompt, a request or a turn, the chain of hooks that decided."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dsh import Accept, Agent, Block, Continue, Deny, GiveUp, Stop
from dsh.approval import AllowOnce
from dsh.cli import main
from dsh.config import Config
from dsh.explain import explain_call, explain_event, explain_turn, last_denial, lines_about, place_of
from dsh.llm.scripted import fail
from dsh.session.events import AssistantMessage, TurnEnd, UserMessage
from dsh.testing import call, memory_agent, plugin_of, text, tool_of, wrapper_of

pytest.importorskip("dsh_jsonl")


def guard(word: str) -> object:
    return plugin_of(tools_pre_execute=lambda call: Deny(f"no {word}") if call.arguments.get("x") == word else None)


async def test_a_call_names_everyone_who_decided_in_order() -> None:
    def tools_execute(call: Any) -> Any:
        result = yield
        return attrs.evolve(result, meta={"seen": True})

    plugins = {
        "doing": tool_of("do"),
        "first": guard("a"),
        "second": guard("b"),
        "adjusts": wrapper_of(tools_execute=tools_execute),
    }
    replies = [call("do", {"x": "b"}, id="c1"), call("do", {}, id="c2"), text("done")]
    async with memory_agent(*replies, plugins=plugins) as agent:
        await agent.run("go")
        events = agent.session.events
        denied, ran = explain_call(events, "c1"), explain_call(events, "c2")
        index = last_denial(events)
        assert index is not None
        assert explain_event(events, index) == denied
    assert (denied.what, denied.turn, denied.step) == ('the call of do {"x":"b"}', 1, 1)
    assert denied.outcome == "an error: no b"
    assert [(one.plugin, one.verdict, one.reason) for one in denied.decisions] == [("second", "deny", "no b")]
    assert [(one.hook, one.plugin, one.verdict, one.changed) for one in ran.decisions] == [
        ("tools_execute", "adjusts", "changed", ("meta",))
    ]


async def test_a_prompt_names_who_blocked_or_changed_it() -> None:
    blocked = plugin_of(agent_prompt_submit=lambda content: Block("not today") if "bad" in str(content) else None)
    async with memory_agent(text("one"), plugins={"gatekeeper": blocked}) as agent:
        await agent.run("a bad idea")
        await agent.run("a good one")
        events = agent.session.events
        index = last_denial(events)
        assert index is not None
        found = explain_event(events, index)
        good = next(n for n, event in enumerate(events) if isinstance(event.data, UserMessage))
        assert explain_event(events, good).decisions == ()
    assert (found.what, found.outcome) == ("the prompt 'a bad idea'", "it was blocked: not today")
    assert [one.plugin for one in found.decisions] == ["gatekeeper"]


async def test_a_request_and_the_end_of_a_turn() -> None:
    def agent_request(agent: Agent, step: int) -> Any:
        config = yield
        return attrs.evolve(config, temperature=0.5) if step == 2 else config

    def agent_turn_continuation(decision: Any) -> Any:
        return Continue("once more") if isinstance(decision, Stop) and next(left, None) else None

    left = iter([True])
    plugins = {
        "warm": wrapper_of(agent_request=agent_request),
        "stubborn": plugin_of(agent_turn_continuation=agent_turn_continuation),
    }
    async with memory_agent(text("one"), text("two"), plugins=plugins) as agent:
        await agent.run("go")
        events = agent.session.events
        answers = [n for n, event in enumerate(events) if isinstance(event.data, AssistantMessage)]
        first, second = (explain_event(events, index) for index in answers)
        end = explain_event(events, next(n for n, event in enumerate(events) if isinstance(event.data, TurnEnd)))
        whole = explain_turn(events, 1)
    assert first.decisions == ()
    assert [(one.plugin, one.verdict, one.changed) for one in second.decisions] == [
        ("warm", "changed", ("temperature",))
    ]
    assert second.outcome == "the answer 'two'"
    assert [(one.plugin, one.verdict) for one in end.decisions] == [("stubborn", "continue")]
    assert [one.what for one in whole] == ["the request of step 2", "the end of turn 1"]


async def test_where_an_implementation_stands() -> None:
    def tools_pre_execute(call: Any) -> Any:
        return Deny("no")

    plugins = {"doing": tool_of("do"), "guard": plugin_of(tools_pre_execute=tools_pre_execute)}
    async with memory_agent(call("do", {}), text("done"), plugins=plugins) as agent:
        await agent.run("go")
        (decision,) = explain_call(agent.session.events, "c1").decisions
        place = place_of(agent.harness.plugins, decision)
        assert place is not None
        assert (place.file, place.line) == (__file__, tools_pre_execute.__code__.co_firstlineno)
        assert place_of(agent.harness.plugins, attrs.evolve(decision, plugin="gone")) is None
        assert place_of(agent.harness.plugins, attrs.evolve(decision, hook="gone")) is None


# -- the command

PLUGIN = """\
from dsh import Deny, hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES))

@hookimpl
def tools_pre_execute(call):
    if "secret" in str(call.arguments):
        return Deny("that is private")
"""
TWO = 'call("bash", {"command": "cat secret"}), call("bash", {"command": "ls"}, id="c2"), text("done")'

Dsh = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Dsh:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(argv)
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err
        return code, shown.out, shown.err

    return run


def task(dsh: Dsh, tmp_path: Path, replies: str = TWO) -> None:
    (tmp_path / "guard.py").write_text(PLUGIN.replace("REPLIES", replies))
    code, _, err = dsh("-p", "go", "-m", "scripted/model", "-e", "guard.py", "-q", "--permission-mode", "bypass")
    assert code == 0, err


def test_it_explains_the_last_denial_by_itself(dsh: Dsh, tmp_path: Path) -> None:
    task(dsh, tmp_path)
    code, out, _ = dsh("why", "-e", "guard.py")
    assert code == 0
    assert 'the call of bash {"command":"cat secret"} (turn 1, step 1)' in out
    assert "-> an error: that is private" in out
    assert "tools_pre_execute  guard" in out
    assert "that is private\n     guard.py:8" in out
    assert 'the call of bash {"command":"ls"}' not in out


def test_a_plugin_that_is_gone_is_said_to_be(dsh: Dsh, tmp_path: Path) -> None:
    task(dsh, tmp_path)
    assert "the plugin guard is not loaded now" in dsh("why")[1]


def test_json_and_what_can_be_asked(dsh: Dsh, tmp_path: Path) -> None:
    task(dsh, tmp_path)
    lines = [json.loads(line) for line in dsh("why", "--json", "last", "-e", "guard.py")[1].splitlines()]
    assert lines[0]["what"].startswith("the call of bash")
    assert lines[-1]["what"] == "the end of turn 1"
    (decision,) = (one for one in lines[0]["decisions"] if one["plugin"] == "guard")
    assert {**decision, "ms": 0, "version": "", "versionNow": ""} == {
        "hook": "tools_pre_execute",
        "plugin": "guard",
        "version": "",
        "verdict": "deny",
        "reason": "that is private",
        "ms": 0,
        "turn": 1,
        "step": 1,
        "callId": "c1",
        "file": str(tmp_path / "guard.py"),
        "line": 8,
        "versionNow": "",
    }
    session = dsh("sessions", "list", "--json")[1]
    identity = json.loads(session.splitlines()[0])["id"]
    for about in ("call:c1", "turn:1", "seq:0", "denied"):
        assert dsh("why", identity[:8], about)[0] == 0, about


def test_what_is_not_there_is_said(dsh: Dsh, tmp_path: Path) -> None:
    code, _, err = dsh("why")
    assert (code, "there is no session of this directory yet" in err) == (2, True)
    task(dsh, tmp_path, 'text("done")')
    for about, words in {
        "call:nope": "the session has no call 'nope'",
        "turn:9": "the session has no turn 9; its turns are 1 to 1",
        "seq:9999": "there is no event 9999; the last one is",
        "denied": "nothing was denied",
        "what:ever": "expected seq:N, turn:N, call:ID, denied or last",
    }.items():
        code, out, err = dsh("why", about)
        assert (code, out) == (2, ""), about
        assert words in err
    assert dsh("why", "a", "b")[0] == 2
    assert "there is no session missing" in dsh("why", "missing")[2]


async def test_what_an_answer_changed_is_named() -> None:
    """Also of an implementation that is no wrapper, and of a gate's answer that brings something."""
    plugins = {
        "doing": tool_of("do"),
        "warm": plugin_of(agent_request=lambda config, step: attrs.evolve(config, temperature=0.5)),
        "same": plugin_of(tools_post_execute=lambda call: Accept()),
        "words": plugin_of(tools_post_execute=lambda call: Accept("other", context="a note")),
    }
    async with memory_agent(call("do", {}), text("done"), plugins=plugins) as agent:
        await agent.run("go")
        request, called, *_ = explain_turn(agent.session.events, 1)
    assert [(one.plugin, one.changed) for one in request.decisions] == [("warm", ("temperature",))]
    assert request.outcome == "calls of do"
    assert {one.plugin: one.changed for one in called.decisions} == {"words": ("content", "context"), "same": None}


async def test_a_part_of_a_plugin_has_its_version() -> None:
    permissions = pytest.importorskip("dsh_permissions")
    plugins = {"permissions": permissions, "doing": tool_of("do")}
    async with memory_agent(call("do", {}), text("done"), plugins=plugins) as agent:
        manager = agent.harness.plugins
        manager.distributions["permissions"] = ("dsh-harness", "7.0")
        assert manager.version_of("permissions.approve") == manager.version_of("permissions") == "7.0"
        assert manager.version_of("nothing.approve") == ""


async def test_decisions_are_listed_in_order_with_version_verdict_and_time() -> None:
    """A question, and the answer by which the call ran all the same."""
    permissions = pytest.importorskip("dsh_permissions")
    yes = plugin_of(permission_ask=lambda request: AllowOnce())
    plugins = {"permissions": permissions, "yes": yes, "doing": tool_of("do")}
    async with memory_agent(call("do", {}), text("done"), plugins=plugins) as agent:
        agent.harness.plugins.distributions["permissions"] = ("dsh-harness", "7.0")
        await agent.run("go")
        found = explain_call(agent.session.events, "c1")
        shown = "\n".join(lines_about(agent.harness, found))
    assert [one.verdict for one in found.decisions] == ["ask", "allow"]
    first, second = (
        rf"  {number}\. tools_pre_execute  permissions\S* 7\.0  {verdict}  \d+\.\d\d ms\n"
        for number, verdict in ((1, "ask"), (2, "allow"))
    )
    assert re.search(rf"^{first}(     .*\n)+{second}", shown, re.MULTILINE), shown


async def test_a_limit_is_told_by_its_event_and_nobody_is_blamed() -> None:
    budget = pytest.importorskip("dsh_budget")
    config = Config(tables={"budget": {"max_requests": 1}})
    plugins = {"budget": budget, "doing": tool_of("do")}
    async with memory_agent(call("do", {}), text("done"), plugins=plugins, config=config) as agent:
        await agent.run("go")
        end = explain_turn(agent.session.events, 1)[-1]
        shown = list(lines_about(agent.harness, end))
    assert end.outcome.startswith("error: the model was asked ")
    assert end.outcome.endswith("the limit of the run")
    assert [event.type for event in end.more] == ["budget/reached"]
    assert shown[-1].startswith(f"  budget/reached (event {end.more[0].seq}): code: LIMIT_REQUESTS, message: the model")


async def test_a_wait_for_another_try_is_part_of_the_request() -> None:
    retry = pytest.importorskip("dsh_retry")
    config = Config(tables={"retry": {"base_ms": 1, "max_ms": 1}})
    failed = fail("too busy", code="OVERLOADED", retryable=True)
    async with memory_agent(failed, text("done"), plugins={"retry": retry}, config=config) as agent:
        await agent.run("go")
        request = explain_turn(agent.session.events, 1)[0]
    assert [(one.plugin, one.verdict) for one in request.decisions] == [("retry", "retry")]
    assert [event.type for event in request.more] == ["retry/wait"]


async def test_a_request_that_got_no_answer_is_part_of_its_turn() -> None:
    gives_up = plugin_of(agent_request_error=lambda: GiveUp())
    failed = fail("too busy", code="OVERLOADED", retryable=True)
    async with memory_agent(failed, plugins={"resigned": gives_up}) as agent:
        await agent.run("go")
        request, end = explain_turn(agent.session.events, 1)
    assert (request.what, request.outcome) == ("the request of step 1", "no answer")
    assert [(one.plugin, one.verdict) for one in request.decisions] == [("resigned", "giveup")]
    assert end.what == "the end of turn 1"


def test_a_denial_below_is_found(dsh: Dsh, tmp_path: Path) -> None:
    pytest.importorskip("dsh_subagents")
    child = 'call("subagent", {"description": "c", "prompt": "p"}, id="s"), '
    task(dsh, tmp_path, f'{child}call("bash", {{"command": "cat secret"}}, id="c9"), text("child"), text("done")')
    for about in ((), ("denied",)):
        code, out, _ = dsh("why", *about)
        assert code == 0
        assert 'the call of bash {"command":"cat secret"} (turn 1, step 1)' in out
        assert " started\n" in out
    record = json.loads(dsh("why", "--json")[1])
    parent = json.loads(dsh("sessions", "list", "--json")[1].splitlines()[0])["id"]
    assert record["session"] != parent
    assert "the end of turn 1" in dsh("why", "last")[1]


def test_what_is_asked_for_is_written_as_it_is(dsh: Dsh, tmp_path: Path) -> None:
    task(dsh, tmp_path)
    for about in ("last:1", "denied:2", "Seq:1"):
        code, _, err = dsh("why", about)
        assert (code, "expected seq:N, turn:N, call:ID, denied or last" in err) == (2, True), about
