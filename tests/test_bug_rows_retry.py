"""Faults of other harnesses about failing services: what is tried again, what is not, and what stays secret.

The rows are those of ``bugs/bugs.md`` in the shared material; each runs the whole command.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")


@pytest.fixture
def place(stage: Any) -> Any:
    """A stage without any proxies of this machine's."""
    stage.env |= {name: "" for proxy in PROXIES for name in (proxy, proxy.upper())}
    return stage


def test_q01_the_service_says_how_long_to_wait(place: Any) -> None:
    with place.serving("Q01"):
        done = place.run("go")
        assert (done.code, done.out) == (0, "done\n")
        first, second, third = (request["t"] for request in done.requests)
        assert second - first >= 3
        assert third - second >= 1.5
        assert [wait["waitMs"] for wait in done.data("retry/wait")] == [3000, 1500]
        assert "[retry] try 2 of 5 in 3.0 s: openai: Rate limit reached (HTTP 429)" in done.err


def test_q01_an_interrupt_ends_the_wait(place: Any) -> None:
    script = place.script({"status": 429, "headers": {"retry-after": "200"}, "body": "{}"})
    with place.serving(script):
        running = place.prompt("go")
        while "[retry] try 2" not in running.stderr.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        done = place.end(running)
        assert done.code == 130
        assert done.ends == ["aborted"]
        assert len(done.requests) == 1


def test_q01_a_date_and_a_wait_that_is_too_long(place: Any) -> None:
    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 7200))
    script = place.script({"status": 503, "headers": {"retry-after": when}, "body": "{}"})
    with place.serving(script):
        done = place.run("go")
        assert done.code == 75
        assert "gave up: the service asks to wait 7" in done.err
        assert len(done.requests) == 1


def test_q02_no_credit_is_said_at_once(place: Any) -> None:
    with place.serving("Q02"):
        done = place.run("go")
        assert done.code in (1, 75)
        assert "You exceeded your current quota" in done.err
        assert len(done.requests) == 1
        assert done.data("retry/wait") == []


def test_it_gives_up_with_75_and_quiet_is_quiet(place: Any) -> None:
    script = place.script({"status": 503, "body": '{"error":{"message":"Down"}}', "repeat": True})
    with place.serving(script):
        done = place.run("go", "-q", "--config", "retry.tries=3", "--config", "retry.base_ms=10")
        assert done.code == 75
        assert done.err == "dsh: openai: Down (HTTP 503) (gave up after 3 tries)\n"
        assert len(done.requests) == 3


def test_s10_a_connection_that_drops_in_the_answer(place: Any) -> None:
    """What came is kept and marked, it is not asked for again, and the session can go on."""
    with place.serving("S10"):
        done = place.run("go")
        assert done.code == 75
        assert "broke off in the middle of the answer" in done.err
        assert "not tried again" in done.err
        (message,) = done.data("assistant/message")
        assert message["interrupted"] is True
        assert "some text".startswith(message["content"][0]["text"][:9])
        again = place.run("go", "-c")
        assert (again.code, again.out) == (0, "recovered\n")


def test_s11_an_empty_answer_is_asked_for_again(place: Any) -> None:
    with place.serving("S11"):
        done = place.run("go", "--config", "retry.base_ms=10")
        assert (done.code, done.out) == (0, "hello\n")
        assert [wait["code"] for wait in done.data("retry/wait")] == ["EMPTY_RESPONSE"] * 2
        assert all(message["role"] != "assistant" for message in done.requests[2]["body"]["messages"])


def test_s11_an_answer_that_stays_empty(place: Any) -> None:
    script = place.script({"raw": "", "repeat": True})
    with place.serving(script):
        done = place.run("go", "--config", "retry.base_ms=10")
        assert done.code == 75
        assert "sent an empty answer (gave up after 5 tries)" in done.err
        assert len(done.requests) == 5
        assert done.data("assistant/message") == []


@pytest.mark.parametrize("variable", ["ALL_PROXY", "HTTP_PROXY"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
def test_n01_n02_n03_a_proxy_that_cannot_be_used(place: Any, variable: str, scheme: str) -> None:
    """It is a mistake in the settings: said once, with the way out, and not tried again."""
    with place.serving("N04"):
        place.env[variable] = place.env[variable.lower()] = f"{scheme}://127.0.0.1:1"
        done = place.run("go")
        assert done.code == 2
        assert f"{scheme}://" in done.err
        assert "proxy" in done.err
        assert variable in done.err
        assert done.data("retry/wait") == []
        assert done.requests == []


def test_n01_help_needs_no_proxy(place: Any) -> None:
    place.env["ALL_PROXY"] = place.env["all_proxy"] = "socks5://127.0.0.1:1"
    done = place.end(place.start("--help"))
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("excepted", ["127.0.0.1,localhost", "*"])
def test_n04_a_server_here_is_asked_directly(place: Any, excepted: str) -> None:
    with place.serving("N04"):
        place.env |= {"http_proxy": "http://127.0.0.1:9", "no_proxy": excepted}
        done = place.run("go")
        assert (done.code, done.out) == (0, "done\n")


@pytest.mark.parametrize("ending", ["\r", "\n", "\r\n"])
def test_g06_a_key_is_in_no_message(place: Any, ending: str) -> None:
    refusal = {"status": 401, "body": json.dumps({"error": {"message": "Incorrect API key: sk-test-123456"}})}
    script = place.script({**refusal, "repeat": True})
    with place.serving(script):
        place.env["OPENAI_API_KEY"] = f"sk-test-123456{ending}"
        done = place.run("go", "--debug")
        assert done.code in (1, 2)
        assert len(done.requests) <= 1
        kept = [path.read_text() for path in place.home.rglob("*") if path.is_file()]
        assert "sk-test-123" not in "".join([done.out, done.err, *kept])
