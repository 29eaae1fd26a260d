"""Files come back as they were at the end of a turn, and what others changed meanwhile is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import dsh_checkpoints
import pytest
import trio
from dsh_checkpoints.events import FileChanged
from dsh_checkpoints.rewind import Change, History, Step, apply, plan
from dsh_checkpoints.store import Journal, Kept, Rewound, Store, _beside, write_whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh import Agent, Tool, ToolError
from dsh.config import Config
from dsh.llm.scripted import Reply
from dsh.session.folder import session_folder
from dsh.testing import call, memory_agent, plugin_of, shape, text

jsonl = pytest.importorskip("dsh_jsonl")
files = pytest.importorskip("dsh_files")
PLUGINS = {"checkpoints": dsh_checkpoints, "files": files}


def write(path: Path | str, content: str, number: int = 1) -> Reply:
    return call("write", {"file_path": str(path), "content": content}, id=f"c{number}")


def changes(agent: Agent) -> list[Change]:
    return [Change(agent.session.id, e.data) for e in agent.session.events if isinstance(e.data, FileChanged)]


def planned(agent: Agent, found: Sequence[Change] | None = None) -> list[Step]:
    found = changes(agent) if found is None else found
    return plan(agent.harness.home, History(found, (), agent.session.id))


def applied(agent: Agent, steps: Sequence[Step] | None = None, force: bool = False) -> list[tuple[Step, str | None]]:
    return apply(agent.harness.home, agent.session.id, planned(agent) if steps is None else steps, force)


async def test_a_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    replies = [write(path, "one\n", 1), write(path, "two\n", 2), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        first, second = (change.data for change in changes(agent))
        assert (first.before, first.kept, second.before, second.kept) == (None, True, first.after, True)
        folder = session_folder(agent.harness.home, agent.session.id) / "checkpoints"
        assert [kept.read_text() for kept in folder.iterdir()] == ["one\n"]
        assert "TC(c1) checkpoints/file TR(c1)" in shape(agent.session.events)


async def test_files_come_back_and_new_ones_go(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "sub" / "new.txt"
    old.write_text("before\n")
    old.chmod(0o751)
    replies = [
        call("read", {"file_path": str(old)}, id="c1"),
        call("edit", {"file_path": str(old), "old_string": "before", "new_string": "after"}, id="c2"),
        write(new, "new\n", 3),
        text("done"),
    ]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        assert old.read_text() == "after\n"
        steps = planned(agent)
        assert [(Path(step.path).name, step.action) for step in steps] == [
            ("old.txt", "restore"),
            ("new.txt", "delete"),
        ]
        assert [error for _, error in applied(agent, steps)] == [None, None]
    assert (old.read_text(), old.stat().st_mode & 0o777, new.exists()) == ("before\n", 0o751, False)


async def test_what_somebody_else_changed_is_left_alone(tmp_path: Path) -> None:
    path, gone = tmp_path / "a.txt", tmp_path / "b.txt"
    replies = [write(path, "mine\n", 1), write(gone, "mine\n", 2), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        path.write_text("somebody's\n")
        gone.unlink()
        steps = planned(agent)
        assert [step.action for step in steps] == ["changed", "nothing"]
        assert applied(agent, steps) == []
        assert path.read_text() == "somebody's\n"
        assert [error for _, error in applied(agent, steps, force=True)] == [None]
        assert not path.exists()


async def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("before\n")
    link.symlink_to(real)
    replies = [call("read", {"file_path": "link.txt"}, id="c1"), write(link, "after\n", 2), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        applied(agent)
    assert link.is_symlink()
    assert real.read_text() == "before\n"


@pytest.mark.parametrize(
    ("table", "words"),
    [({"max_file_bytes": 3}, "more than checkpoints.max_file_bytes"), ({"max_total_bytes": 3}, "are used up")],
)
async def test_what_is_too_big_is_not_kept_and_says_so(tmp_path: Path, table: dict[str, int], words: str) -> None:
    path = tmp_path / "a.txt"
    replies = [write(path, "long enough\n", 1), write(path, "other\n", 2), text("done")]
    config = Config(tables={"checkpoints": table})
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path), config=config) as agent:
        await agent.run("go")
        _, second = (change.data for change in changes(agent))
        assert not second.kept
        assert words in second.reason
        # the first write made the file, so there is nothing to bring back but its absence
        assert [step.action for step in planned(agent)] == ["delete"]
        assert [(step.action, words in step.why) for step in planned(agent, changes(agent)[1:])] == [("lost", True)]


async def test_damaged_checkpoints_bring_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before\n")
    replies = [call("read", {"file_path": str(path)}, id="c1"), write(path, "after\n", 2), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        (kept,) = (session_folder(agent.harness.home, agent.session.id) / "checkpoints").iterdir()
        kept.write_text("rot")
        ((_, error),) = applied(agent)
        assert error is not None
        assert "damaged" in error
        kept.unlink()
        assert [(step.action, step.why) for step in planned(agent)] == [("lost", "what was kept of it is gone")]
        assert applied(agent) == []
    assert path.read_text() == "after\n"


def tool(do: Any) -> object:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    made = Tool("spoil", "Changes a file.", schema, do, effect="write", subject="path")
    return plugin_of(tools_register=lambda tools: tools.add(made))


async def test_a_call_that_fails_half_way_is_kept_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before\n")

    def spoil(arguments: Any, call: Any) -> str:
        path.write_text("half")
        raise ToolError("no more", code="NO")

    plugins = {"checkpoints": dsh_checkpoints, "spoiling": tool(spoil)}
    async with memory_agent(call("spoil", {"path": "a.txt"}), text("ok"), plugins=plugins, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        applied(agent)
    assert path.read_text() == "before\n"


async def test_a_call_that_is_cancelled_half_way_is_kept_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before\n")
    started = trio.Event()

    async def spoil(arguments: Any, call: Any) -> str:
        path.write_text("half")
        started.set()
        await trio.sleep_forever()
        return ""

    plugins = {"checkpoints": dsh_checkpoints, "spoiling": tool(spoil)}
    async with memory_agent(call("spoil", {"path": "a.txt"}), text("ok"), plugins=plugins, cwd=str(tmp_path)) as agent:
        agent.send("go")
        await started.wait()
        agent.cancel()
        await agent.when_idle()
        assert len(changes(agent)) == 1
        applied(agent)
    assert path.read_text() == "before\n"


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    config = Config(tables={"checkpoints": {"enabled": False}})
    replies = [write(tmp_path / "a", "x"), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path), config=config) as agent:
        await agent.run("go")
        assert changes(agent) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "zz", None])), min_size=1, max_size=8),
    st.data(),
)
def test_any_history_comes_back(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[tuple[str, str | None]], data: Any
) -> None:
    """After any writes and deletions by tools, going back to any of them gives the files of that moment."""
    folder = tmp_path_factory.mktemp("files")
    moments: list[dict[str, str]] = [{}]

    def spoil(arguments: Any, call: Any) -> str:
        name, content = arguments["path"], arguments["content"]
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_text(content)
        moments.append({path.name: path.read_text() for path in folder.iterdir()})
        return "ok"

    made = Tool("spoil", "Changes a file.", {"type": "object"}, spoil, effect="write", subject="path")
    plugins = {"checkpoints": dsh_checkpoints, "spoiling": plugin_of(tools_register=lambda tools: tools.add(made))}
    replies = [
        call("spoil", {"path": name, "content": content}, id=f"c{n}") for n, (name, content) in enumerate(history)
    ]

    async def main() -> None:
        async with memory_agent(*replies, text("ok"), plugins=plugins, cwd=str(folder)) as agent:
            await agent.run("go")
            moment = data.draw(st.integers(0, len(history)))
            ids = {f"c{n}" for n in range(moment)}
            applied(
                agent,
                planned(agent, [attrs.evolve(entry, later=entry.data.call_id not in ids) for entry in changes(agent)]),
            )
            assert {path.name: path.read_text() for path in folder.iterdir()} == moments[moment]

    trio.run(main)


# -- the command

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(call("write", {"file_path": NAME, "content": CONTENT}), text("done")))
"""


