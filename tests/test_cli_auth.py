"""``dsh auth check``: what is wrong with a provider is told apart, what to do is said, and no key is shown."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dsh.cli import main
from dsh.cli.probe import STATUSES

KEY = "sk-test-0123456789abcdef"
Serving: TypeAlias = Callable[[dict[str, Any]], AbstractContextManager[str]]
Answer: TypeAlias = tuple[int, str, bytes]
MODELS = {"data": [{"id": "large"}, {"id": "small"}]}
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"ok"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def speaks(_: BaseHTTPRequestHandler) -> Answer:
    return 200, "text/event-stream", STREAM


def refusing(status: int, message: str, **more: str) -> Callable[[BaseHTTPRequestHandler], Answer]:
    """Refuses, and repeats the key that it was given, as some services do."""

    def answer(request: BaseHTTPRequestHandler) -> Answer:
        given = request.headers.get("authorization") or request.headers.get("x-api-key") or ""
        error = {"message": f"{message} {given}".strip(), **more}
        return status, "application/json", json.dumps({"error": error}).encode()

    return answer


def with_key(answer: Any) -> Callable[[BaseHTTPRequestHandler], Answer]:
    """Answers only those who have the key."""

    def guarded(request: BaseHTTPRequestHandler) -> Answer:
        if request.headers["authorization"] != f"Bearer {KEY}":
            return refusing(401, "Incorrect API key")(request)
        return answer(request) if callable(answer) else (200, "application/json", json.dumps(answer).encode())

    return guarded


@pytest.fixture
def check(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Check a service at an address; gives the record, after both forms of output were looked at."""

    def check(url: str | None, *, key: str | None = KEY, target: str = "house", more: str = "") -> dict[str, Any]:
        if url is not None:
            settings = f'[providers.house]\nbase_url = "{url}"\nkey_env = "HOUSE_KEY"\n{more}\n'
            (home / "config.toml").write_text(settings)
        if key is not None:
            monkeypatch.setenv("HOUSE_KEY", key)
        code = main(["auth", "check", target, "--json"])
        captured = capsys.readouterr()
        record: dict[str, Any] = json.loads(captured.out)
        assert main(["auth", "check", target]) == code == record["exit_code"] == STATUSES[record["status"]]
        text = capsys.readouterr()
        assert record["message"] in text.out
        assert record["advice"] in text.out
        assert record["ok"] == (code == 0)
        assert bool(record["advice"]) != record["ok"]
        if key is not None and key.strip():
            assert key not in captured.out + captured.err + text.out + text.err
        return record

    return check


def test_a_good_key_is_fine(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"GET /v1/models": with_key(MODELS)}) as url:
        found = check(f"{url}/v1")
    assert found["status"] == "ok"
    assert found["message"] == f"house at {url}/v1: fine: the key in HOUSE_KEY is accepted, 2 models"
    assert (found["models"], found["key_env"], found["base_url"]) == (2, "HOUSE_KEY", f"{url}/v1")


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key(check: Callable[..., Any], serving: Serving, key: str | None) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        found = check(f"{url}/v1", key=key)
    assert found["status"] == "no_key"
    assert found["message"] == "house: there is no key; set HOUSE_KEY"
    assert "export HOUSE_KEY=" in found["advice"]


def test_a_key_that_cannot_be_sent(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        found = check(f"{url}/v1", key="sk-with a space")
    assert found["status"] == "no_key"
    assert "HOUSE_KEY holds no key" in found["message"]


def test_a_service_that_wants_a_key_where_none_was_named(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"GET /v1/models": with_key(MODELS)}) as url:
        found = check(f"{url}/v1", more="").copy()
        assert found["status"] == "ok"
    with serving({"GET /v1/models": with_key(MODELS)}) as url:
        other = check(f"{url}/v1", target="open", more=f'[providers.open]\nbase_url = "{url}/v1"')
    assert other["status"] == "no_key"
    assert "key_env" in other["advice"]


def test_a_bad_key(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"GET /v1/models": with_key(MODELS)}) as url:
        found = check(f"{url}/v1", key="sk-wrong-0123456789")
    assert found["status"] == "bad_key"
    assert "***" in found["message"]
    assert "HOUSE_KEY" in found["advice"]


def test_a_bad_key_where_everybody_may_read_the_list_of_models(check: Callable[..., Any], serving: Serving) -> None:
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": with_key(speaks)}
    with serving(routes) as url:
        assert check(f"{url}/v1", key="sk-wrong-0123456789")["status"] == "bad_key"
        assert check(f"{url}/v1")["status"] == "ok"


def test_a_key_that_may_not_list_models_and_may_ask_them_is_fine(check: Callable[..., Any], serving: Serving) -> None:
    routes = {"GET /v1/models": refusing(403, "no scope"), "POST /v1/chat/completions": speaks}
    with serving(routes) as url:
        assert check(f"{url}/v1", more='models = ["large"]')["status"] == "ok"


def test_an_account_without_credit(check: Callable[..., Any], serving: Serving) -> None:
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": refusing(429, "", code="insufficient_quota")}
    with serving(routes) as url:
        assert check(f"{url}/v1")["status"] == "no_credit"


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("http://127.0.0.1:9/v1", "refused"),
        ("https://no-such-host.invalid/v1", "dns"),
    ],
)
def test_what_keeps_us_from_the_service_is_told_apart(check: Callable[..., Any], url: str, cause: str) -> None:
    found = check(url)
    assert (found["status"], found["cause"]) == ("unreachable", cause)


