"""Foreground commands: what they get, what they come to."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
import trio
from attrs import evolve
from dsh_shell.config import ShellConfig
from dsh_shell.errors import ShellError
from dsh_shell.executor import Executor, Outcome
from dsh_shell.report import foreground_meta, foreground_result, foreground_text

from dsh.messages import text_of
from dsh.process import Process


async def unchanged(process: Process) -> Process:
    return process


async def test_a_command_that_succeeds_shows_its_output_alone(bench: Any) -> None:
    outcome = await bench.run("echo out; echo err >&2")

    assert foreground_text(outcome) == "out\n[stderr]\nerr\n"
    meta = foreground_meta(outcome)
    assert meta.pop("durationMs") >= 0
    assert meta == {"exitCode": 0, "signal": None, "timedOut": False}


async def test_an_exit_code_is_the_last_line(bench: Any) -> None:
    assert foreground_text(await bench.run("printf x; exit 3")) == "x\n[exit code: 3]"
    assert foreground_text(await bench.run("exit 1")) == "(no output)\n[exit code: 1]"
    assert foreground_text(await bench.run("true")) == "(no output)"


async def test_a_signal_is_the_last_line(bench: Any) -> None:
    outcome: Outcome = await bench.run("echo x; kill -9 $$")

    assert foreground_text(outcome) == "x\n[killed by SIGKILL]"
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (None, "SIGKILL", False)


async def test_there_is_nothing_to_read_and_no_terminal(bench: Any) -> None:
    outcome = await bench.run("cat; read -r x; echo got:$x; (exec < /dev/tty) 2>/dev/null || echo no terminal")

    assert foreground_text(outcome) == "got:\nno terminal\n"


async def test_variables_that_make_output_plain(bench: Any) -> None:
    outcome = await bench.run("echo $NO_COLOR $TERM $PAGER $GIT_PAGER")

    assert foreground_text(outcome) == "1 dumb cat cat\n"


async def test_the_shell_keeps_the_name_of_a_linked_directory(bench: Any) -> None:
    (bench.folder / "real").mkdir()
    (bench.folder / "link").symlink_to("real")
    spec = evolve(bench.spec("pwd"), cwd=str(bench.folder / "link"))

    assert foreground_text(await bench.executor.run(spec, bench.owner, unchanged)) == f"{bench.folder}/link\n"


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(bench: Any) -> None:
    outcome = await bench.run(r"printf '\xf0\xff\x00ok\n'; head -c 1000000 /dev/zero | tr '\0' a >&2")

    assert outcome.stdout.text == "\ufffd\ufffd\ufffdok\n"
    assert outcome.stderr.total == 1_000_000


async def test_long_output_shows_both_ends_and_where_all_of_it_is(bench: Any) -> None:
    outcome: Outcome = await bench.run("seq 1 200000; echo 🙂")

    result = foreground_result(outcome)
    text = text_of(result.content)
    (kept,) = result.meta["kept"]
    path = trio.Path(kept)
    everything = await path.read_text()
    assert everything == "".join(f"{n}\n" for n in range(1, 200001)) + "🙂\n"
    head, marker, tail = re.split(r"(?m)^\[(.*) of stdout are left out here\]\n", text)
    tail, _, said = tail.rpartition("[stdout has ")
    assert everything.startswith(head)
    assert everything.endswith(tail)
    left = everything[len(head) : len(everything) - len(tail)]
    assert marker == f"{len(left.encode())} bytes in {left.count(chr(10))} lines"
    size = f"{len(everything.encode())} bytes in 200001 lines"
    assert said == f"{size}; all of it is in {path}: read the part that you need, or search it]"
    assert len(text) < 25_000
    await bench.executor.close()
    assert not await path.exists()


async def test_two_long_streams_are_both_kept_and_stay_within_the_limit(bench: Any) -> None:
    outcome = await bench.run("seq 1 7000; seq 1 7001 >&2; exit 3")
    assert max(outcome.stdout.total, outcome.stderr.total) < 50 * 1024  # only together they are too long

    result = foreground_result(outcome)
    out, err = [await trio.Path(path).read_text() for path in result.meta["kept"]]
    assert (out, err) == tuple("".join(f"{n}\n" for n in range(1, last + 1)) for last in (7000, 7001))
    text = text_of(result.content)
    assert len(text) < 50 * 1024
    assert text.endswith("\n[exit code: 3]")
    assert "\n[stderr]\n1\n2\n" in text


async def test_many_short_lines_are_cut_too(bench: Any) -> None:
    text = foreground_text(await bench.run("yes | head -n 2500"))

    assert "[3500 bytes in 1750 lines of stdout are left out here]\n" in text
    assert "[stdout has 5000 bytes in 2500 lines; all of it is in " in text


async def test_long_binary_output_is_named_and_kept(bench: Any) -> None:
    outcome = await bench.run("head -c 300000 /bin/bash; echo oops >&2")
    text = foreground_text(outcome)

    assert text.startswith("[stdout has 300000 bytes in ")
    assert "which are no text and not shown; all of it is in " in text
    assert text.endswith("\n[stderr]\noops\n")
    assert len(text) < 400


async def test_without_process_descriptors_a_thread_waits(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    assert foreground_text(await bench.run("echo x; exit 3")) == "x\n[exit code: 3]"
    assert (await bench.run("echo $$ > shell; exec sleep 60", 300)).timed_out
    assert not bench.runs(await bench.pid("shell"))


async def test_processes_that_end_with_the_shell_are_waited_for(bench: Any) -> None:
    outcome = await bench.run("exec > >(sed s/hi/ho/) 2>&1 && echo hi")

    assert foreground_text(outcome) == "ho\n"
    assert outcome.left is None


async def test_a_missing_directory_is_named(bench: Any) -> None:
    spec = evolve(bench.spec("true"), cwd=str(bench.folder / "absent"))
    with pytest.raises(ShellError, match="absent does not exist") as caught:
        await bench.executor.run(spec, bench.owner, unchanged)

    assert caught.value.code == "NO_WORKDIR"


async def test_a_missing_shell_is_named(bench: Any) -> None:
    executor = Executor(ShellConfig(), "/absent/shell")
    with pytest.raises(ShellError, match="/absent/shell does not exist") as caught:
        await executor.run(bench.spec("true"), None, unchanged)
    await executor.close()

    assert caught.value.code == "NO_SHELL"


async def test_a_command_beyond_the_system_s_limit_says_what_to_do(bench: Any) -> None:
    with pytest.raises(ShellError, match="write the text to a file") as caught:
        await bench.run("#" + "x" * 3_000_000)

    assert caught.value.code == "COMMAND_TOO_LONG"


async def test_the_prepared_process_is_what_runs(bench: Any) -> None:
    seen: list[Process] = []

    async def prepare(process: Process) -> Process:
        seen.append(process)
        return evolve(process, argv=("env", "WRAPPED=yes", *process.argv))

    outcome = await bench.executor.run(bench.spec("echo $WRAPPED"), bench.owner, prepare)

    assert foreground_text(outcome) == "yes\n"
    assert seen[0].argv[1:] == ("-c", "echo $WRAPPED")
    assert seen[0].cwd == str(bench.folder)
    assert seen[0].purpose == "bash"


async def test_nothing_starts_if_preparing_raises(bench: Any) -> None:
    async def prepare(process: Process) -> Process:
        raise RuntimeError("no sandbox")

    with pytest.raises(RuntimeError, match="no sandbox"):
        await bench.executor.run(bench.spec("touch started"), bench.owner, prepare)
    await trio.sleep(0.05)

    assert not (bench.folder / "started").exists()


async def test_many_commands_at_once(bench: Any) -> None:
    texts: dict[int, str] = {}

    async def one(number: int) -> None:
        texts[number] = foreground_text(await bench.run(f"echo {number}"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)

    assert texts == {number: f"{number}\n" for number in range(20)}


async def test_a_closed_executor_starts_nothing(bench: Any) -> None:
    await bench.executor.close()
    with pytest.raises(ShellError, match="closing"):
        await bench.run("true")
