"""A process that outlives this one for a moment, to end a child process that nobody else ends any more.

Whoever is killed by SIGKILL cleans up nothing.  The end of a pipe tells a small shell so, which then kills.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import trio

__all__ = ["MARK", "Watchdog", "kill_marked"]

MARK = "DSH_SUBAGENT_ID"
"""The variable by which processes are known that left their group."""
_PATIENCE = 2.0
_SCRIPT = r"""
trap '' HUP INT QUIT TERM
read -r word && exit 0
kill -9 "-$1"
for file in $(grep -lsF "$2" /proc/[0-9]*/environ); do
    file=${file%/environ}
    kill -9 "${file#/proc/}"
done
"""


class Watchdog:
    """Kills a process group, and what left it, when this process dies.

    Args:
        mark: the value of `MARK` in the environment of those processes.
    """

    def __init__(self, group: int, mark: str) -> None:
        self._pipe = -1
        self._process: subprocess.Popen[bytes] | None = None
        reading, writing = os.pipe()
        try:
            # A session of its own: what is aimed at this process's group must not hit it.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dsh-watchdog", str(group), f"{MARK}={mark}"],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        except OSError:
            os.close(writing)  # the child is ended by its owner all the same
        else:
            self._pipe = writing
        finally:
            os.close(reading)

    async def close(self) -> None:
        """Send it away and reap it, within a bound."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            os.write(self._pipe, b".\n")
        os.close(self._pipe)
        pause = 0.001
        with trio.move_on_after(_PATIENCE):
            while process.poll() is None:
                await trio.sleep(pause)
                pause = min(pause * 2, 0.05)
        if process.poll() is None:
            process.kill()
            process.wait()


def kill_marked(mark: str) -> None:
    """Kill every process that carries `mark`; none where there is no ``/proc``."""
    wanted = b"\0" + f"{MARK}={mark}".encode() + b"\0"
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return
    for pid in pids:
        with suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read()
            if wanted in b"\0" + environ + b"\0":
                os.kill(int(pid), 9)
