"""``--fallback-model``: a provider that cannot answer, and the run that goes on with another."""

from __future__ import annotations

import json
from typing import Any

import pytest

DOWN = {"status": 503, "body": json.dumps({"error": {"message": "the model is overloaded"}})}
ANSWER = {"text": "from the spare"}
ONCE = ("--config", "retry.tries=1")


@pytest.fixture
def spare(stage: Any) -> Any:
    """The stage, with a second provider at the same server."""
    original = stage.serving

    def settings() -> None:
        stage.home.mkdir(exist_ok=True)
        url = f'base_url = "{stage.url}/v1"'
        text = f"[providers.spare]\n{url}\n[providers.keyless]\n{url}\nkey_env = 'DSH_NO_SUCH_KEY'\n"
        (stage.home / "config.toml").write_text(text)

    class Spare:
        def __getattr__(self, name: str) -> Any:
            return getattr(stage, name)

        def run(self, *arguments: str) -> Any:
            settings()
            return stage.run(*arguments)

        def go_on(self, *arguments: str) -> Any:
            settings()
            return stage.end(stage.start("-p", "go on", "-c", *arguments))

    del original
    return Spare()


def asked(ran: Any) -> list[str]:
    return [request["body"]["model"] for request in ran.requests]


def test_the_run_goes_on_with_the_next_model_and_says_so(spare: Any) -> None:
    with spare.serving(spare.script(DOWN, DOWN, ANSWER)):
        ran = spare.run("go", "--fallback-model", "spare/second", "--config", "retry={tries=2,base_ms=1}")
    assert (ran.code, ran.out) == (0, "from the spare\n")
    assert asked(ran) == ["scripted", "scripted", "second"]
    assert "[fallback] going on with spare/second: openai: the model is overloaded (HTTP 503" in ran.err
    (switch,) = ran.data("fallback/switch")
    assert (switch["failed"], switch["model"], switch["first"]) == (
        "openai/scripted",
        "spare/second",
        "openai/scripted",
    )


def test_when_all_fail_the_exit_code_is_75(spare: Any) -> None:
    with spare.serving(spare.script({**DOWN, "repeat": True})):
        ran = spare.run("go", "--fallback-model", "spare/b,spare/c", *ONCE, "--json")
    assert ran.code == 75
    assert asked(ran) == ["scripted", "b", "c"]
    error = json.loads(ran.out)["error"]
    assert error["code"] == "UNAVAILABLE"
    assert [name in error["message"] for name in ("openai/scripted:", "spare/b:", "spare/c:")] == [True] * 3


def test_an_account_without_credit_makes_room_too_and_all_of_them_are_75(spare: Any) -> None:
    empty = {"status": 402, "body": json.dumps({"error": {"message": "no credit"}})}
    with spare.serving(spare.script(empty, empty)):
        ran = spare.run("go", "--fallback-model", "spare/b")
    assert (ran.code, asked(ran)) == (75, ["scripted", "b"])


def test_a_resumed_session_begins_with_the_first_model_and_may_fall_back_again(spare: Any) -> None:
    with spare.serving(spare.script(DOWN, ANSWER, DOWN, ANSWER, {"text": "the first is back"})):
        spare.run("go", "--fallback-model", "spare/b", *ONCE)
        ran = spare.go_on("--fallback-model", "spare/b", *ONCE)
        assert (ran.code, ran.out) == (0, "from the spare\n")
        ran = spare.go_on(*ONCE)
    assert (ran.code, ran.out) == (0, "the first is back\n")
    assert asked(ran) == ["scripted", "b", "scripted", "b", "scripted"]


def test_an_answer_that_broke_off_in_sight_is_not_continued_by_another_model(spare: Any) -> None:
    with spare.serving(
        spare.script({"text": "a long answer that breaks off", "cut_after": ["breaks", "event"]}, ANSWER)
    ):
        ran = spare.run("go", "--fallback-model", "spare/b", *ONCE)
    assert (ran.code, asked(ran)) == (75, ["scripted"])


def test_the_setting_does_the_same(spare: Any) -> None:
    with spare.serving(spare.script(DOWN, ANSWER)):
        ran = spare.run("go", "--config", "fallback.models=['spare/b']", *ONCE)
    assert (ran.code, asked(ran)) == (0, ["scripted", "b"])


def test_a_provider_that_there_is_not_is_a_mistake_and_one_without_a_key_is_left_out(spare: Any) -> None:
    with spare.serving(spare.script(DOWN, ANSWER)):
        wrong = spare.run("go", "--fallback-model", "spaer/b")
        assert wrong.code == 2
        assert "no provider serves 'spaer/b'" in wrong.err
        ran = spare.run("go", "--fallback-model", "keyless/b,spare/c", *ONCE)
    assert (ran.code, asked(ran)) == (0, ["scripted", "c"])
    assert "the fallback model keyless/b is left out: there is no key; set DSH_NO_SUCH_KEY" in ran.err


def test_the_flag_is_not_forgotten_with_its_plugin(spare: Any) -> None:
    with spare.serving(spare.script(ANSWER)):
        ran = spare.run("go", "--fallback-model", "spare/b", "--no-plugin", "fallback")
    assert ran.code == 2
    assert "--fallback-model needs the plugin fallback, which is not loaded" in ran.err
    assert ran.requests == []
