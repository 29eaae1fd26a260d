"""The plugin in a harness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dsh_jsonl
import pytest

from dsh import Config, SessionNotFound, open_harness
from dsh.session import SessionQuery, SessionsFound


@pytest.mark.parametrize("root", [None, "elsewhere"])
async def test_sessions_of_a_harness_are_kept(
    tmp_path: Path, root: str | None, converse: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    config = Config(tables={"jsonl": {"root": root}} if root else {})

    async with open_harness(config, plugins={"jsonl": dsh_jsonl}, discover=False, home=home) as harness:
        session, _ = harness.sessions.create("a")
        converse(session)
        await harness.sessions.flush(session)
    async with open_harness(config, plugins={"jsonl": dsh_jsonl}, discover=False, home=home) as harness:
        found = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(), found=found)
        stored = await harness.hook.session_open(session_id="a")
        with pytest.raises(SessionNotFound):
            await harness.resume_agent("b")

    assert [info.path for info in found] == [str((tmp_path / root if root else home / "sessions") / "_no-cwd/a.jsonl")]
    assert stored is not None
    assert list(stored.events) == list(session.events)


async def test_harnesses_do_not_share_a_store(tmp_path: Path, converse: Callable[..., None]) -> None:
    async with (
        open_harness(plugins={"jsonl": dsh_jsonl}, discover=False, home=tmp_path / "one") as one,
        open_harness(plugins={"jsonl": dsh_jsonl}, discover=False, home=tmp_path / "two") as two,
    ):
        converse(one.sessions.create("a")[0], text="one")
        converse(two.sessions.create("a")[0], text="two")

    for name in ("one", "two"):
        [path] = (tmp_path / name).rglob("a.jsonl")
        assert f'"text":"{name}"'.encode() in path.read_bytes()
