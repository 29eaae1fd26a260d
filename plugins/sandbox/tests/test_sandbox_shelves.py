"""What of dsh's own files commands may read: what was too long of their session's results, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import trio

from dsh import AgentOptions, Process
from dsh.process import scrubbed_environment
from dsh.session.folder import private_folder, session_folder


async def output(box: Any, agent: Any, command: str) -> str:
    process = Process(("bash", "-c", command), scrubbed_environment(), str(box.work))
    prepared = await box.harness.hook.process_prepare(agent=agent, process=process, default=lambda: process)
    done = await trio.run_process(
        prepared.argv,
        env=dict(prepared.env),
        cwd=prepared.cwd,
        capture_stdout=True,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


async def test_commands_look_through_what_was_put_aside_for_their_session(box: Any) -> None:
    harness = box.harness
    options = AgentOptions(model="scripted/model")
    mine, other = (harness.create_agent(cwd=str(box.work), options=options).agent for _ in range(2))
    for agent in (mine, other):
        for name in ("results", "outputs", "private"):
            (private_folder(harness.home, agent.session.id, name) / "f").write_text(f"one\n{agent.id} {name}\n")
    (harness.home / "config.toml").write_text("key = 1\n")
    own, foreign = (session_folder(harness.home, agent.session.id) for agent in (mine, other))

    assert await output(box, mine, f"grep {mine.id} {own}/results/f; sed -n 2p {own}/outputs/f") == (
        f"{mine.id} results\n{mine.id} outputs\n"
    )
    for path in (own / "private/f", foreign / "results/f", harness.home / "config.toml"):
        said = await output(box, mine, f"cat {path}")
        assert "No such file" in said or "Permission denied" in said, path
    assert "x" not in (await output(box, mine, f"echo x > {own}/results/f && cat {own}/results/f")).splitlines()
    assert (own / "results/f").read_text() == f"one\n{mine.id} results\n"


async def test_a_link_among_them_opens_nothing(box: Any) -> None:
    harness = box.harness
    agent = harness.create_agent(cwd=str(box.work), options=AgentOptions(model="scripted/model")).agent
    (harness.home / "config.toml").write_text("key = 1\n")
    own = private_folder(harness.home, agent.session.id)
    (own / "results").symlink_to(harness.home)
    (private_folder(harness.home, agent.session.id, "outputs") / "f").symlink_to(harness.home / "config.toml")

    said = await output(box, agent, f"cat {own}/results/config.toml {own}/outputs/f {harness.home}/config.toml")
    assert "key" not in said


async def test_all_folders_of_sessions_may_be_elsewhere(box: Any, tmp_path: Path) -> None:
    harness = box.harness
    agent = harness.create_agent(cwd=str(box.work), options=AgentOptions(model="scripted/model")).agent
    (tmp_path / "disk").mkdir()
    (harness.home / "session-data").symlink_to(tmp_path / "disk")
    (private_folder(harness.home, agent.session.id, "results") / "f").write_text("kept\n")

    assert await output(box, agent, f"cat {tmp_path}/disk/{agent.session.id}/results/f") == "kept\n"
