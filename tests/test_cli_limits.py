"""Flags that limit a run, through the whole command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"
WORK = {"text": "Looking.", "calls": [["bash", {"command": "true"}]]}
SLOW = {"text": "It is 42, I think", "stall": [400, 60]}

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")


@pytest.fixture
def limited(stage: Any) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """Run ``dsh -p --json`` with flags; its outcome, and the document that it printed."""

    def run(reply: dict[str, Any], *flags: str) -> tuple[Any, dict[str, Any]]:
        with stage.serving(stage.script({**reply, "repeat": True})):
            ran = stage.run("go", "--json", *flags)
        return ran, json.loads(ran.out)

    return run


def prices(stage: Any) -> None:
    stage.home.mkdir()
    (stage.home / "config.toml").write_text('[models."openai/scripted"]\nprice = { input = 1000, output = 2000 }\n')


@pytest.mark.parametrize(
    ("flags", "requests", "code"),
    [
        (("--max-turns", "3"), 3, "LIMIT_REQUESTS"),
        (("--max-tokens", "16"), 2, "LIMIT_TOKENS"),
        (("--max-budget-usd", "0.05"), 3, "LIMIT_COST"),
        (("--config", "budget.max_requests=1"), 1, "LIMIT_REQUESTS"),
    ],
)
def test_the_answer_so_far_stays(stage: Any, limited: Any, flags: tuple[str, ...], requests: int, code: str) -> None:
    prices(stage)
    ran, document = limited(WORK, *flags)
    assert (ran.code, document["exit_code"], document["reason"]) == (124, 124, "error")
    assert document["error"]["code"] == code
    assert document["error"]["message"] in ran.err
    assert document["text"] == "Looking."
    assert len(ran.requests) == requests
    assert ran.end["code"] == code
    assert [data["code"] for data in ran.data("budget/reached")] == [code]


def test_the_time_ends_what_runs(limited: Any) -> None:
    ran, document = limited(SLOW, "--timeout", "1.5s")
    assert (ran.code, document["exit_code"], document["reason"]) == (124, 124, "aborted")
    assert document["error"] == {
        "code": "LIMIT_TIMEOUT",
        "message": "the run took longer than 1.5 s, which is its limit",
    }
    assert ran.ends == ["aborted"]


def test_the_time_ends_a_wait_for_another_try(limited: Any) -> None:
    ran, document = limited({"status": 429, "headers": {"retry-after": "100"}, "body": "{}"}, "--timeout", "1")
    assert (ran.code, document["error"]["code"]) == (124, "LIMIT_TIMEOUT")
    assert len(ran.requests) == 1


def test_money_needs_a_price(limited: Any) -> None:
    ran, document = limited(WORK, "--max-budget-usd", "5")
    assert (ran.code, document["error"]["code"]) == (2, "PRICE_UNKNOWN")
    assert "set it in config.toml" in ran.err
    assert '[models."openai/scripted"] price' in ran.err
    assert ran.requests == []


def test_a_limit_is_not_forgotten_with_its_plugin(limited: Any) -> None:
    ran, _ = limited(WORK, "--max-turns", "3", "--no-plugin", "budget")
    assert ran.code == 2
    assert "--max-turns needs the plugin budget, which is not loaded" in ran.err
    assert ran.requests == []


def test_a_run_that_goes_on_begins_anew(stage: Any) -> None:
    with stage.serving(stage.script(WORK, {"text": "done"})):
        assert stage.run("go", "--max-turns", "1").code == 124
        ran = stage.run("go on", "-c", "--max-turns", "1")
    assert (ran.code, ran.out) == (0, "done\n")


def test_a_project_sets_neither_limits_nor_prices(stage: Any) -> None:
    folder = stage.work / ".dsh"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[budget]\nmax_usd = 1e6\n[models."openai/scripted"]\nprice = { input = 0, output = 0 }\n'
    )
    with stage.serving(stage.script({"text": "done"})):
        ran = stage.run("go", "--max-budget-usd", "1")
    assert ran.code == 2
    assert 'is not trusted, so this was left out: .dsh/config.toml: budget, models."openai/scripted" (' in ran.err
    assert "dollars a million tokens" in ran.err


def test_stats_of_what_was_run(stage: Any) -> None:
    prices(stage)
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 300}}
    with stage.serving(stage.script({**WORK, "usage": usage}, {"text": "done"})):
        assert stage.run("go").code == 0
    table = stage.end(stage.start("stats"))
    head, row = table.out.splitlines()
    assert head.split() == ["model", "requests", "in", "cached", "out", "dollars"]
    assert row.split() == ["openai/scripted", "2", "710", "300", "55", "1.1200"]
    for by in ("day", "session"):
        (line,) = stage.end(stage.start("stats", "--by", by, "--json", "--days", "2")).out.splitlines()
        record = json.loads(line)
        assert (record["requests"], record["input_tokens"], record["usd"]) == (2, 710, 1.12)
    assert (
        stage.end(stage.start("stats", "-C", "/")).out == "no requests; --all counts those of other directories, too\n"
    )
    assert "openai/scripted" in stage.end(stage.start("stats", "-C", "/", "--all")).out
    assert stage.end(stage.start("stats", "--days", "0")).code == 2


CLOCK = """
from itertools import count
from dsh import hookimpl

ticks = count()

@hookimpl
def prompt_sections(sections):
    sections.add("clock", f"It is {10 + next(ticks)} o'clock.", order=1)
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_stats_of_caches(stage: Any, guarded: bool) -> None:
    """What broke them is told from the log, whether the plugin that wrote it down is there or not."""
    stage.plugin("clock", CLOCK)
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 250}}
    with stage.serving(stage.script({**WORK, "usage": usage}, {"text": "done", "usage": usage})):
        assert stage.run("go").code == 0
    without = () if guarded else ("--no-plugin", "prefix")
    table = stage.end(stage.start("stats", "--cache", *without))
    head, row, _, said = table.out.splitlines()
    assert head.split() == ["session", "requests", "in", "read", "written", "hits", "breaks"]
    name, *cells = row.split()
    assert cells == ["2", "2000", "500", "0", "25.0%", "1"]
    what = "system clock was changed by clock, once in turn 1, step 2, at character 7"
    assert said == f'{name}: {what}: "It is 10 o\'clock." became "It is 11 o\'clock."'
    record = json.loads(stage.end(stage.start("stats", "--cache", "--json", *without)).out)
    assert (record["session"], record["requests"], record["hit_rate"]) == (name, 2, 0.25)
    assert (record["cache_read_tokens"], record["input_tokens"]) == (500, 1500)
    (broke,) = record["breaks"]
    assert (broke["count"], broke["segment"], broke["name"], broke["plugin"]) == (1, "system", "clock", "clock")
    assert (broke["turn"], broke["step"], broke["at"], broke["cause"]) == (1, 2, 7, "changed")
    assert stage.end(stage.start("stats", "--cache", "--by", "day")).code == 2
