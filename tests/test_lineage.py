"""Whose events a session begins with, and what of their output it may therefore read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsh import AgentOptions, open_harness
from dsh.cli import main
from dsh.messages import UserSource
from dsh.session.events import EndReason, Event, Trigger, TurnEnd, TurnStart
from dsh.session.folder import private_folder, session_folder, shelves
from dsh.session.lineage import LINEAGE, lineage_of, read_lineage
from dsh.session.log import Session
from dsh.session.store import SessionHeader, StoredSession
from dsh.testing import ScriptedModel, memory_harness, plugin_of, text

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES))
"""
OPTIONS = AgentOptions(model="scripted/model")


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command with a model that plays a script; gives what it printed."""
    pytest.importorskip("dsh_jsonl")
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    plugin = tmp_path / "model.py"

    def run(*argv: str, replies: str | None = None, code: int = 0) -> str:
        capsys.readouterr()
        if replies is not None:
            plugin.write_text(MODEL.replace("REPLIES", replies))
            argv = (*argv, "-m", "scripted/m", "-e", str(plugin))
        found = main(argv)
        shown = capsys.readouterr()
        assert found == code, shown.err
        return shown.out.strip()

    return run


@pytest.mark.parametrize("stored", [False, True], ids=["--fork", "sessions fork"])
def test_a_fork_of_a_fork_reads_the_output_that_its_history_names(tmp_path: Path, dsh: Any, stored: bool) -> None:
    pytest.importorskip("dsh_permissions")
    pytest.importorskip("dsh_spill")
    home = tmp_path / "home"
    (tmp_path / "work" / "long.txt").write_text("filler\n" * 9000 + "the needle\n")
    dsh("-p", "go", "--session-id", "one", replies='call("bash", {"command": "cat long.txt"}), text("read")')
    (path,) = session_folder(home, "one").glob("*/*")

    def fork(source: str, number: int) -> str:
        if stored:
            return str(dsh("sessions", "fork", source))
        dsh("-p", "on", "-r", source, "--fork", "--session-id", f"fork-{number}", replies='text("forked")')
        return f"fork-{number}"

    last = "one"
    for number in range(3):
        last = fork(last, number)
    reads = f'call("bash", {{"command": "tail -n 1 {path}"}}), call("read", {{"file_path": "{path}", "offset": 9001}})'
    out = dsh("-p", "look", "-r", last, "--output-format", "stream-json", replies=f'{reads}, text("seen")')
    assert out.count("the needle") >= 2
    # What is no part of its history is asked about as before; nobody is there to allow it.
    stranger = private_folder(home, "stranger", "results") / "c.txt"
    stranger.write_text("not yours\n")
    reads = f'call("read", {{"file_path": "{stranger}"}}), text("seen")'
    out = dsh("-p", "look", "-r", last, "--output-format", "stream-json", replies=reads, code=3)
    assert "not yours" not in out


async def test_a_child_that_begins_as_its_parent_did_has_its_lineage() -> None:
    turn = TurnStart(1, Trigger("message", UserSource())), TurnEnd(1, EndReason("completed"))
    seed = [Event(seq, 0, data) for seq, data in enumerate(turn)]
    async with memory_harness() as harness:
        ids: list[str] = []
        parent = None
        for _ in range(3):
            more: dict[str, Any] = {} if parent is None else {"seed": seed, "parent_session": parent}
            agent = harness.create_agent(options=OPTIONS, **more).agent
            assert lineage_of(agent.session) == tuple(reversed(ids))
            ids.append(agent.session.id)
            parent = agent.session.id
        own = {Path(path).parent.name for path in shelves(harness.home, agent.session)}
        assert own == set(ids)
        # One with a task of its own has read none of it.
        alone = harness.create_agent(options=OPTIONS, parent_session=parent).agent
        assert lineage_of(alone.session) == ()


async def test_a_lineage_ends_where_a_session_is_gone_and_never_goes_round() -> None:
    headers = {
        "a": SessionHeader("a", 0, parent_session="b", seed_length=4),
        "b": SessionHeader("b", 0, parent_session="c", seed_length=2),
        "c": SessionHeader("c", 0, parent_session="a", seed_length=2),
        "x": SessionHeader("x", 0, parent_session="gone", seed_length=2),
        "y": SessionHeader("y", 0, parent_session="broken", seed_length=2),
        "child": SessionHeader("child", 0, parent_session="a"),
        "of child": SessionHeader("of child", 0, parent_session="child", seed_length=2),
    }

    async def session_read(session_id: str) -> StoredSession | None:
        if session_id == "broken":
            raise OSError("the disk")
        header = headers.get(session_id)
        return None if header is None else StoredSession(header, ())

    async with memory_harness(plugins={"store": plugin_of(session_read=session_read)}) as harness:
        found = {name: await read_lineage(harness.hook, header) for name, header in headers.items()}
    assert found == {
        "a": ("b", "c"),
        "b": ("c", "a"),
        "c": ("a", "b"),
        "x": ("gone",),
        "y": ("broken",),
        "child": (),
        "of child": ("child",),
    }


async def test_a_resumed_fork_knows_its_lineage(tmp_path: Path) -> None:
    pytest.importorskip("dsh_jsonl")
    plugins = {"model": ScriptedModel(text("one"), text("two"), text("three"))}
    async with open_harness(plugins=plugins, home=tmp_path / "home") as harness:
        seed: list[Event] = []
        parent = None
        for name in ("one", "two", "three"):
            handle = harness.create_agent(
                session_id=name, options=OPTIONS, cwd=str(tmp_path), seed=seed, parent_session=parent
            )
            await handle.agent.run("go")
            seed, parent = list(handle.agent.session.events), name
            await handle.dispose()
    async with open_harness(home=tmp_path / "home") as harness:
        agent = (await harness.resume_agent("three", options=OPTIONS)).agent
        assert agent.session.stash[LINEAGE] == ("two", "one")
        assert lineage_of(Session("z", (), SessionHeader("z", 0, parent_session="q", seed_length=1))) == ("q",)
