"""The description of a child process, as plugins hand it to ``process_prepare``."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from attrs import field, frozen

__all__ = ["Confinement", "Process", "names_secret", "scrubbed_environment"]

_CREDENTIAL = re.compile(
    r"KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|_PWD$|(^|_)PAT$|^PGPASS", re.IGNORECASE
)


def _strings(argv: Iterable[str]) -> tuple[str, ...]:
    return tuple(argv)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


class Confinement(Protocol):
    """What stands around a process, as the plugin that put it there tells whoever starts the process.

    Who starts a `Process` that is `Process.managed` keeps to this: the child inherits `fds`; `started` is
    called when the child exists, `ended` once it has exited, and `close` when it never started.
    """

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that the child must inherit, under the same numbers."""
        ...

    def started(self) -> None:
        """The child exists and has inherited `fds`."""
        ...

    def ended(self, exit_code: int | None) -> str | None:
        """The child has exited.  Says why the confinement failed, so that the program never ran; else None."""
        ...

    def hint(self, output: str) -> str | None:
        """A sentence for who reads `output` of a program that failed, if the confinement may be what failed it."""
        ...

    def close(self) -> None:
        """Nothing is going to start, or all is over.  May be called twice."""
        ...


@frozen
class Process:
    """A child process that is about to start.

    Attributes:
        argv: the program and its arguments; no shell is added.
        env: its whole environment.
        cwd: its working directory, absolute.
        purpose: what starts it, for people: ``bash``, ``local model``.
        keep: names of variables that this child is meant to have, although they may hold a secret.
        readable: paths that the child needs to read, wherever they are.
        managed: who starts it gives it a session of its own, ends the whole process group, and keeps to what
            `Confinement` asks of it.
        trusted: a part of the program itself, started for no agent, with arguments that no model had a hand in.
            A sandbox leaves it alone, and records that it did.
        confinement: what stands around it, once it is prepared.
    """

    argv: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str]
    cwd: str
    purpose: str = ""
    keep: frozenset[str] = field(default=frozenset(), converter=_names)
    readable: tuple[str, ...] = ()
    managed: bool = False
    trusted: bool = False
    confinement: Confinement | None = field(default=None, eq=False, repr=False)


@functools.lru_cache(1024)  # the same few dozen names before every child process
def names_secret(name: str) -> bool:
    """Whether a variable of that name is one that holds a secret: KEY, TOKEN, PASSWORD and their like."""
    return _CREDENTIAL.search(name) is not None and name not in ("PWD", "OLDPWD")


def scrubbed_environment(environ: Mapping[str, str] | None = None, *, keep: Collection[str] = ()) -> dict[str, str]:
    """`environ` (default: this process's) without the variables whose name says that they hold a secret.

    Args:
        keep: names, and patterns such as ``CI_*``, of variables that stay all the same.
    """
    source = os.environ if environ is None else environ
    return {
        name: value
        for name, value in source.items()
        if not names_secret(name) or any(fnmatchcase(name, pattern) for pattern in keep)
    }
