"""``--effort``: what the service is told, what the log keeps, and what is said of a level that a model lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsh import AgentOptions, Config
from dsh.cli import main, parser
from dsh.messages import EFFORTS
from dsh.testing import ScriptedModel, memory_harness, text

ANSWER = {"text": "done"}


def efforts(ran: Any) -> list[str | None]:
    return [request["body"].get("reasoning_effort") for request in ran.requests]


def logged(ran: Any) -> list[str | None]:
    """The effort in each header of the log."""
    found = [data["header"]["config"] for data in ran.data("request/header")]
    found += [data["config"] for data in ran.data("request/header-delta") if "config" in data]
    return [config.get("reasoningEffort") for config in found]


def test_the_flag_reaches_the_service_and_the_log(stage: Any) -> None:
    with stage.serving(stage.script(ANSWER)):
        ran = stage.run("go", "--effort", "high")
    assert (ran.code, efforts(ran), logged(ran)) == (0, ["high"], ["high"])


def test_without_it_nothing_is_said(stage: Any) -> None:
    with stage.serving(stage.script(ANSWER)):
        ran = stage.run("go")
    assert (ran.code, efforts(ran), logged(ran)) == (0, [None], [None])


def test_a_setting_says_it_and_the_flag_goes_before(stage: Any) -> None:
    stage.home.mkdir()
    (stage.home / "config.toml").write_text('effort = "low"\n')
    with stage.serving(stage.script(ANSWER, ANSWER)):
        assert efforts(stage.run("go")) == ["low"]
        assert efforts(stage.run("go", "-c", "--effort", "medium")) == ["low", "medium"]


def test_a_session_that_goes_on_keeps_its_effort(stage: Any) -> None:
    with stage.serving(stage.script(ANSWER, ANSWER, ANSWER)):
        stage.run("go", "--effort", "high")
        running = stage.start("-p", "go on", "-c")
        ran = stage.end(running)
        assert efforts(ran) == ["high", "high"]
        assert logged(ran) == ["high", "high"]
        running = stage.start("-p", "go on", "-c", "--effort", "low")
        assert efforts(stage.end(running)) == ["high", "high", "low"]


def test_a_model_that_takes_none_is_asked_without_and_it_is_said(stage: Any) -> None:
    stage.home.mkdir()
    (stage.home / "config.toml").write_text('[providers.openai]\neffort_field = ""\n')
    with stage.serving(stage.script(ANSWER)):
        ran = stage.run("go", "--effort", "high")
    assert (ran.code, efforts(ran)) == (0, [None])
    assert "dsh: scripted cannot be told how much to think; it is asked without an effort" in ran.err


def test_a_service_that_refuses_it_is_asked_once(stage: Any) -> None:
    error = {"error": {"message": "reasoning_effort: unsupported value 'max'", "type": "invalid_request_error"}}
    with stage.serving(stage.script({"status": 400, "body": json.dumps(error), "repeat": True})):
        ran = stage.run("go", "--effort", "max")
    assert (ran.code, len(ran.requests)) == (1, 1)
    assert "unsupported value 'max'" in ran.err


@pytest.mark.parametrize("argv", [["--effort", "hihg"], ["--config", "effort=hihg"], ["--config", "effort=3"]])
def test_a_level_that_there_is_not_is_a_mistake(home: Any, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert main(["-p", "go", *argv]) == 2
    assert "effort" in capsys.readouterr().err


def test_the_command_line_knows_every_level() -> None:
    assert parser.EFFORTS == EFFORTS


async def test_a_program_says_it_in_the_settings_or_in_an_agents_options() -> None:
    config = Config(model="scripted/model", effort="low")
    model = ScriptedModel(text("one"), text("two"), text("three"))
    async with memory_harness(model=model, config=config) as harness:
        await harness.create_agent().agent.run("go")
        options = AgentOptions(model="scripted/model", reasoning_effort="high")
        await harness.create_agent(options=options).agent.run("go")
        await harness.create_agent(options=AgentOptions(model="scripted/model")).agent.run("go")
    assert [request.reasoning_effort for request in model.requests] == ["low", "high", None]
