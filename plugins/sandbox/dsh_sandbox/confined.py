"""What is told of a command in a sandbox: whether the sandbox stood, and what may have failed for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from dsh.patterns import late
from dsh_sandbox.policy import COMMON, WORKTREE, Policy

__all__ = ["Confined"]

_HELPER_FAILED: Final = 125
_FILES: Final = late(r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES|EPERM")
_NETWORK: Final = late(
    r"Network is unreachable|[Cc]ould not resolve|name resolution|Name or service not known|ENETUNREACH|EAI_AGAIN"
    r"|ENOTFOUND|nodename nor servname|No address associated|Could not connect|Couldn't connect|Failed to connect"
    r"|Connection refused|ECONNREFUSED|dial tcp|NameResolutionError|NewConnectionError"
)
_RUNNING: Final = late(
    r"fsmonitor|hookspath|command|pager|editor|alias|external|textconv|filter|helper|program|include|worktree|driver"
    r"|proxy|askpass|attributesfile",
    re.IGNORECASE,
)
"""Settings of git that name a program, or another file of settings."""
_COUNTED: Final = 2000
"""Files that are looked at for changes, at most."""
_LOOKED_AT: Final = 20_000
"""Characters of an output's end that are looked through."""


class Confined:
    """The `dsh.process.Confinement` of one command.

    Both backends report through a pipe whose writing end the command does not get: bubblewrap that the
    command ended, and how; Landlock's helper what went wrong.  So nothing that a command prints, and no
    status that it ends with, is taken for the sandbox's own failure.
    """

    def __init__(self, backend: str, policy: Policy, tell: Callable[[str], None], code: bytes = b"") -> None:
        self.backend = backend
        self._policy = policy
        self._tell = tell
        # What Landlock cannot protect is looked at, so that the person hears of it at least.
        self._before = _marks(policy.protected) if backend == "landlock" else None
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.filter = _filled(code) if code else None
        self._open = {self._reading, *self.fds}

    @property
    def fds(self) -> tuple[int, ...]:
        """The writing end, and the file with the filter, if there is one."""
        return (self._writing,) if self.filter is None else (self._writing, self.filter)

    def started(self) -> None:
        """Leave the writing end and the filter to the child alone."""
        for fd in self.fds:
            self._close(fd)

    def ended(self, exit_code: int | None) -> str | None:
        """Why the command never ran, if it was the sandbox that failed."""
        said = b""
        with suppress(OSError):
            said = os.read(self._reading, 65536)
        self.close()
        self._look()
        self._look_for_new()
        if self.backend == "landlock":
            return said.decode("utf-8", "replace") if said and exit_code == _HELPER_FAILED else None
        if exit_code == 1 and b'"exit-code"' not in said:
            return "bubblewrap could not start the command"
        return None

    def _look(self) -> None:
        if self._before is None:
            return
        after = _marks(self._policy.protected)
        changed = sorted(path for path in {*self._before, *after} if self._before.get(path) != after.get(path))
        if changed:
            more = " and others" if len(changed) > 5 else ""
            self._tell(
                f"a command changed {', '.join(changed[:5])}{more}: look at it before "
                "you use git or dsh here, since it can make them run code, outside of any sandbox"
            )

    def _look_for_new(self) -> None:
        """Tell of what the command made and git or dsh would read, and take out of git's way what has no good use."""
        for path in self._policy.absent:
            if not os.path.lexists(path):
                continue
            if path.endswith(f"/{WORKTREE}") and not _runs_programs(path):
                continue
            if path.endswith((f"/{COMMON}", f"/{WORKTREE}")):
                with suppress(OSError):
                    os.rename(path, f"{path}.from-a-command")
                self._tell(f"a command made {path}, which would have git run what it likes; it has another name now")
            elif path.endswith("/.dsh") or _is_loaded(path):
                self._tell(
                    f"a command made {path}: look at it before you use git or dsh here, since it can make them run "
                    "code, outside of any sandbox"
                )

    def hint(self, output: str) -> str | None:
        """A sentence about what may be the sandbox's doing."""
        end = output[-_LOOKED_AT:]
        policy = self._policy
        if not policy.network and _NETWORK.search(end):
            return f"there is no network in the sandbox ({policy.mode})"
        if _FILES.search(end):
            if not policy.writable:
                return f"in the sandbox ({policy.mode}) nothing can be written but temporary files in $TMPDIR"
            return (
                f"in the sandbox ({policy.mode}) only {', '.join(policy.writable)} and $TMPDIR can be written, "
                "and credentials cannot be read"
            )
        return None

    def close(self) -> None:
        """Close what is open."""
        for fd in tuple(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _filled(code: bytes) -> int:
    """A file without a name that holds the filter."""
    file = os.memfd_create("dsh-sandbox-filter")
    os.write(file, code)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _is_loaded(repository: str) -> bool:
    """Whether a repository has hooks, or settings by which git runs programs."""
    with suppress(OSError):
        if any(not name.endswith(".sample") for name in os.listdir(os.path.join(repository, "hooks"))):
            return True
    config = os.path.join(repository, "config")
    return _runs_programs(config) if os.path.lexists(config) else not os.path.isdir(repository)


def _runs_programs(config: str) -> bool:
    """Whether settings of git name a program or other settings, or cannot be read."""
    try:
        with open(
            os.open(config, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), encoding="utf-8", errors="replace"
        ) as file:
            return _RUNNING.search(file.read(_LOOKED_AT * 10)) is not None
    except OSError:
        return True


def _marks(paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What tells whether files were changed, by their paths."""
    found: dict[str, tuple[int, ...]] = {}
    for path in _files(paths):
        with suppress(OSError):
            status = os.lstat(path)
            found[path] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode)
    return found


def _files(paths: Iterable[str]) -> Iterator[str]:
    count = 0
    for path in paths:
        yield path
        for folder, folders, files in os.walk(path):
            yield from (os.path.join(folder, name) for name in files)
            count += len(files) + len(folders)
            if count > _COUNTED:
                return