class Dsh:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()

    def __call__(self, *argv: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "DSH_HOME": str(self.folder / "home")}
        command = [sys.executable, "-m", "dsh", *argv]
        return subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True, timeout=120)

    def turn(self, name: str, content: str, *more: str) -> None:
        model = self.folder / "scripted_model.py"
        model.write_text(MODEL.replace("NAME", repr(name)).replace("CONTENT", repr(content)))
        flags = ("-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass")
        ran = self("-p", "go", *flags, *more)
        assert ran.returncode == 0, ran.stderr

    def contents(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.work.iterdir() if path.is_file()}


@pytest.fixture
def dsh(tmp_path: Path) -> Dsh:
    return Dsh(tmp_path)


def test_the_command_goes_back_a_turn(dsh: Dsh) -> None:
    dsh.turn("a.txt", "one\n")
    dsh.turn("b.txt", "two\n", "-c")
    dry = dsh("rewind", "--dry-run")
    assert (dry.returncode, dry.stdout.count("would be deleted")) == (0, 1)
    assert dsh.contents() == {"a.txt": "one\n", "b.txt": "two\n"}
    went = dsh("rewind", "--json")
    assert went.returncode == 0, went.stderr
    record = json.loads(went.stdout)
    assert [(Path(file["path"]).name, file["action"]) for file in record["files"]] == [("b.txt", "delete")]
    assert dsh.contents() == {"a.txt": "one\n"}
    shown = dsh("sessions", "show", record["new_session"]).stdout
    assert "a.txt" in shown
    assert "b.txt" not in shown
    old = dsh("sessions", "show", record["session"]).stdout
    assert "b.txt" in old


