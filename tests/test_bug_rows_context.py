"""Conversations that are too long: the rows C and H07 of the shared material, through the whole command.

Where a script begins with a refusal, some work is done before it, so that there is a conversation to summarise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SCRIPTS = SHARED / "bugs/scripts"

pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="the scripted server and the scripts are not here")

UNASKED = ["--permission-mode", "bypass"]
WORK = [
    {"calls": [["@shell", {"command": f"seq {n}00 {n}99 | tr '\\n' ' '; seq 1 400 | tr '\\n' ' '"}]]}
    for n in range(1, 7)
]


def row(name: str) -> list[Any]:
    replies: list[Any] = json.loads((SCRIPTS / f"{name}.json").read_text(encoding="utf-8"))["replies"]
    return replies


def script(tmp_path: Path, *replies: Any) -> Path:
    path = tmp_path / "row.json"
    path.write_text(json.dumps(replies))
    return path


def size(request: dict[str, Any]) -> int:
    return len(json.dumps(request["body"]["messages"]))


def asks_for_summary(request: dict[str, Any]) -> bool:
    return "eight headings" in str(request["body"]["messages"][-1]["content"])


def test_c01_overflow_for_ever(play: Any, tmp_path: Path) -> None:
    ran = play(script(tmp_path, *WORK, *row("C01")), arguments=UNASKED)
    assert ran.code == 1
    assert ran.end["kind"] == "error"
    assert "maximum context length is 131072" in ran.end["message"]
    assert "compaction" in ran.err
    assert "new session" in ran.err
    refused = ran.requests[len(WORK) :]
    assert 2 <= len(refused) <= 6
    sizes = [size(request) for request in refused]
    assert sizes[-1] < sizes[0] / 2


def test_c01_overflow_of_a_conversation_that_has_just_begun(play: Any) -> None:
    ran = play("C01", prompts=2)
    assert ran.code == 1
    assert "maximum context length is 131072" in ran.end["message"]
    assert len(ran.requests) == 2


def test_c03_off_is_off(play: Any, tmp_path: Path) -> None:
    arguments = [*UNASKED, "--config", "compaction.enabled=false"]
    ran = play(script(tmp_path, *WORK, *row("C03")), arguments=arguments)
    assert ran.code == 1
    assert "maximum context length is 131072" in ran.end["message"]
    assert len(ran.requests) == len(WORK) + 1
    assert [event["type"] for event in ran.events if event["type"].startswith("compact/")] == []


def test_c04_the_summary_overflows_too(play: Any, tmp_path: Path) -> None:
    ran = play(script(tmp_path, *WORK, *row("C04")), arguments=[*UNASKED, "--config", "compaction.prune=false"])
    assert (ran.code, ran.out) == (0, "continuing\n")
    overflowed, first, second, last = ran.requests[len(WORK) :]
    assert asks_for_summary(first)
    assert asks_for_summary(second)
    assert size(second) < 0.85 * size(first) < size(overflowed)
    assert "Summary: we did X." in json.dumps(last)
    assert size(last) < size(overflowed) / 2
    (summary,) = ran.data("compact/summary")
    assert summary["level"] >= 2


def test_c05_nothing_to_free(play: Any) -> None:
    ran = play("C05", prompts=4, arguments=["--config", "compaction.context_window=131072"])
    assert ran.code == 0
    assert ran.ends == ["completed"] * 4
    assert len(ran.requests) == 4
    assert not any(event["type"].startswith("compact/") for event in ran.events)


def test_c06_many_in_a_tiny_window(play: Any) -> None:
    ran = play("C06", arguments=[*UNASKED, "--no-plugin", "repeats", "--config", "compaction.context_window=5000"])
    assert ran.code == 0
    replaced = [e for e in ran.events if e["type"] == "user/message" and e["surfaceOp"] != "append"]
    for request in ran.requests:
        assert json.dumps(request).count("takes the place of the messages before") <= 1
    assert len(replaced) == len(ran.data("compact/summary")) >= 1


def test_c07_zero_usage(play: Any, tmp_path: Path) -> None:
    """The last count that says something, and what came since, decide."""
    first, zeros, after = row("C07")
    big = {"calls": [["@shell", {"command": "seq 1 5000 | tr '\\n' ' '"}]], "usage": first["usage"]}
    more = {**big, "usage": zeros["usage"]}
    arguments = [*UNASKED, "--config", "compaction.context_window=150000", "--config", "compaction.prune=false"]
    ran = play(script(tmp_path, big, more, more, after), arguments=arguments)
    assert ran.code == 0
    assert any(asks_for_summary(request) for request in ran.requests)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {"status": 400, "file": f"errors/context_overflow-{name}.json"}
            for name in ("anthropic", "deepseek", "openai")
        ),
        *({"status": 400, "file": f"errors/context_overflow-{name}.json"} for name in ("llamacpp-2", "perplexity")),
        {"status": 413, "body": '{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}'},
        row("C08")[0] if SCRIPTS.exists() else {},
    ],
    ids=lambda answer: Path(str(answer.get("file") or answer.get("sse") or answer.get("status"))).stem,
)
def test_c08_every_wording(play: Any, tmp_path: Path, answer: dict[str, Any]) -> None:
    answer = dict(answer)
    if "file" in answer:
        recorded = json.loads((SHARED / "streams" / answer.pop("file")).read_text(encoding="utf-8"))
        answer |= {"body": recorded["body"], "status": recorded["status"]}
    if "sse" in answer:
        answer["sse"] = str((SCRIPTS / answer["sse"]).resolve())
    replies = [*WORK, answer, {"text": "a summary"}, {"text": "went on"}]
    ran = play(script(tmp_path, *replies), arguments=[*UNASKED, "--config", "compaction.prune=false"])
    assert (ran.code, ran.out) == (0, "went on\n")
    assert len(ran.data("compact/summary")) == 1


def test_c09_a_giant_result(play: Any) -> None:
    ran = play("C09", arguments=[*UNASKED, "--config", "compaction.context_window=60000"])
    assert (ran.code, ran.out) == (0, "done\n")
    assert size(ran.requests[1]) < 240_000


@pytest.mark.parametrize("window", [4800, 5200])
def test_h07_pairs_stay_together(play: Any, window: int) -> None:
    """Wherever the limit is met, the server, which checks this, refuses nothing."""
    arguments = [*UNASKED, "--no-plugin", "repeats", "--config", f"compaction.context_window={window}"]
    ran = play("H07", arguments=arguments)
    assert ran.code == 0
    assert ran.ends == ["completed"]
    assert ran.data("compact/summary")
