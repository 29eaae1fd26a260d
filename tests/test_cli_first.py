"""The first start: a person without any settings is asked what is needed, and nothing else."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dsh.cli import main
from dsh.testing.screen import Screen

KEY = "sk-first-0123456789abcdef"
Serving: TypeAlias = Callable[[dict[str, Any]], AbstractContextManager[str]]
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"hello to you"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def guarded(kind: str, answer: bytes) -> Callable[[BaseHTTPRequestHandler], tuple[int, str, bytes]]:
    def respond(request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        if request.headers["authorization"] != f"Bearer {KEY}":
            return 401, "application/json", b'{"error": {"message": "Incorrect API key"}}'
        return 200, kind, answer

    return respond


def routes(*models: str) -> dict[str, Any]:
    listed = json.dumps({"data": [{"id": name} for name in models]}).encode()
    return {
        "GET /v1/models": guarded("application/json", listed),
        "POST /v1/chat/completions": guarded("text/event-stream", STREAM),
    }


@contextmanager
def sitting(home: Path, *words: str, columns: int = 80) -> Iterator[Screen]:
    """``dsh`` at a terminal, without anything that would tell it a model."""
    size = f"fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, {columns}, 0, 0))"
    start = f"import fcntl, os, struct, sys, termios; {size}; os.execvp(sys.argv[1], sys.argv[1:])"
    begin = [sys.executable, "-c", start]
    command = [*begin, sys.executable, "-m", "dsh", "--no-plugin", "local", *words]
    with Screen.of(command, Path.cwd(), {**os.environ, "TERM": "xterm"}) as screen:
        yield screen


def at(url: str, name: str = "deepseek", **more: str) -> list[str]:
    """Flags that move a service to another address."""
    table = {"base_url": f"{url}/v1", "key_env": "DEEPSEEK_API_KEY", **more}
    return [word for key, value in table.items() for word in ("--config", f"providers.{name}.{key}={value}")]


def test_two_answers_and_the_task_is_done(home: Path, serving: Serving) -> None:
    with serving(routes("deepseek-v4-flash")) as url, sitting(home, "-p", "hello", *at(url)) as screen:
        question = screen.until("Enter leaves): ").partition("No model")[2]
        assert len(question.splitlines()) <= 11
        screen.type("deepsek\n")
        screen.until("There is no deepsek, did you mean deepseek?")
        screen.until("Enter leaves): ")
        screen.type("2\n")
        screen.until("Key: ")
        screen.type("sk-wrong\n")
        screen.until("It was not kept; try again.")
        assert not (home / "credentials.toml").exists()
        screen.until("Key: ")
        screen.type(f"{KEY}\n")
        screen.until("From now on deepseek/deepseek-v4-flash is asked")
        code, out = screen.end()
    assert (code, out) == (0, "hello to you\n")
    assert KEY not in screen.shown
    assert f'DEEPSEEK_API_KEY = "{KEY}"' in (home / "credentials.toml").read_text()
    assert stat.S_IMODE((home / "credentials.toml").stat().st_mode) == 0o600
    assert '\nmodel = "deepseek/deepseek-v4-flash"\n' in (home / "config.toml").read_text()


def test_nothing_is_asked_a_second_time(home: Path, serving: Serving) -> None:
    with serving(routes("deepseek-v4-flash")) as url:
        with sitting(home, "-p", "hello", *at(url)) as screen:
            screen.until("Enter leaves): ")
            screen.type("deepseek\n")
            screen.until("Key: ")
            screen.type(f"{KEY}\n")
            assert screen.end()[0] == 0
        with sitting(home, "-p", "hello", *at(url)) as screen:
            assert screen.end() == (0, "hello to you\n")
    assert "No model is set up" not in screen.shown


def test_a_service_without_a_model_of_its_own_is_the_third_question(home: Path, serving: Serving) -> None:
    listed = {"GET /v1/models": {"data": [{"id": "large"}, {"id": "small"}]}}
    speaks = {"POST /v1/chat/completions": lambda _: (200, "text/event-stream", STREAM)}
    with (
        serving(listed | speaks) as url,
        sitting(home, "-p", "hello", "--config", f"providers.ollama.base_url={url}/v1") as screen,
    ):
        screen.until("Enter leaves): ")
        screen.type("ollama\n")
        screen.until("has: large, small")
        screen.until("(Enter takes large): ")
        screen.type("small\n")
        assert screen.end() == (0, "hello to you\n")
    assert '\nmodel = "ollama/small"\n' in (home / "config.toml").read_text()
    assert not (home / "credentials.toml").exists()


@pytest.mark.parametrize(("keys", "code"), [(["\n"], 2), (["1\n", "\n"], 2), (["\x03"], 130), (["1\n", "\x03"], 130)])
def test_who_leaves_has_changed_nothing(home: Path, keys: list[str], code: int) -> None:
    with sitting(home, "-p", "hello") as screen:
        for question, answer in zip(("Enter leaves): ", "Key: "), keys, strict=False):
            screen.until(question)
            screen.type(answer)
        assert screen.end() == (code, "")
        assert screen.mode == screen.before
    assert list(home.iterdir()) == []
    assert "Traceback" not in screen.shown


def test_settings_that_are_there_keep_what_stands_in_them(home: Path, serving: Serving) -> None:
    (home / "config.toml").write_text("# mine\n[hooks]  # also mine\ndeadline = 30\n")
    with serving(routes("deepseek-v4-flash")) as url, sitting(home, "-p", "hello", *at(url)) as screen:
        screen.until("Enter leaves): ")
        screen.type("deepseek\n")
        screen.until("Key: ")
        screen.type(f"{KEY}\n")
        assert screen.end()[0] == 0
    text = (home / "config.toml").read_text()
    assert text == '# mine\nmodel = "deepseek/deepseek-v4-flash"\n\n[hooks]  # also mine\ndeadline = 30\n'


def test_without_a_terminal_it_is_an_error_that_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "hello", "--no-plugin", "local"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "DEEPSEEK_API_KEY=" in shown.err
    assert "dsh auth set deepseek" in shown.err
    assert "pip install 'dsh-harness[local]'" in shown.err


@pytest.mark.parametrize("columns", [40, 80])
def test_the_questions_fit_the_terminal(home: Path, columns: int) -> None:
    with sitting(home, "-p", "hello", columns=columns) as screen:
        lines = screen.until("Enter leaves): ").splitlines()
        screen.type("deepseek\n")
        lines += screen.until("Key: ").splitlines()
        assert "https://platform.deepseek.com/api_keys" in screen.shown
        screen.type("\n")
        assert screen.end()[0] == 2
    assert len(lines) <= 30
    lines = [line for line in lines if not line.startswith("dsh: ") and str(home) not in line]
    assert max(map(len, lines)) < columns
    assert "lmstudio" in screen.shown


def test_from_nothing_to_the_first_file_that_was_allowed(home: Path, serving: Serving) -> None:
    call = {"name": "write", "arguments": json.dumps({"file_path": str(Path("hello.txt").absolute()), "content": "hi"})}
    delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}
    choices = [{"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    chunks = [json.dumps({"choices": [choice]}) for choice in choices]
    asking = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()
    answers = iter([asking, STREAM])
    speaks = {"POST /v1/chat/completions": lambda _: (200, "text/event-stream", next(answers))}
    with serving(routes("deepseek-v4-flash") | speaks) as url, sitting(home, "-p", "write", *at(url)) as screen:
        screen.until("Enter leaves): ")
        screen.type("2\n")
        screen.until("Key: ")
        screen.type(f"{KEY}\n")
        screen.until("DeepSeek accepts it.")
        screen.until("needs your approval")
        screen.until("[y/")
        screen.type("y\n")
        assert screen.end() == (0, "hello to you\n")
    assert Path("hello.txt").read_text() == "hi"


LOCAL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, text

class Small(ScriptedModel):
    configured = True
    default_model = "small"

@hookimpl
def llm_adapters(adapters):
    adapters.add("local", Small(text("small talk"), text("more"), text("more")))
"""


def test_a_conversation_asks_before_it_takes_the_small_model_for_granted(home: Path) -> None:
    Path("small.py").write_text(LOCAL)
    with sitting(home, "-e", "small.py", "hello") as screen:
        question = screen.until("Enter leaves): ")
        assert "6  a small model on this machine, to look around; it is here" in question
        screen.type("6\n")
        screen.until("From now on local is asked")
    assert '\nmodel = "local"\n' in (home / "config.toml").read_text()
    (home / "config.toml").unlink()
    with sitting(home, "-e", "small.py", "-p", "hello") as screen:  # one task is not worth a question
        assert screen.end() == (0, "small talk\n")
