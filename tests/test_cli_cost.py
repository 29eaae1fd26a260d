"""What a run cost, in its record and on stderr."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsh.cli.spent import dollars

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
WORK = {"calls": [["@noargs", {}]], "usage": USAGE}
DONE = {"text": "done", "usage": USAGE}
COST = 2 * (600 * 1.0 + 400 * 0.5 + 100 * 10.0) / 1e6


def priced(stage: Any) -> None:
    stage.home.mkdir(exist_ok=True)
    (stage.home / "config.toml").write_text(
        '[models."openai/scripted"]\nprice = { input = 1.0, output = 10.0, cache_read = 0.5 }\n'
    )


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_the_record_has_the_cost_of_all_requests(stage: Any, form: str) -> None:
    priced(stage)
    with stage.serving(stage.script(WORK, DONE)):
        ran = stage.run("go", "--output-format", form, "--permission-mode", "bypass")
    result = json.loads(ran.out.splitlines()[-1])
    assert result["type"] == "result"
    assert result["cost_usd"] == pytest.approx(COST)
    assert result["usage"]["input_tokens"] == 1200


def test_a_price_that_nobody_knows_is_null_and_no_guess(stage: Any) -> None:
    with stage.serving(stage.script(DONE)):
        ran = stage.run("go", "--json")
    assert json.loads(ran.out)["cost_usd"] is None


def test_more_on_stderr_says_what_it_cost(stage: Any) -> None:
    priced(stage)
    with stage.serving(stage.script(DONE, DONE, DONE)):
        assert "1000 tokens in, 100 out, $0.0018\n" in stage.run("go", "-v").err
        assert "1000 tokens in, 100 out\n" in stage.run("go", "-c").err
        (stage.home / "config.toml").write_text("")
        assert "1000 tokens in, 100 out, cost unknown\n" in stage.run("go", "-c", "-v").err


def test_a_failed_run_tells_what_it_cost_until_then(stage: Any) -> None:
    priced(stage)
    with stage.serving(stage.script(WORK, {"status": 400, "body": "{}"})):
        ran = stage.run("go", "--json", "--permission-mode", "bypass")
    assert ran.code == 1
    assert json.loads(ran.out)["cost_usd"] == pytest.approx(COST / 2)


def test_a_service_that_does_not_tell_its_tokens_did_not_work_for_nothing(stage: Any) -> None:
    priced(stage)
    with stage.serving(stage.script({"text": "done", "usage": None}, DONE)):
        first = stage.run("go", "--json")
        again = stage.run("go", "-c", "--json")
    assert json.loads(first.out)["cost_usd"] is None
    assert json.loads(again.out)["cost_usd"] == pytest.approx(COST / 2)
    table = stage.end(stage.start("stats")).out
    assert table.splitlines()[1].split() == [
        "openai/scripted",
        "2",
        "600",
        "400",
        "100",
        "0.0018",
        "and",
        "1",
        "unknown",
    ]
    assert "of 1 of these requests the service did not say how many tokens they took" in table
    assert "price" not in table
    record = json.loads(stage.end(stage.start("stats", "--json")).out)
    assert (record["requests"], record["unpriced"], record["untold"]) == (2, 1, 1)


def test_a_run_that_asked_nobody_cost_nothing(stage: Any) -> None:
    with stage.serving(stage.script({"status": 401, "body": "{}"})):
        ran = stage.run("go", "--json")
    assert json.loads(ran.out)["cost_usd"] == 0.0


@pytest.mark.parametrize(
    ("cost", "text"),
    [(None, "cost unknown"), (0.0, "$0.00"), (0.00012345, "$0.00012"), (0.0456, "$0.046"), (12.345, "$12.35")],
)
def test_dollars_are_written_for_people(cost: float | None, text: str) -> None:
    assert dollars(cost) == text
