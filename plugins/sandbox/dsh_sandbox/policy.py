"""What one command may do, in real paths, whatever enforces it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from attrs import frozen

from dsh_sandbox.config import Mode, SandboxConfig

__all__ = ["COMMON", "Policy", "is_under", "policy_for"]

CREDENTIALS: Final = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    ".password-store",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
)
"""What nobody but their owners needs to read, below the home directory."""
SYSTEM: Final = ("/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d")
PROTECTED: Final = (".git/hooks", ".git/config", ".git/config.worktree", ".git/modules", ".dsh")
"""What runs code outside of the sandbox later: git's hooks and settings, and those of dsh."""
COMMON: Final = ".git/commondir"
"""With such a file git takes hooks and settings from elsewhere; no repository has one in its own directory."""
WORKTREE: Final = ".git/config.worktree"
"""Settings of git that count where `extensions.worktreeConfig` is set, as sparse checkouts have it."""
LEADING: Final = ("commondir", "config.worktree", "gitdir")
"""What of a further worktree leads git to its settings, below `.git/worktrees`."""
MADE: Final = (".git", ".dsh", COMMON, WORKTREE)
_LOOKED_AT: Final = 2000
"""Entries of folders that are looked at for repositories, at most."""


@frozen
class Policy:
    """What a command may do.  All paths are real ones, and exist.

    Attributes:
        cwd: where it starts.
        writable: directories and files that it may write.
        protected: those below them that it may not.
        hidden: what it may not read.
        readable: what it must be able to read, although it lies where only the command's own files are.
        temp: the directory for its temporary files.
        network: whether it may reach any.
        absent: what would have to be protected, and is not there, so that it is looked for when the command has ended.
    """

    mode: Mode
    cwd: str
    writable: tuple[str, ...]
    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    readable: tuple[str, ...]
    temp: str
    network: bool
    absent: tuple[str, ...] = ()


def is_under(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def policy_for(
    config: SandboxConfig,
    mode: Mode,
    *,
    cwd: str,
    workspace: str,
    home: str,
    temp: str,
    writable: Sequence[str] = (),
    readable: Sequence[str] = (),
) -> Policy:
    """The policy of a command.

    Args:
        cwd: where it starts.
        workspace: the directory that its agent works in.
        home: the directory of dsh's own files.
        temp: the directory for its temporary files.
        writable: further directories to write in.
        readable: paths that it must be able to read.
    """
    workspace = os.path.realpath(workspace)
    person = os.path.realpath(os.path.expanduser("~"))
    roots = tuple(_real([workspace, *writable, *config.writable], workspace)) if mode == "workspace-write" else ()
    named = [os.path.join(person, name) for name in CREDENTIALS] + [*SYSTEM, home]
    hidden = tuple(
        path
        for path in _real([*named, *config.hide], workspace)
        # whoever works in such a directory, or above all of them, has named it
        if path not in roots and path != workspace and path != "/"
    )
    folders = [folder for root in roots for folder in _repositories(root)]
    names = [os.path.join(folder, name) for folder in folders for name in PROTECTED]
    names += [path for folder in folders for path in _leading(folder)]
    protected = _protected([*names, *(os.path.join(workspace, name) for name in config.protect)], roots)
    return Policy(
        mode=mode,
        cwd=os.path.realpath(cwd),
        writable=roots,
        protected=tuple(path for path in protected if not any(is_under(path, folder) for folder in hidden)),
        hidden=hidden,
        # Scripts of skills are dsh's files, and there to be run.
        readable=tuple(_real([*readable, workspace, os.path.join(home, "skills")], workspace)),
        temp=temp,
        network=config.network == "on",
        absent=tuple(_absent(roots, folders)),
    )


def _repositories(root: str) -> Iterator[str]:
    """`root`, and the folders up to two below it that are repositories of their own."""
    yield root
    left = _LOOKED_AT
    level = [root]
    for _ in range(2):
        below: list[str] = []
        for folder in level:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
        yield from (folder for folder in below if os.path.lexists(os.path.join(folder, ".git")))
        level = below


def _leading(repository: str) -> Iterator[str]:
    """The files that say where the settings of the repository's further worktrees are."""
    with suppress(OSError), os.scandir(os.path.join(repository, ".git/worktrees")) as entries:
        for entry in list(entries)[:_LOOKED_AT]:
            yield from (os.path.join(entry.path, name) for name in LEADING)


def _absent(roots: Sequence[str], repositories: Iterable[str]) -> Iterator[str]:
    for folder in repositories:
        for name in MADE if folder in roots else (COMMON, WORKTREE):
            path = os.path.join(folder, name)
            if os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path):
                yield path


def _real(paths: Iterable[str], base: str) -> Iterator[str]:
    """The real paths of those that exist, each once."""
    seen = set()
    for path in paths:
        real = os.path.realpath(os.path.join(base, os.path.expanduser(path)))
        if real not in seen and os.path.exists(real):
            seen.add(real)
            yield real


def _protected(paths: Iterable[str], roots: Sequence[str]) -> Iterator[str]:
    """What to keep from being written: where the last part is a link, the directory that it could be replaced in."""
    seen: set[str] = set()
    for path in paths:
        if path.endswith("/.git/hooks"):
            _make(path)
            if os.path.isfile(os.path.dirname(path)):  # of a worktree: it names the repository
                path = os.path.dirname(path)
        while os.path.islink(path) and path not in roots:
            seen.update(real for real in [os.path.realpath(path)] if any(is_under(real, root) for root in roots))
            path = os.path.dirname(path)
        real = os.path.realpath(path)
        if os.path.exists(real) and any(is_under(real, root) for root in roots) and real not in roots:
            seen.add(real)
    yield from sorted(seen)


def _make(hooks: str) -> None:
    """Make the directory of a repository's hooks, since what is not there cannot be protected."""
    folder = os.path.dirname(hooks)
    if os.path.isdir(folder) and not os.path.islink(folder) and not os.path.lexists(hooks):
        try:
            os.mkdir(hooks)
        except OSError:
            return  # then nobody else can, either
