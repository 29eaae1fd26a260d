"""Background tasks."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from dsh_shell.executor import Owner
from dsh_shell.report import notice_text, read_result, status_line

from dsh.messages import text_of
from dsh.process import Process


def told(task: Any) -> str:
    return text_of(read_result(task).content)


async def test_a_task_from_start_to_end(bench: Any) -> None:
    task = await bench.start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; echo err >&2; exit 5")
    await bench.until(lambda: task.child.stdout.total > 0)

    assert task.id == "bash-1"
    assert bench.executor.get("bash-1") is task
    assert told(task) == "one\n[status: running]"
    assert told(task) == "(no new output)\n[status: running]"
    assert bench.notices == []
    (bench.folder / "go").touch()
    await task.done.wait()
    assert told(task) == "two\n[stderr]\nerr\n[status: completed, exit code: 5]"
    assert told(task) == "(no new output)\n[status: completed, exit code: 5]"
    await bench.until(lambda: bool(bench.notices))
    assert bench.notices == [task]
    assert "bash-1" in notice_text(task)
    assert "exit code: 5" in notice_text(task)
    assert not await bench.executor.kill(task)


async def test_tasks_are_numbered(bench: Any) -> None:
    tasks = [await bench.start("true") for _ in range(3)]

    assert [task.id for task in tasks] == ["bash-1", "bash-2", "bash-3"]


async def test_a_killed_task_is_gone_with_its_children(bench: Any) -> None:
    task = await bench.start("sleep 60 & echo $! > child; wait")
    child = await bench.pid("child")

    assert await bench.executor.kill(task)
    assert task.done.is_set()
    assert status_line(task) == "[status: killed (SIGTERM)]"
    assert not bench.runs(child)
    assert not await bench.executor.kill(task)


async def test_a_task_runs_as_long_as_something_of_it_does(bench: Any) -> None:
    task = await bench.start("(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo early")
    await bench.until(lambda: not task.child.running())
    await trio.sleep(0.3)

    assert told(task) == "early\n[status: running]"
    (bench.folder / "go").touch()
    await task.done.wait()
    assert told(task) == "late\n[status: completed, exit code: 0]"


async def test_a_task_has_no_time_limit(bench: Any) -> None:
    bench.executor.config = type(bench.executor.config)(timeout_ms=50, max_timeout_ms=50)
    task = await bench.start("sleep 0.5; echo done")
    await task.done.wait()

    assert task.status == "completed"
    assert task.exit_code == 0


async def test_characters_are_whole_between_two_reads(bench: Any) -> None:
    task = await bench.start(r"printf 'a\xf0\x9f'; while [ ! -e go ]; do sleep 0.01; done; printf '\x99\x82b'")
    await bench.until(lambda: task.child.stdout.total == 1)

    assert told(task) == "a\n[status: running]"
    (bench.folder / "go").touch()
    await task.done.wait()
    assert told(task) == "🙂b\n[status: completed, exit code: 0]"


async def test_a_reader_of_much_is_told_where_everything_is(bench: Any) -> None:
    task = await bench.start("seq 1 100000")
    await task.done.wait()
    text = told(task)

    assert text.startswith("1\n2\n")
    path = task.child.stdout.spill.path
    said = (
        f"[stdout has 588895 bytes in 100000 lines; all of it is in {path}: read the part that you need, or search it]"
    )
    assert f"\n100000\n{said}\n" in text
    assert len(text) < 25_000
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert await trio.Path(path).read_text() == whole
    assert text.splitlines()[-1] == "[status: completed, exit code: 0]"


async def test_the_owner_s_end_is_the_end_of_its_tasks(bench: Any) -> None:
    task = await bench.start("trap '' TERM; echo $$ > shell; while :; do sleep 0.05; done")
    shell = await bench.pid("shell")
    await bench.dispose()

    assert task.status == "killed"
    assert task.done.is_set()
    assert not bench.runs(shell)
    assert bench.executor.get(task.id) is None
    assert bench.notices == []


async def test_nothing_runs_on_if_the_owner_ended_while_it_was_prepared(bench: Any) -> None:
    open_owner = True

    def start_soon(function: Any, *args: Any, name: str | None = None) -> None:
        if not open_owner:
            raise RuntimeError("closing")
        bench.nursery.start_soon(function, *args, name=name)

    async def prepare(process: Process) -> Process:
        nonlocal open_owner
        open_owner = False
        return process

    with pytest.raises(RuntimeError, match="closing"):
        await bench.executor.start(bench.spec("echo $$ > shell; sleep 60"), Owner("other", start_soon), prepare)

    if (bench.folder / "shell").exists():
        assert not bench.runs(await bench.pid("shell"))


async def test_closing_ends_tasks_of_living_owners(bench: Any) -> None:
    task = await bench.start("echo $$ > shell; sleep 60")
    shell = await bench.pid("shell")
    await bench.executor.close()

    assert task.status == "killed"
    assert not bench.runs(shell)
    assert bench.notices == []