def test_a_service_that_does_not_answer(check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh.cli.probe.SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = check(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
    assert (found["status"], found["cause"]) == ("unreachable", "timeout")


def test_a_service_without_tls_at_an_https_address(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        found = check(f"{url.replace('http:', 'https:')}/v1")
    assert (found["status"], found["cause"]) == ("unreachable", "tls")
    assert "http://" in found["advice"]


def test_a_proxy_that_does_not_let_it_through(
    check: Callable[..., Any], serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    found = check("https://api.example.invalid/v1")
    assert (found["status"], found["cause"]) == ("unreachable", "proxy")


@pytest.mark.parametrize(
    "routes",
    [
        {},
        {"GET /models": lambda _: (200, "text/html", b"<html><body>Welcome</body></html>")},
        {
            "GET /models": lambda _: (200, "text/html", b"<html>hello</html>"),
            "POST /chat/completions": lambda _: (200, "text/html", b"<html>hello</html>"),
        },
        {
            "GET /models": lambda _: (301, "text/html", b"moved"),
            "POST /chat/completions": lambda _: (405, "text/html", b"<h1>Method Not Allowed</h1>"),
        },
    ],
)
@pytest.mark.parametrize("more", ["", 'models = ["large"]'])
def test_a_wrong_base_url(check: Callable[..., Any], serving: Serving, routes: dict[str, Any], more: str) -> None:
    with serving(routes) as url:
        found = check(url, more=more)
    assert found["status"] == "wrong_url"
    assert "base_url" in found["advice"]
    assert url in found["advice"]


def test_a_service_without_a_list_of_models_is_asked_for_a_token(check: Callable[..., Any], serving: Serving) -> None:
    with serving({"POST /v1/chat/completions": with_key(speaks)}) as url:
        assert check(f"{url}/v1", more='models = ["large"]')["status"] == "ok"
        assert check(f"{url}/v1", more='models = ["large"]', key="sk-wrong-0123456789")["status"] == "bad_key"


@pytest.mark.parametrize("has_list", [True, False])
def test_an_unknown_model(check: Callable[..., Any], serving: Serving, has_list: bool) -> None:
    routes: dict[str, Any] = {"POST /v1/chat/completions": refusing(404, "The model `larg` does not exist")}
    if has_list:
        routes["GET /v1/models"] = with_key(MODELS)
    with serving(routes) as url:
        found = check(f"{url}/v1", target="house/larg")
    assert found["status"] == "unknown_model"
    assert "dsh models house" in found["advice"]
    assert ("did you mean large?" in found["advice"]) == has_list


def test_a_model_that_the_list_leaves_out_may_be_there_all_the_same(
    check: Callable[..., Any], serving: Serving
) -> None:
    with serving({"GET /v1/models": with_key(MODELS), "POST /v1/chat/completions": speaks}) as url:
        assert check(f"{url}/v1", target="house/alias")["status"] == "ok"


@pytest.mark.parametrize(("status", "message"), [(503, "overloaded"), (500, "oops"), (429, "slow down")])
def test_a_service_that_has_trouble_is_no_fault_of_the_key(
    check: Callable[..., Any], serving: Serving, status: int, message: str
) -> None:
    with serving({"GET /v1/models": refusing(status, message)}) as url:
        assert check(f"{url}/v1")["status"] == "unavailable"


def test_a_request_that_is_refused_is_none_of_these(check: Callable[..., Any], serving: Serving) -> None:
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": refusing(400, "max_tokens is too small")}
    with serving(routes) as url:
        assert check(f"{url}/v1")["status"] == "refused"


def test_what_dsh_itself_lacks_is_no_fault_of_the_service(
    check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    found = check("http://service.invalid/v1")
    assert found["status"] == "not_ready"
    assert "proxy" in found["message"]


def test_services_of_anthropics_kind(
    check: Callable[..., Any], serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def models(request: BaseHTTPRequestHandler) -> Answer:
        if request.headers["x-api-key"] != KEY:
            return refusing(401, "invalid x-api-key")(request)
        return 200, "application/json", json.dumps(MODELS).encode()

    with serving({"GET /v1/models?limit=1000": models}) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        assert check(None, target="anthropic")["status"] == "ok"
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-0123456789")
        assert check(None, target="anthropic")["status"] == "bad_key"


def test_without_a_name_everything_that_is_configured_is_checked(
    home: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["auth", "check", "--no-plugin", "local", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == []
    with serving({"GET /v1/models": with_key(MODELS)}) as url:
        for name, key in (("GROQ", KEY), ("MISTRAL", "sk-wrong-0123456789")):
            monkeypatch.setenv(f"{name}_API_KEY", key)
            monkeypatch.setenv(f"{name}_BASE_URL", f"{url}/v1")
        assert main(["auth", "check", "--no-plugin", "local", "--json"]) == 1
    found = {record["provider"]: record["status"] for record in json.loads(capsys.readouterr().out)}
    assert found == {"groq": "ok", "mistral": "bad_key"}


def test_a_provider_that_there_is_not_is_a_mistake(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["auth", "check", "openia"]) == 2
    assert "did you mean openai?" in capsys.readouterr().err
