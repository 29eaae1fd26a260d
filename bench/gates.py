"""Hold results of `bench/run.py` against the gates: one row a figure, as a ratio to a floor of the same run.

python bench/gates.py results.jsonl [PEER]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable

F, H = "floor-hooks", "floor-httpx-fast"
Runs = dict[tuple[str, str], list[dict[str, float]]]


def load(path: str) -> Runs:
    runs: Runs = defaultdict(list)
    with open(path) as lines:
        for line in lines:
            run = json.loads(line)
            if run["rc"] == 0:
                runs[run["scenario"], run["peer"]].append(run)
    return runs


def main(path: str, peer: str) -> None:
    runs = load(path)

    def med(scenario: str, who: str, key: str = "cpu") -> float:
        found = [run[key] for run in runs[scenario, who] if key in run]
        if not found:
            raise LookupError(f"{scenario} of {who} has not been run")
        return statistics.median(found)

    def per(scenario: str, who: str, count: int) -> float:
        """CPU seconds an item: the scenario's less the start's."""
        return (med(scenario, who) - med("s1", who)) / count

    def growth(who: str) -> float:
        """Milliseconds a step gets dearer in 1,000 steps, by the gaps that the server saw."""
        return (med("s2-noop-1000", who, "gap_tail") - med("s2-noop-1000", who, "gap_head")) * 1e3

    def resume(who: str) -> float:
        return med("s5-10k", who, "first") - med("s1", who, "first")

    rows: list[tuple[str, str, Callable[[], tuple[float, float]], str, float]] = [
        ("start to first request", "CPU s", lambda: (med("s1", peer), med("s1", F)), "F", 1.6),
        (
            "a step with a no-op tool",
            "CPU ms",
            lambda: (1e3 * per("s2-noop-1000", peer, 1000), 1e3 * per("s2-noop-1000", H, 1000)),
            "H",
            1.3,
        ),
        ("growth per 1,000 steps", "ms", lambda: (growth(peer), 0.0), "", 1.2),
        (
            "a step through the shell tool",
            "CPU ms",
            lambda: (1e3 * per("s2-shell-200", peer, 200), 1e3 * per("s2-shell-200", F, 200)),
            "F",
            1.7,
        ),
        (
            "a small delta",
            "CPU µs",
            lambda: (1e6 * per("s3-20k", peer, 20000), 1e6 * per("s3-20k", F, 20000)),
            "F",
            2.0,
        ),
        ("wait after the last of 20,000 deltas", "s", lambda: (med("s3-20k", peer, "tail"), 0.0), "", 0.5),
        (
            "100 agents, 20 steps at 50 ms, over ideal",
            "×",
            lambda: (med("s4-100x20", peer, "span") / (21 * 0.05), 0.0),
            "",
            3.0,
        ),
        ("resume of 10,000 messages over a start", "s", lambda: (resume(peer), 0.0), "", 0.6),
        ("memory, one session", "MB", lambda: (med("s1", peer, "rss_kb") / 1024, 0.0), "", 50.0),
        ("memory after 1,000 steps", "MB", lambda: (med("s2-noop-1000", peer, "rss_kb") / 1024, 0.0), "", 65.0),
        (
            "memory per further live session",
            "MB",
            lambda: ((med("s4-100x20", peer, "rss_kb") - med("s2-noop-200", peer, "rss_kb")) / 1024 / 99, 0.0),
            "",
            0.5,
        ),
        ("ten parallel calls of 100 ms", "ms", lambda: (1e3 * med("s7", peer, "gap_med"), 0.0), "", 120.0),
        ("bytes on disk a step", "B", lambda: (med("s2-noop-1000", peer, "bytes") / 1000, 0.0), "", 1100.0),
    ]
    print(f"| what ({peer}) | unit | measured | floor | ratio | gate | |\n|---|---|---|---|---|---|---|")
    for name, unit, figure, floor, gate in rows:
        try:
            value, base = figure()
        except LookupError as missing:
            print(f"| {name} | {unit} | {missing} | | | | |")
            continue
        ratio = value / base if floor else value
        verdict = "passes" if ratio <= gate else "MISSES"
        shown = f"{base:.3g} {floor} | {ratio:.2f}" if floor else " | "
        print(f"| {name} | {unit} | {value:.3g} | {shown} | ≤ {gate:g} {floor} | {verdict} |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "dsh-lib")