def test_the_command_goes_back_before_everything(dsh: Dsh) -> None:
    dsh.turn("a.txt", "one\n")
    went = dsh("rewind", "--to", "0")
    assert (went.returncode, dsh.contents()) == (0, {})
    assert "before the first turn there is none" in went.stderr


def test_only_the_files_or_only_the_conversation(dsh: Dsh) -> None:
    dsh.turn("a.txt", "one\n")
    dsh.turn("b.txt", "two\n", "-c")
    went = dsh("rewind", "--conversation")
    assert "begins as this one did up to turn 1" in went.stdout
    assert set(dsh.contents()) == {"a.txt", "b.txt"}
    identity = json.loads(dsh("sessions", "list", "--json").stdout.splitlines()[-1])["id"]
    went = dsh("rewind", identity, "--files")
    assert "conversation" not in went.stdout
    assert set(dsh.contents()) == {"a.txt"}


def test_mistakes_are_said(dsh: Dsh) -> None:
    assert "there is no session of this directory" in dsh("rewind").stderr
    dsh.turn("a.txt", "one\n")
    wrong = dsh("rewind", "--to", "7")
    assert (wrong.returncode, "the session's turns are 1 to 1" in wrong.stderr) == (2, True)
    assert dsh("rewind", "nothing").returncode == 2
    (dsh.work / "a.txt").write_text("mine\n")
    left = dsh("rewind")
    assert "left alone: somebody else or a command changed it since" in left.stdout
    assert dsh.contents() == {"a.txt": "mine\n"}


def test_going_back_again_and_again(dsh: Dsh) -> None:
    """In the same session, and in the new one that each rewind makes, whose first events are another session's."""
    for number in range(1, 4):
        dsh.turn("a.txt" if number == 1 else f"b{number}.txt", f"{number}\n", *(["-c"] if number > 1 else []))
    dsh.turn("a.txt", "four\n", "-c", "--config", "checkpoints.enabled=true")
    first = json.loads(dsh("sessions", "list", "--json").stdout.splitlines()[0])["id"]
    once = dsh("rewind", first, "--to", "2", "--json")
    assert once.returncode == 0, once.stderr
    fork = json.loads(once.stdout)["new_session"]
    assert set(dsh.contents()) == {"a.txt", "b2.txt"}
    twice = dsh("rewind", fork, "--to", "1", "--json")
    assert twice.returncode == 0, twice.stdout
    assert set(dsh.contents()) == {"a.txt"}
    again = dsh("rewind", first, "--to", "0")
    assert again.returncode == 0, again.stdout
    assert dsh.contents() == {}


def test_what_is_left_alone_is_told_by_the_exit_code(dsh: Dsh) -> None:
    dsh.turn("a.txt", "one\n")
    (dsh.work / "a.txt").write_text("mine\n")
    assert dsh("rewind").returncode == 1
    assert dsh("rewind", "--force").returncode == 0


def turns(dsh: Dsh, *contents: str) -> str:
    """A session with a turn for each of these contents of a.txt; its id."""
    for number, content in enumerate(contents):
        model = dsh.folder / "scripted_model.py"
        made = f'call("write", {{"file_path": "a.txt", "content": {content!r}}})'
        if number:
            made = f'call("read", {{"file_path": "a.txt"}}, id="r"), {made}'
        script = MODEL.replace('call("write", {"file_path": NAME, "content": CONTENT})', made)
        model.write_text(script)
        flags = ("-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass", *(["-c"] if number else []))
        assert dsh("-p", "go", *flags).returncode == 0
    return str(json.loads(dsh("sessions", "list", "--json").stdout.splitlines()[0])["id"])


def test_back_and_forth(dsh: Dsh) -> None:
    """What a rewind replaced is kept, so that a later turn can be gone to again."""
    session = turns(dsh, "1\n", "2\n", "3\n")
    for turn in (1, 3, 2, 0, 3, 0, 1):
        went = dsh("rewind", session, "--to", str(turn), "--files")
        assert went.returncode == 0, went.stdout
        assert dsh.contents() == ({"a.txt": f"{turn}\n"} if turn else {})
        assert f"to the end of turn {turn} of 3" in went.stdout or not turn


