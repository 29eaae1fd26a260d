"""What the sandbox costs a command: the same command bare and in each backend, in turns, in one run.

python bench/sandbox.py [ROUNDS]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from dsh_sandbox.box import find_backend, wrap
from dsh_sandbox.config import SandboxConfig
from dsh_sandbox.folder import Folder
from dsh_sandbox.policy import policy_for

from dsh.process import Process

COMMAND = ("bash", "-c", "true")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(process: Process) -> tuple[float, float]:
    """Wall and CPU seconds of the children, of one command."""
    around = process.confinement
    began, before = time.perf_counter(), cpu()
    fds = () if around is None else around.fds
    with subprocess.Popen(
        process.argv, env=process.env, cwd=process.cwd, pass_fds=fds, start_new_session=True
    ) as child:
        if around is not None:
            around.started()
        child.wait()
    took = time.perf_counter() - began, cpu() - before
    if around is not None:
        why = around.ended(child.returncode)
        assert why is None, why
    return took


def main(rounds: int) -> None:
    config = SandboxConfig()
    folder = Folder()
    try:
        with tempfile.TemporaryDirectory() as work:
            measure(config, folder, work, rounds)
    finally:
        folder.remove()


def measure(config: SandboxConfig, folder: Folder, work: str, rounds: int) -> None:
    plain = Process(COMMAND, dict(os.environ), work, managed=True)
    backends = {name: find_backend(name, folder.room("probe")) for name in ("bubblewrap", "landlock")}
    took: dict[str, list[tuple[float, float]]] = {"bare": []}
    policies: list[float] = []
    for _ in range(rounds):
        took["bare"].append(once(plain))
        for name, (backend, _) in backends.items():
            if backend is None:
                continue
            began = time.perf_counter()
            policy = policy_for(
                config, "workspace-write", cwd=work, workspace=work, home=f"{work}/.dsh", temp=folder.room("temp")
            )
            ready = wrap(backend, policy, plain, folder.nothing)
            policies.append(time.perf_counter() - began)
            took.setdefault(name, []).append(once(ready))
    wall, used = (statistics.median(pair[index] for pair in took["bare"]) for index in (0, 1))
    for name, pairs in took.items():
        own, mine = (statistics.median(pair[index] for pair in pairs) for index in (0, 1))
        print(
            f"{name:<12} {own * 1e3:6.1f} ms {own / wall:5.1f} x   cpu {mine * 1e3:6.1f} ms {mine / used:5.1f} x"
            f"   adds {(own - wall) * 1e3:5.1f} ms"
        )
    for name, (backend, why) in backends.items():
        if backend is None:
            print(f"{name:<12} not here: {why}")
    print(f"in dsh itself: {statistics.median(policies) * 1e3:.2f} ms a command")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
