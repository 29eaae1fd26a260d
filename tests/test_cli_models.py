"""``dsh models``: what is listed, who says so, and what is said where nobody does."""

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

KEY = "sk-test-0123456789abcdef"
Serving: TypeAlias = Callable[[dict[str, Any]], AbstractContextManager[str]]


def configure(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["models", *argv, "--json"]) == 0
    return {row["id"]: row for row in json.loads(capsys.readouterr().out)}


MODELS = {
    "object": "list",
    "data": [
        {"id": "large", "context_window": 131072, "max_completion_tokens": 8192},
        {"id": "small", "max_model_len": 4096},
        {"id": "mystery"},
    ],
}
HOUSE = """
[providers.house]
base_url = "{url}/v1"
models = ["large", "secret"]

[models."house/large"]
max_output = 1000
price = {{ input = 0.5, output = 1.5 }}

[models."house/tuned"]
context_window = 2048
"""


def test_the_server_dsh_and_the_settings_each_add_what_they_know(
    home: Path, serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        configure(home, HOUSE.format(url=url))
        rows = listed(capsys, "house")

    assert list(rows) == ["house/large", "house/small", "house/mystery", "house/secret", "house/tuned"]
    large = rows["house/large"]
    assert (large["context_window"], large["max_output"]) == (131072, 1000)
    assert large["price"] == {"input": 0.5, "output": 1.5, "cache_read": None, "cache_write": None}
    assert large["sources"] == {"context_window": "server", "max_output": "config", "price": "config"}
    assert large["listed_by"] == ["server", "dsh", "config"]
    assert rows["house/small"]["context_window"] == 4096
    assert rows["house/tuned"]["context_window"] == 2048
    nothing: dict[str, Any] = {"context_window": None, "max_output": None, "price": None, "sources": {}}
    assert {key: rows["house/mystery"][key] for key in nothing} == nothing


def test_unknown_says_unknown(home: Path, serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        configure(home, HOUSE.format(url=url))
        assert main(["models", "house"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "model"
    table = {line.split()[0]: line.split()[1:] for line in lines}
    assert table["house/large"] == ["131072", "1000", "0.5", "1.5", "server,", "dsh,", "config"]
    assert table["house/mystery"] == ["unknown"] * 4 + ["server"]


def test_a_part_of_a_name_narrows_the_list(home: Path, serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        configure(home, HOUSE.format(url=url))
        assert list(listed(capsys, "house/MALL")) == ["house/small"]
        assert listed(capsys, "house/nothing") == {}


def test_without_a_name_all_providers_that_can_be_asked_are_listed(
    home: Path, serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({"GET /v1/models": MODELS}) as url:
        configure(home, HOUSE.format(url=url))
        monkeypatch.setenv("GROQ_API_KEY", KEY)
        monkeypatch.setenv("GROQ_BASE_URL", f"{url}/v1")
        providers = {row["provider"] for row in listed(capsys, "--no-plugin", "local").values()}
    assert providers == {"house", "groq"}


def test_without_a_key_the_names_that_dsh_knows_are_listed_and_it_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "deepseek"]) == 0
    captured = capsys.readouterr()
    assert "deepseek/deepseek-v4-flash" in captured.out
    assert "deepseek is not asked: there is no key; set DEEPSEEK_API_KEY" in captured.err


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (lambda _: (500, "text/plain", b"oh no"), "oh no (HTTP 500"),
        (lambda _: (200, "text/html", b"<html>hello</html>"), "cannot be understood"),
        (lambda _: (200, "application/json", b'{"hello": 1}'), "no list of models"),
        (lambda _: (200, "application/json", b'{"error": {"message": "not today"}}'), "house: not today"),
        (
            lambda _: (401, "application/json", b'{"error": {"message": "bad key ' + KEY.encode() + b'"}}'),
            "bad key ***",
        ),
        (None, "HTTP 404"),
    ],
)
def test_a_server_that_has_no_list_is_a_note_and_what_is_known_is_listed(
    home: Path,
    serving: Serving,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    route: Any,
    said: str,
) -> None:
    with serving({} if route is None else {"GET /v1/models": route}) as url:
        configure(home, HOUSE.format(url=url).replace("models =", 'key_env = "HOUSE_KEY"\nmodels =', 1))
        monkeypatch.setenv("HOUSE_KEY", KEY)
        assert main(["models", "house"]) == 0
    captured = capsys.readouterr()
    assert said in captured.err
    assert KEY not in captured.err + captured.out
    assert "house/secret" in captured.out


def test_a_server_of_which_nothing_is_known_and_that_does_not_answer_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, '[providers.house]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert main(["models", "house"]) == 75
    assert "house (127.0.0.1:9) cannot be reached" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_not_waited_for(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh.cli.catalogue.SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(home, HOUSE.format(url=f"http://127.0.0.1:{silent.getsockname()[1]}"))
        assert main(["models", "house"]) == 0
    captured = capsys.readouterr()
    assert "house did not say in time which models it has" in captured.err
    assert "house/secret" in captured.out


def test_a_provider_that_there_is_not_is_a_mistake(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "deepsek"]) == 2
    assert "there is no provider 'deepsek', did you mean deepseek?" in capsys.readouterr().err


def test_without_any_provider_it_says_how_to_get_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--no-plugin", "local"]) == 2
    err = capsys.readouterr().err
    assert "no model is configured" in err
    assert "`dsh models PROVIDER` lists what dsh knows of one: anthropic" in err


def test_the_data_set_is_asked_last(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("genai_prices", reason="the data set is not installed (the extra `prices`)")
    configure(home, '[models."openai/gpt-5-mini"]\ncontext_window = 1000\n')
    row = listed(capsys, "openai")["openai/gpt-5-mini"]
    assert row["context_window"] == 1000
    assert row["price"]["input"] > 0
    assert row["sources"] == {"context_window": "config", "price": "data set"}


def test_services_of_anthropics_kind_list_theirs(
    home: Path, serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        keys.append(request.headers["x-api-key"])
        return 200, "application/json", json.dumps({"data": [{"type": "model", "id": "claude-x"}]}).encode()

    with serving({"GET /v1/models?limit=1000": answer}) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        rows = listed(capsys, "anthropic")
    assert rows["anthropic/claude-x"]["listed_by"] == ["server"]
    assert keys == [KEY]


def test_pages_of_models_are_turned_also_when_they_never_end(
    home: Path, serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def page(request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        asked.append(request.path)
        data = [{"id": f"claude-{len(asked)}"}]
        return 200, "application/json", json.dumps({"data": data, "has_more": True, "last_id": "a b"}).encode()

    first = "/v1/models?limit=1000"
    with serving({f"GET {first}": page, f"GET {first}&after_id=a%20b": page}) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        rows = listed(capsys, "anthropic")
    assert {f"anthropic/claude-{n}" for n in range(1, len(asked) + 1)} <= set(rows)
    assert 2 < len(asked) < 50


def test_numbers_in_text_are_numbers(home: Path, serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({"GET /v1/models": {"data": [{"id": "m", "context_length": "8192", "max_tokens": "many"}]}}) as url:
        configure(home, f'[providers.house]\nbase_url = "{url}/v1"\n')
        row = listed(capsys, "house")["house/m"]
    assert (row["context_window"], row["max_output"]) == (8192, None)