def test_going_forth_overwrites_nobodys_changes(dsh: Dsh) -> None:
    session = turns(dsh, "1\n", "2\n")
    assert dsh("rewind", session, "--to", "1", "--files").returncode == 0
    (dsh.work / "a.txt").write_text("mine\n")
    forth = dsh("rewind", session, "--to", "2", "--files")
    assert (forth.returncode, dsh.contents()) == (1, {"a.txt": "mine\n"})
    assert dsh("rewind", session, "--to", "2", "--files", "--force").returncode == 0
    assert dsh.contents() == {"a.txt": "2\n"}


def test_a_file_that_no_rewind_touched_is_not_brought_forth(dsh: Dsh) -> None:
    """Somebody put back what was there before a turn; a rewind to its end is no reason to undo that."""
    session = turns(dsh, "1\n", "2\n")
    (dsh.work / "a.txt").write_text("1\n")
    forth = dsh("rewind", session, "--to", "2", "--files")
    assert (forth.returncode, dsh.contents()) == (0, {"a.txt": "1\n"})
    assert "no tool changed a file after turn 2" in forth.stdout


def test_with_files_left_alone_the_same_session_is_asked_for_again(dsh: Dsh) -> None:
    """A new session would be the last one here, and --force would go back a turn further, in that one."""
    session = turns(dsh, "1\n", "2\n")
    (dsh.work / "a.txt").write_text("mine\n")
    left = dsh("rewind")
    assert (left.returncode, "conversation: not taken back" in left.stderr) == (1, True)
    again = dsh("rewind", "--force", "--json")
    assert (again.returncode, json.loads(again.stdout)["session"]) == (0, session)
    assert json.loads(again.stdout)["files"][0]["action"] == "restore"
    assert dsh.contents() == {"a.txt": "1\n"}


def test_folders_that_were_made_for_files_go_with_them(dsh: Dsh) -> None:
    dsh.turn("new/deep/a.txt", "one\n")
    assert dsh("rewind", "--to", "0").returncode == 0
    assert list(dsh.work.iterdir()) == []
    session = json.loads(dsh("sessions", "list", "--json").stdout.splitlines()[0])["id"]
    assert dsh("rewind", session, "--to", "1", "--files").returncode == 0
    (dsh.work / "new" / "mine.txt").write_text("mine\n")
    assert dsh("rewind", session, "--to", "0").returncode == 0
    assert [str(path.relative_to(dsh.work)) for path in sorted(dsh.work.rglob("*"))] == ["new", "new/mine.txt"]


@pytest.mark.parametrize("what", ["folder", "link"])
def test_what_is_no_file_now_is_left_as_it_is(dsh: Dsh, what: str) -> None:
    session = turns(dsh, "1\n", "2\n")
    path = dsh.work / "a.txt"
    path.unlink()
    if what == "folder":
        path.mkdir()
    else:
        (dsh.work / "other.txt").write_text("2\n")
        path.symlink_to("other.txt")
    for more, words in ((), "left alone"), (("--force",), f"there is a {what} in its place; move it away first"):
        went = dsh("rewind", session, *more)
        assert went.returncode == 1
        assert words in went.stdout
    assert path.is_dir() if what == "folder" else path.is_symlink()


def test_a_file_that_is_gone_comes_back_unasked(dsh: Dsh) -> None:
    session = turns(dsh, "1\n", "2\n")
    (dsh.work / "a.txt").unlink()
    assert dsh("rewind", session).returncode == 0
    assert dsh.contents() == {"a.txt": "1\n"}


def test_names_that_are_no_utf8_and_names_that_steer_a_terminal(dsh: Dsh) -> None:
    dsh.work = Path(os.fsdecode(os.fsencode(dsh.folder) + b"/w\xff"))
    dsh.work.mkdir()
    dsh.turn("a\x1b[31m\u202e.txt", "one\n")
    assert len(list(dsh.work.iterdir())) == 1
    session = json.loads(dsh("sessions", "list", "--all", "--json").stdout.splitlines()[0])["id"]
    went = dsh("rewind", session, "--to", "0")
    assert went.returncode == 0, went.stderr
    assert r"a\x1b[31m\u202e.txt: deleted" in went.stdout
    assert list(dsh.work.iterdir()) == []


