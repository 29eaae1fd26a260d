"""``dsh batch``: many tasks, each on its own, and a file of results that can be gone on with."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh import ConfigError
from dsh.cli.tasklist import Results, read_tasks
from dsh.jsonvalue import dumps

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"
needs_server = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")
FLAGS = ("-m", "openai/scripted", "--permission-mode", "bypass")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def batch(stage: Any, *tasks: Any, arguments: tuple[str, ...] = (), popen: bool = False) -> Any:
    """Run a batch, or start it; the exit code, what was printed, and the results."""
    stage.work.mkdir(exist_ok=True)
    if tasks:
        (stage.work / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    running = stage.start("batch", "tasks.jsonl", *FLAGS, *arguments)
    return running if popen else finish(stage, running)


def finish(stage: Any, running: Any) -> tuple[int, str, str, list[dict[str, Any]]]:
    out, err = running.communicate(timeout=120)
    assert "Traceback" not in err, err
    results = stage.work / "tasks.results.jsonl"
    return running.returncode, out, err, lines(results) if results.exists() else []


@needs_server
def test_every_task_has_a_result_and_one_that_fails_touches_no_other(stage: Any) -> None:
    with stage.serving(stage.script({"text": "the answer", "repeat": True})):
        code, out, err, results = batch(
            stage,
            {"id": "a", "prompt": "first"},
            {"id": "nowhere", "prompt": "second", "cwd": "not-there"},
            {"id": "too long", "prompt": "second", "cwd": "x" * 5000},
            {"id": "nobody's", "prompt": "second", "cwd": "~no_such_person/x"},
            {"id": 5, "prompt": "fifth"},
            arguments=("--jobs", "2"),
        )
    by_id = {result["id"]: result for result in results}
    assert (code, out, len(results)) == (1, "", 5)
    assert {id: result["exit_code"] for id, result in by_id.items()} == {
        "a": 0,
        "nowhere": 2,
        "too long": 2,
        "nobody's": 2,
        "5": 0,
    }
    assert by_id["a"]["answer"] == "the answer"
    assert (by_id["a"]["reason"], by_id["a"]["usage"]["input_tokens"], by_id["a"]["model"]) == (
        "completed",
        10,
        "openai/scripted",
    )
    stored = {path.stem.rpartition("_")[2] for path in (stage.home / "sessions").rglob("*.jsonl")}
    assert any(by_id["a"]["session_id"] in name for name in stored)
    assert "[5/5]" in err
    assert "2 completed, 3 failed, 0 not done" in err
    assert "nowhere (line 2) failed" in err


def test_models_and_tools_that_there_are_not_are_told_with_their_lines_before_a_task_begins(stage: Any) -> None:
    code, _, err, results = batch(
        stage,
        {"id": "a", "prompt": "first"},
        {"prompt": "second", "model": "nobody/x"},
        {"prompt": "third", "tools": ["rea"], "disallowed_tools": ["write"]},
    )
    assert (code, results) == (2, [])
    assert "tasks.jsonl, line 2: no provider serves the model 'nobody/x'" in err
    assert "tasks.jsonl, line 3: there is no tool rea, did you mean read?" in err
    assert "no task was begun" in err


@needs_server
def test_what_has_a_result_is_not_done_again(stage: Any) -> None:
    tasks = [{"id": "a", "prompt": "one"}, {"id": "b", "prompt": "two", "cwd": "later"}, {"prompt": "three"}]
    with stage.serving(stage.script({"text": "x", "repeat": True})):
        assert batch(stage, *tasks)[0] == 1
        asked = len(stage.requests())
        code, _, err, results = batch(stage)
        assert (code, len(stage.requests()), len(results)) == (1, asked, 3)
        assert "nothing to do" in err
        assert "; 1 failed, and --retry-failed does it again" in err
        (stage.work / "later").mkdir()
        code, _, _, results = batch(stage, {"prompt": "three"}, *tasks[:2], {"id": "c", "prompt": "new"})
        assert ([result["id"] for result in results[3:]], code) == (["c"], 0)
        code, _, _, results = batch(stage, arguments=("--retry-failed",))
        assert (results[-1]["id"], results[-1]["exit_code"], code) == ("b", 0, 0)
        assert batch(stage)[0] == 0
        old = {"id": "gone", "prompt": "x", "cwd": "nowhere"}
        assert batch(stage, old)[0] == 1
        assert batch(stage, old)[0] == 1
        assert batch(stage, *tasks)[0] == 0  # what is recorded of other tasks is no matter of these


@needs_server
def test_ctrl_c_stops_all_and_leaves_a_file_to_go_on_with(stage: Any) -> None:
    """The first tasks are done; the others hang in a command, and are begun anew the next time."""
    hanging = {"calls": [["@shell", {"command": "sleep 800"}]]}
    script = stage.script({"text": "done"}, hanging, hanging, {"text": "done", "repeat": True})
    with stage.serving(script):
        tasks = [{"id": f"t{number}", "prompt": "x"} for number in range(6)]
        running = batch(stage, *tasks, arguments=("--jobs", "2"), popen=True)
        stage.until(lambda: sum("sleep 800" in json.dumps(lines(path)) for path in logs(stage)) == 2, "both commands")
        pids = stage.until_running(running, "sleep 800")
        running.send_signal(signal.SIGINT)
        code, _, err, results = finish(stage, running)
        stage.until_gone(pids)
        assert (code, len(results)) == (130, 1)
        assert "5 of 6 tasks have no result" in err
        code, _, _, results = finish(stage, stage.start("batch", "tasks.jsonl", *FLAGS))
    assert code == 0
    assert sorted(result["id"] for result in results) == [f"t{number}" for number in range(6)]


def logs(stage: Any) -> list[Path]:
    return list((stage.home / "sessions").rglob("*.jsonl"))


@needs_server
def test_a_guard_holds_in_every_task_and_below_it(stage: Any) -> None:
    stage.plugin(
        "guard",
        "from dsh import Deny, hookimpl\n"
        "@hookimpl\n"
        "def tools_pre_execute(call):\n"
        "    return Deny('not here') if call.name == 'bash' else None\n",
    )
    touch = {"calls": [["@shell", {"command": "touch made"}]]}
    delegate = {"calls": [["@task", {"prompt": "x", "description": "x", "background": True}]]}
    with stage.serving(stage.script(delegate, touch, touch, {"text": "done", "repeat": True})):
        code, _, _, results = batch(stage, {"id": "a", "prompt": "x"}, arguments=("--jobs", "1"))
    assert (code, results[0]["exit_code"]) == (0, 0)
    assert not (stage.work / "made").exists()
    denied = sum("not here" in json.dumps(lines(path)) for path in logs(stage))
    assert denied >= 1


@needs_server
def test_a_limit_is_each_tasks_own(stage: Any) -> None:
    script = stage.script({"calls": [["@shell", {"command": "true"}]], "repeat": True})
    with stage.serving(script):
        code, _, _, results = batch(
            stage, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}, arguments=("--max-turns", "2")
        )
        assert len(stage.requests()) == 4
    assert code == 1
    assert [(result["exit_code"], result["error"]["code"]) for result in results] == [(124, "LIMIT_REQUESTS")] * 2


@needs_server
def test_a_task_has_no_more_tools_than_the_flags_leave(stage: Any) -> None:
    """Nor does it by a rule, or by a subagent of its own."""
    touch = {"calls": [["@shell", {"command": "touch made"}]]}
    delegate = {"calls": [["@task", {"prompt": "x", "description": "x"}]]}
    with stage.serving(stage.script(touch, {"text": "x"}, delegate, touch, {"text": "x", "repeat": True})):
        code, _, _, results = batch(
            stage,
            {"id": "a", "prompt": "x", "tools": ["bash", "read"]},
            {"id": "b", "prompt": "x", "tools": ["subagent", "bash"]},
            arguments=("--jobs", "1", "--tools", "read,subagent"),
        )
        offered = [[tool["function"]["name"] for tool in request["body"]["tools"]] for request in stage.requests()]
    assert (code, len(results)) == (0, 2)
    assert not (stage.work / "made").exists()
    assert (offered[0], offered[2], offered[3]) == (["read"], ["subagent"], ["subagent"])


@needs_server
def test_a_plugin_that_ends_the_program_ends_no_other_task_and_records_nothing_false(stage: Any) -> None:
    """`sys.exit` is that task's failure; an interrupt is everybody's end, and no result."""
    stage.plugin(
        "ends",
        "import os, sys\n"
        "from dsh import hookimpl\n"
        "@hookimpl\n"
        "def session_event(event):\n"
        "    if event.type == 'user/message' and 'bad' in str(event.data.content):\n"
        "        if os.environ['HOW'] == 'exit':\n"
        "            sys.exit(7)\n"
        "        raise KeyboardInterrupt\n",
    )
    tasks = [{"id": "a", "prompt": "good"}, {"id": "b", "prompt": "bad"}, {"id": "c", "prompt": "good"}]
    with stage.serving(stage.script({"text": "x", "repeat": True})):
        stage.env["HOW"] = "interrupt"
        running = batch(stage, *tasks[1:2], popen=True)
        running.communicate(timeout=120)
        assert running.returncode == 130
        assert not (stage.work / "tasks.results.jsonl").read_bytes()
        stage.env["HOW"] = "exit"
        code, _, _, results = batch(stage, *tasks, arguments=("--jobs", "2"))
    assert code == 1
    assert {result["id"]: result["exit_code"] for result in results} == {"a": 0, "b": 1, "c": 0}


@needs_server
@pytest.mark.parametrize("how", ["full", "deleted", "closed"])
def test_results_that_cannot_be_kept_stop_the_batch_with_a_word(stage: Any, how: str) -> None:
    """What is not recorded would be paid for in vain, also where every task that runs meets that at once."""
    tasks = [{"id": f"t{number}", "prompt": "x"} for number in range(3)]
    stage.plugin(
        "deletes",
        "import os\n"
        "from dsh import hookimpl\n"
        "@hookimpl\n"
        "def agent_created():\n"
        "    if os.path.exists('tasks.results.jsonl'):\n"
        "        os.unlink('tasks.results.jsonl')\n",
    )
    out = {"full": "/dev/full", "deleted": "tasks.results.jsonl", "closed": "-"}[how]
    with stage.serving(stage.script({"text": "x", "repeat": True})):
        running = batch(stage, *tasks, arguments=("--out", out), popen=True)
        if how == "closed":
            running.stdout.close()
            running.stdout = None
        code, _, err, results = finish(stage, running)
    assert (code, results) == (1, [])
    assert "stopped: a result could not be written" in err
    assert "0 completed, 0 failed, 3 not done" in err


@needs_server
def test_results_on_stdout(stage: Any) -> None:
    with stage.serving(stage.script({"text": "x", "repeat": True})):
        code, out, _, results = batch(stage, {"id": "a", "prompt": "x"}, arguments=("--out", "-", "--no-session"))
    assert (code, results, json.loads(out)["answer"]) == (0, [], "x")
    assert logs(stage) == []


# -- the files


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


BAD = [
    ("{", "line 1: "),
    ("[]", "line 1: is no JSON object"),
    ('{"prompt": "x"}\n{"promt": "x"}', "line 2: unknown key 'promt', did you mean prompt"),
    ('{"prompt": "x"}\n\n{"id": "a"}', "line 3: there is no prompt"),
    ('{"prompt": " "}', "line 1: prompt must be"),
    ('{"prompt": 3}', "line 1: prompt must be"),
    ('{"prompt": "x", "id": true}', "line 1: id must be"),
    ('{"prompt": "x", "id": ""}', "line 1: id must be"),
    ('{"prompt": "x", "tools": "bash"}', "line 1: tools must be a list"),
    ('{"prompt": "x", "id": "a"}\n{"prompt": "y", "id": "a"}', "line 2: the id 'a' is that of line 1"),
    (b'{"prompt": "\xff"}', "line 1: "),
    ("", "there is no task"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD)
def test_bad_lines_are_told_with_their_numbers(tmp_path: Path, text: str | bytes, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tasks(written(tmp_path, text))
    assert complaint in caught.value.message


def test_all_bad_lines_are_told_of_and_nothing_is_begun(stage: Any) -> None:
    stage.work.mkdir()
    (stage.work / "tasks.jsonl").write_text('{"prompt": "x"}\nno\n{"id": 1}\n')
    code, _, err, results = finish(stage, stage.start("batch", "tasks.jsonl", *FLAGS))
    assert (code, results) == (2, [])
    assert "line 2" in err
    assert "line 3" in err
    assert "no task was begun" in err


def test_a_task_keeps_its_made_up_id_wherever_it_stands(tmp_path: Path) -> None:
    one, two = '{"prompt": "one", "cwd": "x"}', '{"prompt": "two"}'
    first = read_tasks(written(tmp_path, f"{one}\n{two}\n{two}\n"))
    later = read_tasks(written(tmp_path, f'{two}\r\n\n{{"cwd": "x", "prompt": "one"}}\n{two}'))
    assert sorted(task.id for task in first) == sorted(task.id for task in later)
    assert len({task.id for task in first}) == 3


@given(cut=st.integers(0, 200))
def test_a_result_that_was_half_written_is_done_again(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("results") / "results.jsonl"
    whole = b"".join(dumps({"id": f"t{n}", "exit_code": 0, "answer": "a" * 20}) + b"\n" for n in range(3))
    path.write_bytes(whole[:cut])
    results = Results(path)
    try:
        assert len(results.recorded) == whole[:cut].count(b"\n")
        results.add({"id": "new", "exit_code": 1})
    finally:
        results.close()
    assert [record["id"] for record in lines(path)] == [*results.recorded, "new"]


def test_results_in_what_is_no_file_are_refused(tmp_path: Path) -> None:
    """A pipe would be waited for, and `/dev/null` has no end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"pipe: is no file; for results on stdout write --out -"):
        Results(tmp_path / "pipe")
    for _ in range(2):
        results = Results(Path("/dev/null"))
        results.add({"id": "a", "exit_code": 0})
        assert results.recorded == {}
        results.close()


