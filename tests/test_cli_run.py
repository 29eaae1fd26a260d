"""Whole runs of ``python -m dsh`` against a scripted model server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen

FAKESRV = Path(__file__).parents[1] / ".." / "shared" / "tools" / "fakesrv.py"
Reply = Mapping[str, Any]


def sse(reply: Reply, number: int) -> bytes:
    """A reply of the script as a stream of chat completions."""
    calls = [
        {"index": n, "id": f"call_{number}_{n}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(reply.get("calls", ()))
    ]
    finish = reply.get("finish", "tool_calls" if calls else "stop")
    choices: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": reply.get("text", "")}}]
    if calls:
        choices.append({"delta": {"tool_calls": calls}})
    choices.append({"delta": {}, "finish_reason": finish})
    events: list[dict[str, Any]] = [{"id": "x", "choices": [{"index": 0, **choice}]} for choice in choices]
    events.append({"id": "x", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


@define
class Model:
    """A server that plays a script, one reply a request."""

    replies: list[Reply] = field(factory=list)
    requests: list[dict[str, Any]] = field(factory=list)
    asked: threading.Event = field(factory=threading.Event)
    released: threading.Event = field(factory=threading.Event)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        number = len(self.requests)
        self.requests.append(json.loads(body))
        self.asked.set()
        reply: Reply = self.replies[number] if number < len(self.replies) else {"text": "(the script has ended)"}
        if reply.get("stall"):
            self.released.wait(30)
        status = reply.get("status", 200)
        data = sse(reply, number) if status == 200 else b'{"error": {"message": "as the script says"}}'
        handler.send_response(status)
        handler.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


@pytest.fixture
def model() -> Iterator[Model]:
    script = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                script.answer(self)
            except OSError:
                self.close_connection = True  # the client is gone, as in tests of signals

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield script
        finally:
            script.released.set()
            server.shutdown()
            thread.join()


BYPASS = ("--permission-mode", "bypass")


@frozen
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@frozen
class Shell:
    """Starts dsh in a folder of its own, with a home of its own."""

    folder: Path
    model: Model

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "LANG", "COVERAGE_PROCESS_START")
            if name in os.environ
        }
        home = self.folder.parent / "home"
        return {**kept, "HOME": str(home), "DSH_HOME": str(home / "dsh"), "DEEPSEEK_BASE_URL": self.model.url}

    def start(
        self, *argv: str, stdin: Any = subprocess.DEVNULL, stdout: Any = subprocess.PIPE, **environ: str
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dsh", *argv]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __call__(self, *argv: str, text: str | None = None, **more: Any) -> Done:
        process = self.start(*argv, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE, **more)
        out, err = process.communicate(text, timeout=60)
        assert "Traceback" not in err, err
        return Done(process.returncode, out or "", err)

    def plugin(self, text: str, name: str = "extra.py") -> str:
        (self.folder / name).write_text(f"import dsh\nfrom dsh import *\n{text}\n", encoding="utf-8")
        return name

    def logs(self) -> list[list[dict[str, Any]]]:
        """The stored sessions: header and events."""
        files = sorted((self.folder.parent / "home" / "dsh").rglob("*.jsonl"))
        return [[json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files]


@pytest.fixture
def dsh(tmp_path: Path, model: Model) -> Shell:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return Shell(tmp_path / "work", model)


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def texts(request: Mapping[str, Any]) -> list[str]:
    return [str(message["content"]) for message in request["messages"] if message["role"] != "system"]


# -- the three formats


def test_stdout_carries_the_answer_alone(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "Looking.", "calls": [("bash", {"command": "echo found"})]}, {"text": "Grüße\nzwei"}]
    done = dsh("-p", "look", "around")
    assert (done.code, done.out) == (0, "Grüße\nzwei\n")
    assert texts(model.requests[0]) == ["look around"]
    assert "[bash] echo found" in done.err
    assert "Looking." in done.err
    assert "asking" not in done.err
    assert dsh("-p", "x", "--no-plugin", "permissions").err.count("tools run without asking") == 1


def test_run_is_the_same_and_quiet_is_silent(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "echo found"})]}, {"text": "done"}]
    done = dsh("run", "look", "-q")
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_run_takes_p_as_well(dsh: Shell, model: Model) -> None:
    dsh("run", "-p", "look")
    dsh("-p", "run", "the", "tests")
    assert [texts(request) for request in model.requests] == [["look"], ["run the tests"]]


def test_bypass_asks_for_silence_about_permissions(dsh: Shell) -> None:
    assert "without asking" not in dsh("-p", "x", "--permission-mode", "bypass").err


def test_json_is_one_document(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "true"})]}, {"text": "done"}]
    # a model that no set of prices knows, whichever is installed
    done = dsh("-p", "x", "--json", "--session-id", "mine", "-m", "deepseek/nobody-knows-me")
    assert done.code == 0
    assert done.out.count("\n") == 1
    assert done.document == {
        "type": "result",
        "session_id": "mine",
        "text": "done",
        "denied": [],
        "reason": "completed",
        "exit_code": 0,
        "model": "deepseek/nobody-knows-me",
        "steps": 2,
        "usage": {
            "input_tokens": 14,
            "output_tokens": 6,
            "cache_read_tokens": None,
            "cache_write_tokens": None,
            "reasoning_tokens": None,
        },
        "cost_usd": None,
    }


def test_what_a_run_costs_is_told_where_the_price_is_known(dsh: Shell, model: Model) -> None:
    model.replies.append({"text": "done"})
    price = 'models."deepseek/nobody-knows-me".price={input=1000000.0, output=2000000.0}'
    done = dsh("-p", "x", "--json", "-m", "deepseek/nobody-knows-me", "--config", price)
    assert done.document["cost_usd"] == 7 + 2 * 3


def test_without_a_key_no_session_is_left(dsh: Shell) -> None:
    done = dsh("-p", "x", "-m", "groq/x", "--json")
    assert (done.code, done.document["error"]["code"]) == (2, "AUTH")
    assert "set GROQ_API_KEY, or let dsh keep it: dsh auth set groq" in done.err
    assert "there is no session" in dsh("-p", "-c", "x").err


def test_a_conversation_says_at_once_that_there_is_no_key(dsh: Shell) -> None:
    done = dsh("-m", "groq/x", text="")
    assert "groq: there is no key; set GROQ_API_KEY, or let dsh keep it: dsh auth set groq" in done.err


def test_stream_json_is_the_log_as_it_is_written(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "true"})]}, {"text": "done"}]
    done = dsh("-p", "x", "--output-format", "stream-json")
    first, *events, last = done.records
    assert (first["type"], first["cwd"], first["resumed_events"]) == ("session", str(dsh.folder), 0)
    assert {record["type"] for record in events} == {"event"}
    assert (last["type"], last["text"], last["exit_code"]) == ("result", "done", 0)
    assert {record["session_id"] for record in done.records} == {first["session_id"]}
    (log,) = dsh.logs()
    assert [record["event"] for record in events] == [event for event in log[1:] if event["type"] != "assistant/chunk"]


def test_chunks_are_streamed_when_asked_for(dsh: Shell) -> None:
    done = dsh("-p", "x", "--output-format", "stream-json", "--include-partial")
    (log,) = dsh.logs()
    assert [record["event"] for record in done.records[1:-1]] == log[1:]


def test_stdin_follows_the_words(dsh: Shell, model: Model) -> None:
    dsh("-p", "count these", text="a\nb\n")
    dsh("-p", text="only this")
    assert [texts(request) for request in model.requests] == [["count these\n\na\nb"], ["only this"]]


# -- sessions


def test_a_session_goes_on(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    dsh("-p", "first", "--session-id", "abc", "-m", "deepseek/another-model")
    assert dsh("-p", "second", "-c").out == "two\n"
    assert dsh("-p", "third", "--resume", "abc").out == "three\n"
    assert texts(model.requests[2]) == ["first", "one", "second", "two", "third"]
    assert {request["model"] for request in model.requests} == {"another-model"}
    assert len(dsh.logs()) == 1


def test_continue_takes_the_last_session_of_the_directory(dsh: Shell, model: Model) -> None:
    done = dsh("-p", "x", "-c")
    assert (done.code, "there is no session of" in done.err) == (2, True)
    dsh("-p", "here")
    (dsh.folder / "sub").mkdir()
    assert dsh("-p", "x", "-c", "-C", "sub").code == 2
    assert dsh("-p", "x", "-c").code == 0


def test_an_unknown_session_is_refused(dsh: Shell) -> None:
    done = dsh("-p", "x", "-r", "nosuch", "--json")
    assert done.code == 2
    assert done.document["error"]["code"] == "SESSION_NOT_FOUND"
    assert "dsh sessions list" in done.err


def test_an_id_is_not_used_twice(dsh: Shell) -> None:
    assert dsh("-p", "x", "--session-id", "abc").code == 0
    done = dsh("-p", "x", "--session-id", "abc")
    assert done.code != 0
    assert "abc" in done.err
    assert len(dsh.logs()) == 1


def test_nothing_is_stored_when_nothing_shall_be(dsh: Shell) -> None:
    done = dsh("-p", "x", "--no-session")
    assert done.code == 0
    assert dsh.logs() == []
    assert "session " not in done.err.replace("--no-session", "")


def test_sessions_are_listed_and_shown(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "Looking.", "calls": [("bash", {"command": "echo found"})]}, {"text": "It is there."}]
    assert "no sessions of" in dsh("sessions").out
    dsh("-p", "look around", "--session-id", "abc")
    listed = dsh("sessions", "list").out.splitlines()
    assert listed[0].split() == ["id", "last", "used", "first", "message"]
    assert listed[1].startswith("abc ")
    assert listed[1].endswith("look around")
    assert json.loads(dsh("sessions", "--json").out)["id"] == "abc"
    shown = dsh("sessions", "show", "ab").out
    for part in (
        "user:\n  look around",
        "assistant:\n  Looking.",
        "[bash] ",
        "  | found",
        "assistant:\n  It is there.",
    ):
        assert part in shown
    path = Path(dsh("sessions", "path", "abc").out.strip())
    assert dsh("sessions", "show", "abc", "--json").out == path.read_text(encoding="utf-8")
    assert dsh("sessions", "show", "nosuch").code == 2


def test_a_session_is_shown_while_it_is_written(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "x", "stall": True}]
    process = dsh.start("-p", "look around", "--session-id", "abc")
    model.asked.wait(30)
    before = dsh.logs()
    assert "look around" in dsh("sessions", "show", "abc").out
    assert dsh.logs() == before
    locked = dsh("-p", "x", "-r", "abc")
    assert locked.code == 1
    model.released.set()
    assert process.communicate(timeout=30)[0] == "x\n"


# -- how it ends


def test_a_failed_provider_is_an_exit_code(dsh: Shell, model: Model) -> None:
    model.replies += [{"status": 401}]
    done = dsh("-p", "x", "--json")
    assert (done.code, done.document["exit_code"], done.document["reason"]) == (1, 1, "error")
    assert done.document["error"]["code"] == "AUTH"
    assert done.err.splitlines()[-2].startswith("dsh: ")


def test_no_connection_is_75_in_every_format(dsh: Shell) -> None:
    for flags in ((), ("--json",), ("--output-format", "stream-json")):
        done = dsh("-p", "x", "--config", "retry.tries=1", *flags, DEEPSEEK_BASE_URL="http://127.0.0.1:9/v1")
        assert done.code == 75
        if flags:
            assert done.records[-1]["exit_code"] == 75
        else:
            assert done.out == ""


def test_an_answer_that_was_cut_off_is_124_and_is_printed(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "half of", "finish": "length"}]
    done = dsh("-p", "x")
    assert (done.code, done.out) == (124, "half of\n")
    assert "cut off" in done.err


def test_a_blocked_prompt_is_3(dsh: Shell, model: Model) -> None:
    plugin = dsh.plugin("@hookimpl\ndef agent_prompt_submit(content): return Block('not today')")
    done = dsh("-p", "x", "-e", plugin, "--json")
    assert (done.code, done.document["reason"]) == (3, "rejected")
    assert "not today" in done.err
    assert model.requests == []


def test_a_question_that_nobody_answers_is_3(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "touch made"})]}, {"text": "I may not"}]
    plugin = dsh.plugin("@hookimpl\ndef tools_pre_execute(call): return Ask('sure?')")
    done = dsh("-p", "x", "-e", plugin, "--json", *BYPASS)  # a plugin's question stays one
    assert (done.code, done.document["text"]) == (3, "I may not")
    assert done.document["error"]["code"] == "APPROVAL_UNANSWERED"
    (denied,) = done.document["denied"]
    assert (denied["tool"], denied["arguments"], denied["unanswered"]) == ("bash", "touch made", True)
    assert "sure?" in denied["reason"]
    assert "  bash: touch made" in done.err
    assert not (dsh.folder / "made").exists()


def test_a_plugins_mistake_names_the_plugin_and_not_a_traceback(dsh: Shell) -> None:
    plugin = dsh.plugin("@hookimpl\ndef dsh_configure(harness): raise ValueError('it broke')")
    done = dsh("-p", "x", "-e", plugin, "--json")
    assert done.code == 2
    assert "it broke" in done.err
    assert "extra" in done.err
    assert "--debug" in done.err
    assert "it broke" in done.document["error"]["message"]


def test_unknown_names_of_tools_are_refused(dsh: Shell, model: Model) -> None:
    for flag in ("--tools", "--disallowed-tools"):
        done = dsh("-p", "x", flag, "bsah")
        assert (done.code, "there is no tool bsah, did you mean bash?" in done.err) == (2, True)
    assert model.requests == []


def test_tools_are_picked(dsh: Shell, model: Model) -> None:
    dsh("-p", "x", "--tools", "bash,read")
    dsh("-p", "x", "--disallowed-tools", "bash")
    only, without = ({tool["function"]["name"] for tool in request["tools"]} for request in model.requests)
    assert only == {"bash", "read"}
    assert without
    assert "bash" not in without


def test_the_system_prompt_is_the_persons(dsh: Shell, model: Model) -> None:
    dsh("-p", "x", "--system-prompt", "You are a stone.", "--append-system-prompt", "Last words.")
    system = model.requests[0]["messages"][0]["content"]
    assert "You are a stone." in system
    assert system.rstrip().endswith("Last words.")


def test_settings_of_the_project_are_read_in_its_folders(dsh: Shell, model: Model) -> None:
    (dsh.folder / ".dsh").mkdir()
    (dsh.folder / ".dsh" / "config.toml").write_text('model = "deepseek/of-the-project"')
    (dsh.folder / "deep").mkdir()
    dsh("-p", "x", "-C", "deep")
    dsh("-p", "x", DSH_MODEL="deepseek/of-the-environment")
    assert [request["model"] for request in model.requests] == ["of-the-project", "of-the-environment"]
    (dsh.folder / ".dsh" / "config.toml").write_text("[shel]\nx = 1")
    done = dsh("-p", "x")
    assert (done.code, "shel" in done.err, "shell" in done.err) == (2, True, True)


def test_no_model_is_2_and_tells_the_ways_on(dsh: Shell) -> None:
    done = dsh("-p", "x", "--no-plugin", "local", DEEPSEEK_BASE_URL="")
    assert done.code == 2
    assert "no model is configured" in done.err


# -- signals and pipes


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_in_order(dsh: Shell, model: Model, number: signal.Signals, code: int) -> None:
    model.replies += [{"calls": [("bash", {"command": "echo $$ > pid; sleep 300"})]}]
    process = dsh.start(
        "-p", "x", "--json", *BYPASS, "-s", "danger-full-access"
    )  # whose processes have numbers known outside
    pid = dsh.folder / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    done = Done(process.returncode, out, err)
    assert (done.code, done.document["exit_code"], done.document["reason"]) == (code, code, "aborted")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    (log,) = dsh.logs()
    assert log[-1]["type"] == "turn/end"
    assert [event["type"] for event in log].count("tool/result") == 1


def test_a_signal_while_the_model_is_silent(dsh: Shell, model: Model) -> None:
    model.replies += [{"stall": True}]
    process = dsh.start("-p", "x")
    model.asked.wait(30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "interrupted by the user" in err


def test_the_second_signal_leaves_at_once_even_when_a_plugin_blocks(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "sleep 300 & echo $! > pid; touch ready; wait"})]}]
    blocker = (
        "import pathlib, time\n@hookimpl\ndef agent_queued(agent): agent.start_soon(block)\n"
        "async def block():\n    import trio\n"
        "    while not pathlib.Path('ready').exists(): await trio.sleep(0.01)\n"
        "    pathlib.Path('blocking').touch()\n    time.sleep(300)\n"
    )
    process = dsh.start("-p", "x", "-e", dsh.plugin(blocker), *BYPASS, "-s", "danger-full-access")
    wait_for((dsh.folder / "blocking").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    child = int((dsh.folder / "pid").read_text())
    wait_for(lambda: gone(child))


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may be there to reap it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_a_reader_that_left_is_no_error(dsh: Shell, model: Model) -> None:
    for flags in ((), ("--json",)):
        reader, writer = os.pipe()
        os.close(reader)
        process = dsh.start("-p", "x", *flags, stdout=writer)
        os.close(writer)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Error" not in err
        assert "Traceback" not in err


def test_a_stream_that_nobody_reads_stops_the_run(dsh: Shell, model: Model) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = dsh.start("-p", "x", "--output-format", "stream-json", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "nobody reads stdout" in err
    assert "Traceback" not in err


def test_a_stream_whose_reader_leaves_stops_the_run(dsh: Shell, model: Model) -> None:
    model.replies += [{"calls": [("bash", {"command": "touch begun; sleep 300"})]}]
    process = dsh.start("-p", "x", "--output-format", "stream-json", *BYPASS)
    wait_for((dsh.folder / "begun").exists)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "session"
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(30) == 143
    process.stderr.close()
    assert "Traceback" not in err
    (log,) = dsh.logs()
    assert log[-1]["type"] == "turn/end"


def test_a_closed_stdout_and_stderr_are_no_error(dsh: Shell, model: Model) -> None:
    command = f"exec {sys.executable} -m dsh -p x >&- 2>&- <&-"
    done = subprocess.run(["sh", "-c", command], cwd=dsh.folder, env=dsh.environ, check=False, timeout=60)
    assert done.returncode == 0
    assert len(model.requests) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("flags", [(), ("--json",), ("--output-format", "stream-json")])
def test_a_stdout_that_is_full_is_an_error_and_the_log_is_whole(dsh: Shell, flags: Sequence[str]) -> None:
    with open("/dev/full", "w") as full:
        process = dsh.start("-p", "x", *flags, stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "cannot write to stdout: No space left on device" in err
    assert "Traceback" not in err
    for log in dsh.logs():
        assert log[-1]["type"] == "turn/end"


def test_an_old_encoding_does_not_matter(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": "ü → 漢"}]
    assert dsh("-p", "x", PYTHONIOENCODING="ascii").out == "ü → 漢\n"


# -- the other commands


def test_debug_tells_whether_requests_extend_each_other(dsh: Shell, model: Model) -> None:
    model.replies += [
        {"calls": [("bash", {"command": "true"})]},
        {"calls": [("bash", {"command": "true"})]},
        {"text": "done"},
    ]
    lines = [line for line in dsh("-p", "x", "--debug").err.splitlines() if ": request " in line]
    assert [line.rpartition("extends=")[2] for line in lines] == ["first", "yes", "yes"]
    assert [line.split(" messages")[0].rpartition(" ")[2] for line in lines] == ["1", "3", "5"]
    assert len({line.partition("sha256=")[2][:16] for line in lines}) == 3


def test_plugins_are_listed_with_their_state(dsh: Shell) -> None:
    rows = {
        row["name"]: row
        for row in json.loads(dsh("plugins", "--json", "--no-plugin", "shell", "-e", dsh.plugin("")).out)
    }
    assert rows["loop"]["state"] == "loaded"
    assert rows["loop"]["distribution"] == "dsh-harness"
    assert "agent_factory" in rows["loop"]["hooks"]
    assert (rows["shell"]["state"], rows["shell"]["hooks"]) == ("blocked", [])
    assert rows["extra"]["distribution"] is None
    assert "session_open" in rows["jsonl"]["hooks"]
    assert "loop " in dsh("plugins").out


def test_plugins_are_listed_when_the_harness_does_not_open(dsh: Shell) -> None:
    plugin = dsh.plugin("@hookimpl\ndef dsh_configure(harness): raise ValueError('it broke')")
    done = dsh("plugins", "-e", plugin)
    assert done.code == 2
    assert "it broke" in done.err
    assert "extra " in done.out


def test_hooks_are_listed_and_their_order_is_shown(dsh: Shell) -> None:
    assert "agent_prompt_submit" in dsh("hooks").out
    plugin = dsh.plugin(
        "@hookimpl(tryfirst=True)\ndef session_event(event): ...\n"
        "@hookimpl(wrapper=True)\nasync def tools_execute(call): yield"
    )
    lines = dsh("hooks", "order", "session_event", "-e", plugin).out.splitlines()
    assert "extra" in [line.split()[1] for line in lines[1:]]
    assert any("tryfirst" in line for line in lines)
    assert "wrapper" in dsh("hooks", "order", "tools_execute", "-e", plugin).out
    done = dsh("hooks", "order", "session_evnt")
    assert (done.code, "did you mean session_event?" in done.err) == (2, True)


def test_settings_are_shown(dsh: Shell) -> None:
    assert 'model = "a/b"' in dsh("config", "dump", "--config", "model=a/b").out
    assert "config.toml" in dsh("config", "path").out


def test_a_plugin_brings_a_command(dsh: Shell) -> None:
    plugin = dsh.plugin(
        "@hookimpl\ndef dsh_add_commands(commands):\n"
        "    commands.add('greet', 'say hello', run, lambda parser: parser.add_argument('--name', default='you'))\n"
        "def run(args, config):\n    print('hello', args.name, config.model)\n    return 7"
    )
    done = dsh("greet", "--name", "me", "-e", plugin, "--config", "model=a/b")
    assert (done.code, done.out) == (7, "hello me a/b\n")
    assert dsh("-e", plugin, "greet").out == "hello you \n"
    assert "say hello" in dsh("--help", "--all", "-e", plugin).out
    assert "hello" not in dsh("greet").out  # without the plugin it is the beginning of a conversation


def test_leaving_a_guard_out_is_said(dsh: Shell) -> None:
    home = dsh.folder.parent / "home" / "dsh"
    home.mkdir()
    (home / "config.toml").write_text('[plugins]\nrequired = ["shell", "audit"]')
    done = dsh("-p", "x")
    assert (done.code, "audit" in done.err) == (2, True)
    done = dsh("-p", "x", "-q", "--no-plugin", "audit", "--no-plugin", "shell", "--no-plugin", "fils")
    assert done.code == 0
    assert "running without the guard shell" in done.err
    assert "--no-plugin fils: there is no such plugin, did you mean files?" in done.err


def test_safe_mode_leaves_third_parties_out(dsh: Shell) -> None:
    (dsh.folder.parent / "home" / "dsh").mkdir()
    (dsh.folder.parent / "home" / "dsh" / "mine.py").write_text(
        "from dsh import Block, hookimpl\n@hookimpl\ndef agent_prompt_submit(): return Block('mine')"
    )
    (dsh.folder.parent / "home" / "dsh" / "config.toml").write_text('[plugins]\nload = ["./mine.py"]')
    assert dsh("-p", "x").code == 3
    assert dsh("-p", "x", "--safe-mode").code == 0


# -- the server that checks histories as the real services do


@pytest.mark.skipif(not FAKESRV.exists(), reason="../shared/tools/fakesrv.py is not here")
def test_histories_are_what_services_take(dsh: Shell, tmp_path: Path) -> None:
    script = [
        {"text": "Looking.", "calls": [["@shell", {"command": "seq 3"}], ["@shell", {"command": "exit 3"}]]},
        {"calls": [{"name": "@shell", "raw": '{"command": '}]},
        {"text": "done"},
        {"text": "again"},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    command = [sys.executable, str(FAKESRV), str(tmp_path / "script.json"), "--port", "0", "--map", "shell=bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"{server.stdout.readline().strip()}/v1"
            assert dsh("-p", "x", DEEPSEEK_BASE_URL=url).out == "done\n"
            assert dsh("-p", "y", "-c", DEEPSEEK_BASE_URL=url).out == "again\n"
        finally:
            server.kill()


def test_an_answer_without_words_is_said(dsh: Shell, model: Model) -> None:
    model.replies += [{"text": " "}]
    done = dsh("-p", "say nothing")
    assert done.code == 0
    assert "the model answered nothing" in done.err
