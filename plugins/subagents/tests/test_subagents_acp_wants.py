"""What an agent of another program wants to do, as the calls that the parent's gates know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dsh_permissions
import dsh_subagents
import pytest
from dsh_subagents.acp.client import Client
from dsh_subagents.acp.judged import Calls
from dsh_subagents.acp.peer import Refusal
from dsh_subagents.acp.permission import calls_of, choice
from dsh_subagents.acp.terminals import command_line
from hypothesis import given
from hypothesis import strategies as st

from dsh import Config
from dsh.testing import memory_agent, plugin_of, text

WANTED = [
    ({"kind": "execute", "rawInput": {"command": "make"}}, [("bash", {"command": "make"})]),
    ({"kind": "execute", "rawInput": {"command": ["rm", "-r", "a b"]}}, [("bash", {"command": "rm -r 'a b'"})]),
    ({"kind": "execute", "rawInput": {"command": "rm", "args": ["a b"]}}, [("bash", {"command": "rm 'a b'"})]),
    ({"kind": "read", "rawInput": {"command": "rm -r x"}}, [("bash", {"command": "rm -r x"})]),
    ({"kind": "read", "locations": [{"path": "/a"}]}, [("read", {"file_path": "/a"})]),
    ({"kind": "search", "rawInput": {"path": "/a"}}, [("read", {"file_path": "/a"})]),
    (
        {"kind": "edit", "locations": [{"path": "/a"}, {"path": "/b"}]},
        [("write", {"file_path": "/a", "content": ""}), ("write", {"file_path": "/b", "content": ""})],
    ),
    ({"kind": "delete", "rawInput": {"file_path": "/a"}}, [("write", {"file_path": "/a", "content": ""})]),
    (
        {"kind": "read", "content": [{"type": "diff", "path": "/a", "newText": "t"}]},
        [("write", {"file_path": "/a", "content": "t"})],
    ),
    ({"kind": "fetch", "rawInput": {"url": "http://x"}}, [("web_fetch", {"url": "http://x"})]),
    ({"kind": "execute", "title": "Run it"}, [("acp_execute", {"title": "Run it"})]),
    ({"kind": "a b", "title": 3}, [("acp_other", {"title": ""})]),
    ({"title": "T", "rawInput": {"x": 1}}, [("acp_other", {"title": "T", "input": {"x": 1}})]),
    ({}, [("acp_other", {"title": ""})]),
]


@pytest.mark.parametrize(("wanted", "calls"), WANTED)
def test_what_it_wants_is_what_it_says(wanted: dict[str, Any], calls: list[Any]) -> None:
    assert calls_of(wanted) == calls


def option(kind: str) -> dict[str, str]:
    return {"optionId": f"id of {kind}", "name": kind, "kind": kind}


@given(kinds=st.lists(st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always", "x"])))
def test_a_choice_says_what_was_decided(kinds: list[str]) -> None:
    """Never the contrary, and once rather than always."""
    for allowed, word in ((True, "allow"), (False, "reject")):
        outcome: Any = choice([option(kind) for kind in kinds], allowed)
        found = [kind for kind in (f"{word}_once", f"{word}_always") if kind in kinds]
        expected = {"outcome": "selected", "optionId": f"id of {found[0]}"} if found else {"outcome": "cancelled"}
        assert outcome == {"outcome": expected}


COMMANDS = [
    ({"command": "ls -l | wc"}, {"command": "ls -l | wc"}),
    ({"command": "ls", "args": ["a b", "$x"]}, {"command": "ls 'a b' '$x'"}),
    ({"command": "ls", "args": ["a"], "env": [{"name": "A", "value": "b c"}]}, {"command": "A='b c' ls a"}),
    ({"command": "ls | wc", "env": [{"name": "A", "value": "b"}]}, {"command": "export A=b; ls | wc"}),
    ({"command": "ls", "cwd": "/here"}, {"command": "ls"}),
    ({"command": "ls", "cwd": "/there"}, {"command": "ls", "workdir": "/there"}),
]


@pytest.mark.parametrize(("params", "arguments"), COMMANDS)
def test_a_command_is_one_line_for_a_shell(params: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert command_line(params, "/here", has_workdir=True) == arguments


def test_a_directory_without_an_argument_for_it() -> None:
    made = command_line({"command": "ls", "cwd": "/there it is"}, "/here", has_workdir=False)
    assert made == {"command": "cd '/there it is' && ls"}


@pytest.mark.parametrize(
    "params",
    [{}, {"command": ""}, {"command": "a", "args": [1]}, {"command": "a", "env": [{"name": "a;b", "value": ""}]}],
)
def test_what_is_no_command(params: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        command_line(params, None, has_workdir=True)


RULES = [
    ({}, {"kind": "execute", "rawInput": {"command": "rm -rf x"}}, False),
    ({"allow": ["bash(make *)"]}, {"kind": "execute", "rawInput": {"command": "make all"}}, True),
    ({"allow": ["bash(make *)"]}, {"kind": "execute", "rawInput": {"command": "make all; rm -rf x"}}, False),
    ({"mode": "bypass"}, {"kind": "other", "title": "anything"}, True),
    ({"mode": "bypass", "deny": ["bash(rm *)"]}, {"kind": "read", "rawInput": {"command": "rm -rf x"}}, False),
    ({}, {"kind": "other", "title": "anything"}, False),
    ({"allow": ["acp_other"]}, {"kind": "other", "title": "anything"}, True),
    ({"mode": "bypass", "deny": ["write(/etc/**)"]}, {"kind": "edit", "locations": [{"path": "/etc/passwd"}]}, False),
]


@pytest.mark.parametrize(("rules", "wanted", "allowed"), RULES)
async def test_rules_of_the_parent_hold(
    rules: dict[str, Any], wanted: dict[str, Any], allowed: bool, tmp_path: Path
) -> None:
    config = Config(tables={"permissions": rules})
    found: list[bool] = []

    async def stream(agent: Any) -> None:
        if agent.parent is not None:
            client = Client("other", "ask", None)  # type: ignore[arg-type]  # it runs no commands here
            found.append(await client._judged(Calls(agent), wanted))

    plugins = {"permissions": dsh_permissions, "subagents": dsh_subagents, "judge": plugin_of(agent_pre_step=stream)}
    async with memory_agent(text("x"), plugins=plugins, config=config, cwd=str(tmp_path)) as agent:
        child = agent.harness.create_agent(parent=agent, options=agent.options, cwd=str(tmp_path)).agent
        await child.run("go")
    assert found == [allowed]