def test_results_that_are_none_or_in_use_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    task = '{"id":"a","prompt":"x"}'
    for diary in ("my diary\n", "my diary", "{}\n", '{"id": "a", "exit_code": 0}\nmy diary', task, f"{task}\n"):
        path.write_text(diary)
        with pytest.raises(ConfigError, match=r"line [12]: is no result"):
            Results(path)
        assert path.read_text() == diary
    other = tmp_path / "other.jsonl"
    held = Results(other)
    with pytest.raises(ConfigError, match="another program writes it"):
        Results(other)
    held.close()
    Results(other).close()
    with pytest.raises(ConfigError, match="cannot be written"):
        Results(tmp_path / "no/such/folder.jsonl")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_results_are_written_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    results = Results(tmp_path / "r.jsonl")
    results.add({"id": "a", "exit_code": 0})
    results.close()
    assert lines(tmp_path / "r.jsonl") == [{"id": "a", "exit_code": 0}]


@pytest.mark.parametrize("way", ["same", "link"])
def test_results_do_not_go_into_the_tasks(stage: Any, way: str) -> None:
    """Not even where its only line could be a result that was cut off."""
    tasks = stage.work / "tasks.jsonl"
    stage.work.mkdir()
    tasks.write_text('{"id":"a","prompt":"x"}')
    if way == "link":
        (stage.work / "link").symlink_to("tasks.jsonl")
    code, _, err, _ = batch(stage, arguments=("--out", "tasks.jsonl" if way == "same" else "link"))
    assert code == 2
    assert "holds the tasks" in err
    assert tasks.read_text() == '{"id":"a","prompt":"x"}'