def test_what_a_killed_process_left_is_swept_up(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, other = (path.with_name(f"{_beside(path)}{end}") for end in (gone.pid, "mine"))
    left.write_text("half")
    other.write_text("stays")
    write_whole(path, b"whole", 0o644)
    assert sorted(tmp_path.iterdir()) == sorted([path, other])
    assert path.read_text() == "whole"


async def test_what_cannot_be_kept_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    replies = [write(path, "one\n"), text("done")]
    async with memory_agent(*replies, plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        steps = planned(agent)
        monkeypatch.setattr(Store, "keep", lambda self, path, snapshot: Kept(False, "no space"))
        assert [error for _, error in applied(agent, steps)] == ["what it is now cannot be kept: no space"]
        monkeypatch.undo()
        path.write_text("changed this moment\n")
        assert [error for _, error in applied(agent, steps)] == ["it was changed this moment; try again"]
    assert path.read_text() == "changed this moment\n"


CHILDREN = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

def child(number, path, read=False):
    steps = [call("subagent", {"description": "c", "prompt": "p"}, id=f"s{number}")]
    steps += [call("read", {"file_path": path}, id=f"r{number}")] if read else []
    steps.append(call("write", {"file_path": path, "content": f"{number}\\n"}, id=f"w{number}"))
    return [*steps, text("c"), text("t")]

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(*SCRIPT))
"""


def test_what_children_changed_comes_back_also_from_a_fork(dsh: Dsh) -> None:
    """The children of a session are those of the conversation that was forked from it, as far as that has them."""
    pytest.importorskip("dsh_subagents")
    model = dsh.folder / "scripted_model.py"
    for script, more in ('child(1, "c.txt")', ()), ('child(2, "c.txt", True)', ("-c",)):
        model.write_text(CHILDREN.replace("*SCRIPT", f"*{script}"))
        ran = dsh("-p", "go", "-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass", *more)
        assert ran.returncode == 0, ran.stderr
    assert dsh.contents() == {"c.txt": "2\n"}
    went = dsh("rewind", "--json")
    assert dsh.contents() == {"c.txt": "1\n"}, went.stdout
    before = json.loads(went.stdout)
    assert dsh("rewind", before["new_session"], "--to", "0").returncode == 0
    assert dsh.contents() == {}
    assert dsh("rewind", before["session"], "--to", "2", "--files").returncode == 0
    assert dsh.contents() == {"c.txt": "2\n"}


def test_what_a_fork_changed_is_not_the_old_sessions_to_undo(dsh: Dsh) -> None:
    session = turns(dsh, "1\n", "2\n")
    assert dsh("rewind", session, "--conversation").returncode == 0
    dsh.turn("b.txt", "fork\n", "-c")
    assert dsh("rewind", session, "--to", "0").returncode == 0
    assert dsh.contents() == {"b.txt": "fork\n"}


def test_commands_that_ran_are_spoken_of(dsh: Dsh) -> None:
    pytest.importorskip("dsh_shell")
    model = dsh.folder / "scripted_model.py"
    made = 'call("bash", {"command": "echo x > made.txt"})'
    model.write_text(MODEL.replace('call("write", {"file_path": NAME, "content": CONTENT})', made))
    assert dsh("-p", "go", "-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass").returncode == 0
    went = dsh("rewind", "--to", "0")
    assert (went.returncode, dsh.contents()) == (0, {"made.txt": "x\n"})
    assert "no tool changed a file\n" in went.stdout
    assert "a command ran after that turn; what commands changed is not kept" in went.stdout


async def test_a_rewind_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Each file is whole, as it was or as it shall be; the same command does the rest."""
    names = ["a.txt", "b.txt", "c.txt"]
    replies = [write(tmp_path / name, f"{name}\n", number) for number, name in enumerate(names)]
    async with memory_agent(*replies, text("done"), plugins=PLUGINS, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        assert applied(agent, planned(agent)[:1]) != []
        Journal(agent.harness.home, agent.session.id).add(
            str(tmp_path / "b.txt"), Rewound(planned(agent)[1].found.hash, 0o644, None)
        )
        steps = planned(agent)
        assert [step.action for step in steps] == ["nothing", "delete", "delete"]
        assert [error for _, error in applied(agent, steps)] == [None, None]
        assert [step.action for step in planned(agent)] == ["nothing"] * 3
        journal = session_folder(agent.harness.home, agent.session.id) / "checkpoints" / "rewound.jsonl"
        journal.write_bytes(journal.read_bytes() + b'{"path": "cut o')
        forth = [attrs.evolve(entry, later=False) for entry in changes(agent)]
        assert [error for _, error in applied(agent, planned(agent, forth))] == [None] * 3
        assert [(tmp_path / name).read_text() for name in names] == [f"{name}\n" for name in names]
