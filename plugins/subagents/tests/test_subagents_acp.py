"""Children that are other programs: what they say, what they may, how they end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dsh_files
import dsh_shell
import pytest
import trio

from dsh import Allow, Ask, Deny
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.testing import call, plugin_of, reply, shape, text, wrapper_of

pytestmark = pytest.mark.usefixtures("no_leftovers")

AGENT = str(Path(__file__).with_name("acp_agent.py"))
TASK = {"description": "a part", "prompt": "do it", "type": "other"}
FAST = {"eof_grace": 0.2, "term_grace": 0.2}


def other(behaviour: str, more: Any = None, **settings: Any) -> dict[str, Any]:
    """The table ``[subagents]`` with an agent that behaves so."""
    args = [AGENT, behaviour, *([] if more is None else [json.dumps(more)])]
    return {"acp": {"other": {"command": sys.executable, "args": args, "eof_grace": 30, **settings}}}


@asynccontextmanager
async def parent(stage: Any, settings: dict[str, Any], *script: Any, **more: Any) -> AsyncIterator[Any]:
    async with stage.agent(*(script or (call("subagent", TASK), text("done"))), settings=settings, **more) as agent:
        yield agent


async def result(stage: Any, behaviour: str, more: Any = None, **settings: Any) -> tuple[str, str | None]:
    """What a call of such a child comes to."""
    plugins = settings.pop("plugins", None)
    cwd = settings.pop("cwd", None)
    async with parent(stage, other(behaviour, more, **settings), plugins=plugins, cwd=cwd) as agent:
        assert (await agent.run("go")).text == "done"
        ((said, code),) = stage.results(agent.session)
        return said, code


def asked(said: str) -> Any:
    return json.loads(said)


# -- what it says


async def test_the_answer_is_what_it_said_last(stage: Any) -> None:
    async with parent(stage, other("answer"), cwd="/tmp") as agent:
        await agent.run("go")
        assert stage.results(agent.session) == [("The answer.", None)]
        (child,) = stage.children
        header = child.session.header
        assert (header.parent_session, header.cwd) == (agent.session.id, "/tmp")
        assert stage.asked(child.session) == ["do it"]
        left_out = (ev.HookDecision, ev.AssistantChunk)
        events = [event for event in child.session.events if not isinstance(event.data, left_out)]
        assert shape(events) == "T+1 U S+1 H(initial) acp/tool acp/tool A S-1 T-(completed)"
        request = child.session.request_header()
        assert (request.config.model, request.system, request.tools) == ("acp/other", None, None)
        (end,) = [event.data for event in agent.session.events if event.type == "subagent/end"]
        assert (end.reason, end.took.input_tokens, end.took.output_tokens) == ("completed", 5, 4)
        (start,) = [event.data for event in agent.session.events if event.type == "subagent/start"]
        assert (start.provider, start.agent_type, start.session_id) == ("acp", "other", child.session.id)


async def test_it_is_a_kind_of_child(stage: Any) -> None:
    async with parent(stage, other("echo", description="for echoes")) as agent:
        await agent.run("go")
        (tool,) = [tool for tool in agent.session.request_header().tools if tool.name == "subagent"]
        assert tool.parameters["properties"]["type"]["enum"] == ["other"]
        assert "- other: for echoes" in tool.description


async def test_two_beside_each_other_and_one_in_this_program(stage: Any) -> None:
    kinds: list[dict[str, str]] = [{"type": "other"}, {"type": "other"}, {}]
    calls = [(f"c{n}", "subagent", {"description": f"p{n}", "prompt": f"p{n}", **kind}) for n, kind in enumerate(kinds)]
    async with parent(stage, other("echo"), reply(calls=calls), text("inside"), text("done")) as agent:
        assert (await agent.run("go")).text == "done"
        assert [said for said, _ in stage.results(agent.session)] == ["p0", "p1", "inside"]


async def test_in_the_background(stage: Any) -> None:
    started = call("subagent", {**TASK, "background": True})
    async with parent(stage, other("echo"), started, text("waiting"), text("heard")) as agent:
        ended = trio.Event()
        agent.plugins.register(plugin_of(subagent_end=lambda: ended.set()), "watch-end")
        await agent.run("go")
        await ended.wait()
        await agent.when_idle()
        assert "do it" in stage.asked(agent.session)[-1]
        assert stage.links(agent.session)[-1] == ("end", "subagent-1", "completed")


async def test_it_hears_what_it_is_sent_while_it_works(stage: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = [
        call("subagent", {**TASK, "background": True}),
        call("subagent_send", {"id": "subagent-1", "message": "and this"}, id="s"),
        text("waiting"),
        text("heard"),
    ]
    async with parent(stage, other("patient", str(go)), *script) as agent:
        ended = trio.Event()
        agent.plugins.register(plugin_of(subagent_end=lambda: ended.set()), "watch-end")
        await agent.run("go")
        go.touch()
        await ended.wait()
        await agent.when_idle()
        assert "and this" in stage.asked(agent.session)[-1]
        assert stage.asked(stage.children[0].session) == ["do it", "and this"]


async def test_an_answer_by_a_schema_is_asked_for_again(stage: Any) -> None:
    task = {**TASK, "output_schema": {"type": "object", "required": ["a"]}}
    async with parent(stage, other("echo"), call("subagent", task), text("done")) as agent:
        await agent.run("go")
        ((_, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_ANSWER"
        assert len(stage.asked(stage.children[0].session)) == 2


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        ("max_tokens", "SUBAGENT_MAX_TOKENS"),
        ("refusal", "SUBAGENT_REFUSED"),
        ("cancelled", "SUBAGENT_CANCELLED"),
        ("max_turn_requests", "SUBAGENT_FAILED"),
        ("whatever", "SUBAGENT_FAILED"),
        (None, "SUBAGENT_FAILED"),
    ],
)
async def test_why_it_stopped(stage: Any, stop: str | None, code: str) -> None:
    said, found = await result(stage, "stop", stop)
    assert (found, "so far" in said) == (code, True)


async def test_its_own_error(stage: Any) -> None:
    said, code = await result(stage, "error")
    assert code == "SUBAGENT_FAILED"
    assert "no credit (pay)" in said
    assert "so far" in said


# -- how it runs


async def test_its_environment_is_clean_and_its_group_its_own(
    stage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-none-of-yours")
    prepared: list[Any] = []

    def watch(agent: Any, process: Any) -> None:
        prepared.append((agent, process.purpose, process.managed))

    said, _ = await result(
        stage,
        "environment",
        env={"OTHER_TOKEN": "its-own-one"},
        cwd=str(tmp_path),
        plugins={"watch": plugin_of(process_prepare=watch)},
    )
    found = asked(said.replace("[secret OTHER_TOKEN]", "its-own-one"))
    assert "SOME_API_KEY" not in found["env"]
    assert found["env"]["OTHER_TOKEN"] == "its-own-one"
    assert (found["cwd"], found["group"]) == (str(tmp_path), True)
    ((agent, purpose, managed),) = prepared
    assert (agent.parent, purpose, managed) == (None, "subagent", True)


async def test_a_sandbox_that_refuses_keeps_it_from_starting(stage: Any) -> None:
    def refuse(process: Any) -> None:
        raise RuntimeError("no processes here")

    said, code = await result(stage, "answer", plugins={"no": plugin_of(process_prepare=refuse)})
    assert code is not None
    assert "no processes here" in said


@pytest.mark.parametrize(
    ("behaviour", "word"),
    [("version", "version 7"), ("login", "log in"), ("gone", "not today"), ("early", "killed by SIGKILL")],
)
async def test_it_cannot_be_talked_to(stage: Any, behaviour: str, word: str) -> None:
    said, code = await result(stage, behaviour)
    assert code == "SUBAGENT_FAILED"
    assert word in said


async def test_there_is_no_such_program(stage: Any) -> None:
    settings = {"acp": {"other": {"command": "/nowhere/at/all"}}}
    async with parent(stage, settings) as agent:
        await agent.run("go")
        ((said, _),) = stage.results(agent.session)
        assert "there is no such program" in said


async def test_it_never_says_hello(stage: Any) -> None:
    said, _ = await result(stage, "mute", timeout=0.3)
    assert "began no session within 0.3 s" in said


# -- how it ends


@pytest.mark.parametrize(
    ("behaviour", "word"),
    [("killed", "SIGKILL"), ("holder", "SIGKILL"), ("exits", "it broke")],
)
async def test_what_a_dead_one_said_is_kept(stage: Any, behaviour: str, word: str) -> None:
    said, code = await result(stage, behaviour)
    assert code == "SUBAGENT_FAILED"
    assert word in said
    assert said.endswith("so far")


@pytest.mark.parametrize("behaviour", ["hang", "deaf", "flood"])
async def test_one_that_takes_too_long(stage: Any, behaviour: str) -> None:
    from dsh_subagents.acp import client

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "CANCEL_SECONDS", 0.2)
        said, code = await result(stage, behaviour, timeout=0.5, **FAST)
    assert code in ("SUBAGENT_TIMEOUT", "SUBAGENT_FAILED")
    assert "so far" in said


@pytest.mark.parametrize(("behaviour", "patience"), [("hang", 60), ("deaf", 0.2)])
async def test_a_cancel_reaches_it(
    stage: Any, behaviour: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsh_subagents.acp import client

    monkeypatch.setattr(client, "CANCEL_SECONDS", patience)
    heard = trio.Event()

    def listen(session: Any, event: Any) -> None:
        if isinstance(event.data, ev.AssistantChunk) and session.header.parent_session is not None:
            heard.set()

    settings = other(behaviour, **({} if behaviour == "hang" else FAST))
    watch = {"listen": plugin_of(session_event=listen)}
    async with parent(stage, settings, plugins=watch) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.run, "go")
        await heard.wait()
        with trio.fail_after(30):
            agent.cancel("enough")
            await agent.when_idle()
        (child,) = stage.children
        assert child.status == "disposed"
        messages = [event.data for event in child.session.events if isinstance(event.data, ev.AssistantMessage)]
        assert [(text_of(message.content), message.interrupted) for message in messages] == [("so far", True)]
        assert stage.links(agent.session)[-1][2] == "aborted"


async def cancelled_after(stage: Any, behaviour: str, turns: int) -> None:
    prepared = trio.Event()
    watch = {"watch": plugin_of(process_prepare=lambda: prepared.set())}
    async with parent(stage, other(behaviour), plugins=watch) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.run, "go")
        await prepared.wait()
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        with trio.fail_after(60):
            agent.cancel("enough")
            await agent.when_idle()
        assert [child for child in agent.harness.agents.list() if child is not agent] == []


@pytest.mark.parametrize("behaviour", ["mute", "answer"])
async def test_a_cancel_at_any_time(stage: Any, behaviour: str) -> None:
    """Before the program is started, while it says hello, while it works."""
    for turns in (0, 1, 2, 3, 5, 8, 13, 21, 50, 200):
        await cancelled_after(stage, behaviour, turns)


async def test_one_that_does_not_read_its_prompt(stage: Any) -> None:
    task = {**TASK, "prompt": "long " * 200_000}
    async with parent(stage, other("blind", timeout=0.5, **FAST), call("subagent", task), text("done")) as agent:
        assert (await agent.run("go")).text == "done"
        ((_, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_TIMEOUT"


async def test_one_that_stays_after_its_answer(stage: Any) -> None:
    """Row A02: it takes neither the end of its input nor SIGTERM."""
    assert await result(stage, "stay", **FAST) == ("The answer.", None)


async def test_what_it_started_ends_with_it(stage: Any) -> None:
    assert await result(stage, "helpers") == ("started", None)


@pytest.mark.parametrize("behaviour", ["noise", "long-noise"])
async def test_noise_is_passed_over(stage: Any, behaviour: str) -> None:
    assert await result(stage, behaviour) == ("said", None)


@pytest.mark.parametrize("behaviour", ["long-message", "talks"])
async def test_what_is_too_long_ends_it(stage: Any, behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsh_subagents.acp import client, stream

    monkeypatch.setattr(client, "CANCEL_SECONDS", 0.2)
    monkeypatch.setattr(stream, "MOST_TEXT", 1 << 20)
    said, code = await result(stage, behaviour, **FAST)
    assert code == "SUBAGENT_FAILED"
    assert "MiB" in said


# -- what it may


PERMISSION = {
    "options": [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
}
RUNS = {"toolCallId": "t", "title": "Delete all", "kind": "execute", "rawInput": {"command": "rm -rf ."}}


def permission(wanted: dict[str, Any]) -> list[Any]:
    return [["session/request_permission", {"toolCall": wanted, **PERMISSION}]]


def chosen(said: str) -> str:
    (outcome,) = asked(said)
    found: str = outcome["outcome"].get("optionId", outcome["outcome"]["outcome"])
    return found


def judge(verdict: Any, seen: list[Any] | None = None) -> object:
    def pre(agent: Any, call: Any) -> Any:
        if agent.depth == 0:
            return None
        if seen is not None:
            seen.append((call.name, dict(call.arguments)))
        return verdict

    return plugin_of(tools_pre_execute=pre)


@pytest.mark.parametrize(
    ("verdict", "setting", "outcome"),
    [
        (None, "ask", "yes"),
        (Allow(), "ask", "yes"),
        (Deny("never"), "ask", "no"),
        (Ask("really?"), "ask", "no"),
        (Ask("really?"), "allow", "yes"),
        (Deny("never"), "allow", "no"),
        (Allow(), "reject", "no"),
    ],
)
async def test_the_parents_gates_judge_what_it_wants(stage: Any, verdict: Any, setting: str, outcome: str) -> None:
    seen: list[Any] = []
    said, _ = await result(stage, "ask", permission(RUNS), permission=setting, plugins={"guard": judge(verdict, seen)})
    assert chosen(said) == outcome
    assert seen == ([] if setting == "reject" else [("bash", {"command": "rm -rf ."})])


async def test_an_approver_of_the_parent_answers(stage: Any) -> None:
    def approve(call: Any) -> Any:
        verdict = yield
        return Allow() if isinstance(verdict, Ask) and call.name == "bash" else verdict

    plugins = {"guard": judge(Ask("really?")), "approver": wrapper_of(tools_pre_execute=approve)}
    said, _ = await result(stage, "ask", permission(RUNS), plugins=plugins)
    assert chosen(said) == "yes"


async def test_a_permission_nobody_can_give_is_in_the_childs_log(stage: Any) -> None:
    settings = other("ask", permission(RUNS))
    async with parent(stage, settings, plugins={"guard": judge(Ask("really?"))}) as agent:
        await agent.run("go")
        (child,) = stage.children
        (answer,) = [event.data for event in child.session.events if event.type == "acp/result"]
        assert (answer.is_error, answer.error.code) == (True, "APPROVAL_UNANSWERED")
        (made,) = [event.data for event in child.session.events if event.type == "acp/call"]
        assert (made.name, json.loads(made.arguments)) == ("bash", {"command": "rm -rf ."})
        decisions = [event.data for event in child.session.events if isinstance(event.data, ev.HookDecision)]
        assert ("guard", "ask") in [(decision.plugin, decision.verdict) for decision in decisions]


async def test_a_gate_that_fails_denies(stage: Any) -> None:
    def broken(agent: Any) -> Any:
        if agent.depth:
            raise RuntimeError("broken")

    said, _ = await result(stage, "ask", permission(RUNS), plugins={"guard": plugin_of(tools_pre_execute=broken)})
    assert chosen(said) == "no"


async def test_reading_and_writing_pass_the_parents_gates_and_tools(stage: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    seen: list[Any] = []
    path, new = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    wanted = [
        ["fs/read_text_file", {"path": path}],
        ["fs/read_text_file", {"path": path, "line": 2, "limit": 1}],
        ["fs/write_text_file", {"path": path, "content": "new\n"}],
        ["fs/write_text_file", {"path": new, "content": "fresh"}],
        ["fs/read_text_file", {"path": str(tmp_path / "missing")}],
    ]
    plugins = {"files": dsh_files, "guard": judge(None, seen)}
    said, _ = await result(stage, "ask", wanted, plugins=plugins, cwd=str(tmp_path))
    whole, part, written, made, missing = asked(said)
    assert whole == {"content": "one\ntwo\nthree\n"}
    assert part == {"content": "two\n"}
    assert (written, made) == ({}, {})
    assert "missing" in missing["message"]
    assert ((tmp_path / "a.txt").read_text(), (tmp_path / "b.txt").read_text()) == ("new\n", "fresh")
    assert [name for name, _ in seen] == ["read", "read", "write", "write", "read"]
    assert seen[2][1] == {"file_path": path, "content": "new\n"}


async def test_a_guard_on_the_parent_keeps_it_from_files_and_commands(stage: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    wanted = [
        ["fs/read_text_file", {"path": str(tmp_path / "secret.txt")}],
        ["fs/write_text_file", {"path": str(tmp_path / "new.txt"), "content": "x"}],
        ["terminal/create", {"command": "touch", "args": [str(tmp_path / "touched")]}],
    ]
    plugins = {"files": dsh_files, "shell": dsh_shell, "guard": judge(Deny("off limits"))}
    said, _ = await result(stage, "ask", wanted, plugins=plugins, cwd=str(tmp_path))
    assert [answer["message"] for answer in asked(said)] == ["off limits"] * 3
    assert sorted(os.listdir(tmp_path)) == ["secret.txt"]


async def test_it_has_no_more_tools_than_its_parent(stage: Any, tmp_path: Path) -> None:
    from dsh import AgentOptions

    wanted = [
        ["fs/read_text_file", {"path": "/etc/hostname"}],
        ["terminal/create", {"command": "true"}],
        *permission(RUNS),
    ]
    plugins = {"files": dsh_files, "shell": dsh_shell}
    options = AgentOptions(model="scripted/model", without_tools=("bash", "read"))
    async with parent(stage, other("ask", wanted), plugins=plugins, options=options) as agent:
        await agent.run("go")
        ((said, _),) = stage.results(agent.session)
        read, run, outcome = asked(said)
        assert (read["code"], run["code"]) == (-32601, -32601)
        assert outcome["outcome"]["optionId"] == "no"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(stage: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")

    def change(call: Any, result: Any) -> None:
        if call.name == "read":
            path.write_text("somebody else's text")

    wanted = [
        ["fs/read_text_file", {"path": str(path)}],
        ["fs/write_text_file", {"path": str(path), "content": "two"}],
    ]
    plugins = {"files": dsh_files, "meddler": plugin_of(tools_post_execute=change)}
    said, _ = await result(stage, "ask", wanted, plugins=plugins, cwd=str(tmp_path))
    assert asked(said)[1]["code"] == -32003
    assert path.read_text() == "somebody else's text"


async def test_a_terminal_is_a_call_of_bash(stage: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    command = {
        "command": "sh",
        "args": ["-c", 'echo "$WORD in $PWD"; exit 3'],
        "env": [{"name": "WORD", "value": "two words"}],
        "cwd": str(tmp_path),
    }
    plugins = {"shell": dsh_shell, "guard": judge(None, seen)}
    said, _ = await result(stage, "terminal", command, plugins=plugins, cwd="/tmp")
    ended, output, released = asked(said)
    assert ended == {"exitCode": 3, "signal": None}
    assert output["exitStatus"] == ended
    assert output["output"].startswith(f"two words in {tmp_path}")
    assert released["code"] == -32602
    ((name, arguments),) = seen
    assert name == "bash"
    assert arguments["workdir"] == str(tmp_path)
    assert arguments["command"].startswith("WORD='two words' sh -c ")


async def test_a_terminal_is_killed(stage: Any) -> None:
    said, _ = await result(stage, "kill-terminal", {"command": "sleep 1000"}, plugins={"shell": dsh_shell})
    assert asked(said)["exitStatus"]["signal"] == "SIGTERM"


async def test_methods_that_there_are_not(stage: Any) -> None:
    wanted = [["foo/bar", {}], ["fs/read_text_file", {"path": "/etc/hostname"}], ["session/request_permission", {}]]
    said, _ = await result(stage, "ask", wanted)
    assert [answer["code"] for answer in asked(said)] == [-32601, -32601, -32602]


async def test_what_is_decided_stands_in_the_log_of_each_of_several(stage: Any) -> None:
    calls = [(f"c{n}", "subagent", {**TASK, "prompt": f"p{n}"}) for n in range(2)]
    settings = other("ask", permission(RUNS))
    script = (reply(calls=calls), text("done"))
    async with parent(stage, settings, *script, plugins={"guard": judge(Deny("never"))}) as agent:
        await agent.run("go")
        for child in stage.children:
            decisions = [event.data for event in child.session.events if isinstance(event.data, ev.HookDecision)]
            assert ("guard", "deny") in [(decision.plugin, decision.verdict) for decision in decisions]
            assert decisions[0].hook == "prompt_assemble"


# -- limits


async def test_the_caps_count_it(stage: Any) -> None:
    settings = {**other("echo"), "depth": 0}
    async with parent(stage, settings) as agent:
        await agent.run("go")
        assert stage.results(agent.session)[0][1] == "SUBAGENT_DEPTH"
    settings = {**other("echo"), "concurrency": 1}
    calls = [(f"c{n}", "subagent", {**TASK, "prompt": f"p{n}"}) for n in range(2)]
    async with parent(stage, settings, reply(calls=calls), text("done")) as agent:
        await agent.run("go")
        assert [code for _, code in stage.results(agent.session)] == [None, "SUBAGENT_CONCURRENCY"]


async def test_the_time_of_the_run_ends_it(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dsh_budget

    tables = {"budget": {"timeout": 1}}
    async with parent(stage, other("hang", **FAST), plugins={"budget": dsh_budget}, tables=tables) as agent:
        ended = await agent.run("go")
        assert ended.reason.kind == "aborted"
        assert "took longer" in (ended.reason.reason or "")


async def test_money_that_cannot_be_counted_is_not_spent(stage: Any) -> None:
    import dsh_budget

    price = {"price": {"input": 1, "output": 1}}
    plugins = {"budget": dsh_budget}
    tables: dict[str, Any] = {"budget": {"max_usd": 1.0}, "models": {"scripted/model": price}}
    async with parent(stage, other("answer"), plugins=plugins, tables=tables) as agent:
        await agent.run("go")
        ((said, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_FAILED"
        assert "acp/other" in said
    tables["models"]["acp/other"] = price
    async with parent(stage, other("answer"), plugins=plugins, tables=tables) as agent:
        await agent.run("go")
        assert stage.results(agent.session) == [("The answer.", None)]


@pytest.mark.parametrize(("behaviour", "code"), [("answer", "LIMIT_TOKENS"), ("echo", "LIMIT_UNMEASURED")])
async def test_its_tokens_are_the_runs(stage: Any, behaviour: str, code: str) -> None:
    import dsh_budget

    tables = {"budget": {"max_tokens": 20}}  # the call takes 15, and the child 9
    async with parent(stage, other(behaviour), plugins={"budget": dsh_budget}, tables=tables) as agent:
        ended = await agent.run("go")
        assert (ended.reason.kind, ended.reason.code) == ("error", code)
