"""A process that outlives this one for a moment, to end the children that nobody else ends any more.

Whoever is killed by SIGKILL cannot clean up.  The watchdog is a small ``/bin/sh`` that reads from
a pipe which groups run; the pipe's end without a word means that this process is gone.  What was
started and is not in a group that it was told of, is found by the mark in its environment; it looks
twice, as a child that was just made may not have its environment yet.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

import trio

from .groups import MARK

__all__ = ["Watchdog"]

_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;; esac ;;
        .) exit 0 ;;
    esac
done
for group in $groups; do kill -9 "-$group"; done
for pause in 0 1; do
    sleep $pause
    for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
        file=${file%/environ}
        kill -9 "${file#/proc/}"
    done
done
"""


class Watchdog:
    """Ends the groups it was told of, and what carries the mark, when this process dies.

    Args:
        mark: how the values of `MARK` in the environments of all its children begin.
    """

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}"
        self._groups: dict[int, None] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None

    @property
    def pid(self) -> int | None:
        """The watchdog's process id; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Be there before the first child is: between its start and `add` it is known by its mark alone.

        Never raises: without a watchdog children run all the same.
        """
        if self._process is None:
            self._start()

    def add(self, group: int) -> None:
        """Watch a group.  Never raises."""
        self._groups[group] = None
        if self._process is None:
            self._start()
        else:
            self._tell(f"+ {group}\n")

    def drop(self, group: int) -> None:
        """Forget a group, which has ended."""
        if group in self._groups:
            del self._groups[group]
            self._tell(f"- {group}\n")

    async def close(self) -> None:
        """Send the watchdog away and reap it.  Takes two seconds at most, and is not cancelled."""
        process = self._process
        if process is None:
            return
        self._groups.clear()
        self._write(".\n")
        self._hang_up()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(2):
                pause = 0.001
                while process.poll() is None:
                    await trio.sleep(pause)
                    pause = min(pause * 2, 0.05)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._process = None

    def dismiss(self) -> None:
        """Send it away where there is nobody to wait for it; it ends at once."""
        process, self._process = self._process, None
        if process is not None:
            self._groups.clear()
            self._hang_up()
            process.kill()
            process.wait()

    def _start(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            # A session of its own: what is aimed at this process's group must not hit it.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dsh-watchdog", self._mark],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        except OSError:
            os.close(writing)
            return
        finally:
            os.close(reading)
        self._pipe = writing
        self._write("".join(f"+ {group}\n" for group in self._groups))

    def _tell(self, line: str) -> None:
        if self._write(line) or self._process is None:
            return
        # It was killed, or stopped reading: another takes its place and learns everything anew.
        self._hang_up()
        self._process.kill()
        self._process.wait()
        self._process = None
        if self._groups:
            self._start()

    def _write(self, text: str) -> bool:
        if self._pipe is None:
            return False
        data = text.encode()
        try:
            return os.write(self._pipe, data) == len(data)
        except OSError:
            return False

    def _hang_up(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe)
