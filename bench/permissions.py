"""What judging a call costs, in microseconds, and as a multiple of a floor: splitting the text with `shlex`.

    python bench/permissions.py [COUNT]

Each line is the best of several rounds, in time of the processor.  The first command of a process also loads the
grammar, which is a line of its own.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable

from dsh_permissions.judge import Judge
from dsh_permissions.rules import RuleSet, parse_rule

ALLOW = ["bash(git add*)", "bash(git commit *)", "bash(pytest *)", "bash(npm run *)", "edit(src/**)", "bash(cd *)"]
DENY = ["bash(rm *)", "bash(curl *)", "read(secrets/**)"]
COMMANDS = {
    "one command": "ls -la",
    "two and a pipe": "git status && git log -1 | head -3",
    "a commit": "cd src && git add -A && git commit -m 'Mend the reader' && git status",
    "a loop": "for f in a b c; do grep -n word src/$f.py || echo none; done",
    "wrapped": "timeout 60 bash -c 'pytest -q tests 2>&1 | tail -20'",
    "200 lines": "cat <<'EOF' > src/a.py\n" + "print('hello')\n" * 200 + "EOF",
}


def best(work: Callable[[], object], count: int) -> float:
    """Seconds of one call of `work`."""
    rounds = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            work()
        rounds.append((time.process_time() - began) / count)
    return min(rounds)


def main(count: int) -> None:
    """Print a line for each kind of call."""
    with tempfile.TemporaryDirectory() as folder:
        rules = [parse_rule(text, "allow", "bench") for text in ALLOW] + [
            parse_rule(text, "deny", "bench") for text in DENY
        ]
        judge = Judge(RuleSet(rules), "default", folder, (), folder)
        began = time.process_time()
        judge.judge("bash", {"command": "true"}, "execute", "command")
        print(f"{'the first command':<20} {(time.process_time() - began) * 1e6:8.0f} us")
        for name, command in COMMANDS.items():
            took = best(lambda: judge.judge("bash", {"command": command}, "execute", "command"), count)  # noqa: B023
            floor = best(lambda: shlex.split(command), count)  # noqa: B023
            print(f"{name:<20} {took * 1e6:8.0f} us  {took / floor:6.1f} x splitting")
        for tool, effect in (("read", "read"), ("edit", "write")):
            took = best(lambda: judge.judge(tool, {"file_path": "src/a.py"}, effect, "file_path"), count)  # noqa: B023
            print(f"{tool:<20} {took * 1e6:8.0f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 200)
