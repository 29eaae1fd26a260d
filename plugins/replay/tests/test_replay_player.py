"""The player: who gets which answers, and that it is not there without a recording."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import dsh_replay
import pytest
import trio
from attrs import evolve
from dsh_replay.player import Player
from dsh_replay.script import Script

from dsh import AgentOptions, Config, Harness, LlmError, Request, Retry
from dsh.llm.chunks import TextDelta
from dsh.llm.scripted import Reply, fail, hang, text
from dsh.messages import text_of
from dsh.session import SessionHeader
from dsh.session.codec import default_codec
from dsh.session.events import AssistantChunk, Event
from dsh.testing import memory_agent, memory_harness, plugin_of

REQUEST = Request("any/model", ())


def player(*scripts: tuple[Reply, ...]) -> Player:
    return Player([Script(f"file {number}", replies) for number, replies in enumerate(scripts)])


async def answer(harness: Harness, session: str | None) -> str:
    async with aclosing(await harness.llm.stream(evolve(REQUEST, session_id=session))) as stream:
        return "".join([chunk.text async for chunk in stream if isinstance(chunk, TextDelta)])


async def test_each_session_goes_through_its_own_recording() -> None:
    scripts = (text("a1"), text("a2")), (text("b1"), text("b2"))
    async with memory_harness(plugins={"player": player(*scripts)}) as harness:
        assert [await answer(harness, name) for name in ("x", "y", "x", "y")] == ["a1", "b1", "a2", "b2"]


async def test_requests_without_a_session_are_as_one() -> None:
    async with memory_harness(plugins={"player": player((text("a"), text("b")), (text("c"),))}) as harness:
        assert [await answer(harness, name) for name in (None, "x", None)] == ["a", "c", "b"]


async def test_the_end_of_a_recording_is_an_error_when_it_is_pulled() -> None:
    """K08."""
    async with memory_harness(plugins={"player": player((text("a"),))}) as harness:
        await answer(harness, "x")
        for session, complaint in (("x", "file 0 has 1 answers, and this is request 2"), ("y", "no recording for")):
            stream = await harness.llm.stream(evolve(REQUEST, session_id=session))
            with pytest.raises(LlmError, match=complaint) as caught:
                await stream.__anext__()
            assert caught.value.code == "REPLAY_EXHAUSTED"


async def test_an_answer_is_used_up_when_it_is_asked_for() -> None:
    async with memory_harness(plugins={"player": player((text("a"), text("b")))}) as harness:
        stream = await harness.llm.stream(REQUEST)
        await stream.aclose()
        assert await answer(harness, None) == "b"


async def test_a_thrown_answer_can_be_tried_again() -> None:
    """K08."""
    again = plugin_of(agent_request_error=lambda attempt: Retry(0) if attempt == 1 else None)
    plugins = {"player": player((fail("busy", after="x"), text("done"))), "again": again}
    async with memory_agent(plugins=plugins, options=AgentOptions(model="no/such")) as agent:
        assert (await agent.run("go")).text == "done"


async def test_a_hanging_answer_ends_with_the_turn() -> None:
    """K08."""
    async with memory_agent(plugins={"player": player((hang("so far"),))}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
        assert text_of(agent.session.derive_messages()[-1].content) == "so far"


async def test_cancellation_is_heard_between_chunks() -> None:
    async with memory_harness(plugins={"player": player((text("long"),))}) as harness:
        stream = await harness.llm.stream(REQUEST)
        with trio.CancelScope() as scope:
            await stream.__anext__()
            scope.cancel()
            await stream.__anext__()
        assert scope.cancelled_caught
        await stream.aclose()


def recording(path: Path, answer: str = "hello again") -> str:
    codec = default_codec()
    lines = [codec.encode_header(SessionHeader("rec", 0))]
    lines += [codec.encode(Event(seq, 0, AssistantChunk(1, 1, chunk))) for seq, chunk in enumerate(text(answer).chunks)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


async def test_nothing_of_it_is_there_without_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSH_SNAPSHOT_FILE", raising=False)
    warnings: list[str] = []
    async with memory_harness(plugins={"replay": dsh_replay}, warnings=warnings, invariants=False) as harness:
        assert harness.plugins.implementations("llm_stream") == []
        assert "replay" not in harness.llm.adapters
    assert warnings == []


async def test_the_table_names_a_recording_and_the_person_is_told(tmp_path: Path) -> None:
    name = recording(tmp_path / "rec.jsonl")
    warnings: list[str] = []
    config = Config(tables={"replay": {"file": name}})
    async with memory_harness(plugins={"replay": dsh_replay}, config=config, warnings=warnings) as harness:
        assert await answer(harness, "x") == "hello again"
        assert "replay/recorded" in harness.llm.models()
    assert warnings == [f"the model's answers are played from {name}"]


def dsh(*args: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env = {**keep, "HOME": str(home), "DSH_HOME": str(home / "dsh"), **environ}
    command = [sys.executable, "-m", "dsh", *args, "--no-plugin", "local"]
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60, check=False)


def test_a_run_needs_no_provider(tmp_path: Path) -> None:
    done = dsh("-p", "go", home=tmp_path, DSH_SNAPSHOT_FILE=recording(tmp_path / "rec.jsonl"))
    assert (done.returncode, done.stdout) == (0, "hello again\n"), done.stderr


def test_a_run_can_be_recorded_and_played_again(tmp_path: Path) -> None:
    first = dsh("-p", "go", "-q", home=tmp_path, DSH_SNAPSHOT_FILE=recording(tmp_path / "rec.jsonl"))
    (stored,) = (tmp_path / "dsh" / "sessions").rglob("*.jsonl")
    again = dsh("-p", "go", "-q", "--config", f"replay.file={stored}", home=tmp_path)
    assert (first.stdout, again.stdout) == ("hello again\n", "hello again\n"), again.stderr


def test_a_run_with_a_bad_recording_says_so(tmp_path: Path) -> None:
    done = dsh("-p", "go", home=tmp_path, DSH_SNAPSHOT_FILE="none.jsonl")
    assert done.returncode == 2
    assert "the recording none.jsonl cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_projects_own_settings_cannot_name_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".dsh"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[replay]\nfile = "{recording(tmp_path / "rec.jsonl")}"\n')
    done = dsh("-p", "go", "-C", "project", home=tmp_path)
    assert done.returncode == 2
    assert "replay" in done.stderr
