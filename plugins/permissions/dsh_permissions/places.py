"""Where a path really leads, and what may be done there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from dsh.patterns import late

__all__ = ["Access", "Place", "Places", "Where"]

Access: TypeAlias = Literal["read", "write"]
Where: TypeAlias = Literal["inside", "outside", "system", "secret", "protected", "unclear"]

MAX_LINKS = 40

_SECRET = late(
    r"\.env|\.env\.(?!example$|sample$|template$|dist$|defaults?$)[^/]*|\.envrc|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|gpg)|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.htpasswd"
    r"|\.git-credentials|\.npmrc|\.pypirc|\.dockercfg|\.vault-token|credentials(?:\.json|\.toml)?|service-account.*\.json",
    re.IGNORECASE,
)
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
_STARTUP = late(
    r"\.(?:bash(?:rc|_profile|_login|_logout|_aliases)|profile|zsh(?:rc|env)|zprofile|zlog(?:in|out)|kshrc|mkshrc"
    r"|t?cshrc|login|logout|inputrc|xprofile|xinitrc|xsession(?:rc)?|gitconfig|gitmodules|vimrc|exrc|gvimrc|emacs"
    r"|tmux\.conf|screenrc|wgetrc|curlrc|psqlrc|gdbinit|lldbinit|pythonrc|irbrc|Rprofile|envrc|mcp\.json"
    r"|pam_environment|npmrc|yarnrc(?:\.yml)?|bunfig\.toml|pnpmfile\.c?js|nvimrc|nvim\.lua|lvimrc|dir-locals(?:-2)?\.el"
    r"|ycm_extra_conf\.py|pdbrc|pryrc|ghci|sqliterc)",
    re.IGNORECASE,
)
_CONTROL = frozenset(
    [
        *(".git", ".hg", ".svn", ".dsh", ".claude", ".codex", ".vscode", ".idea", ".husky"),
        *(".cursor", ".devcontainer", ".gemini", ".zed"),
    ]
)
_IGNORABLE = late("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Signs that some file systems leave out of names."""
_HOME_FOLDERS = frozenset({".config", ".local", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".oh-my-zsh", "Library"})
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/opt/homebrew")
_SYSTEM_FILES = re.compile(
    r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/[0-2])"
    r"|/proc/(?:cpuinfo|meminfo|version|uptime|loadavg|filesystems|sys/kernel/osrelease)"
    r"|/etc/(?:os-release|lsb-release|debian_version|timezone|shells)"
)
_SINKS = re.compile(r"/dev/(?:null|zero|full|stdout|stderr|tty|fd/[12])")
_MAGIC = re.compile(r"/proc/[^/]+/(?:root|cwd|exe|fd|task|map_files|ns)|/dev/fd")
_OUTPUT = re.compile(r"dsh-[^/]+")


@frozen
class Place:
    """Where a path leads.

    Attributes:
        real: without links and dots, as the disk has it now.
        lexical: without dots, as it was written.
        where: what kind of place it is.
        reason: why a person should say; empty for ``inside`` and ``system``.
        rule: the built-in rule's name.
    """

    real: str
    lexical: str
    where: Where
    reason: str = ""
    rule: str = ""


def _real(path: str | Path) -> str:
    return os.path.realpath(path)


def _all_real(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_real, paths))


def _swapped_case_is_same(path: str) -> bool:
    other = path.swapcase()
    if other == path:
        return False
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


@define(eq=False)
class Places:
    """What lies where, seen from one workspace.

    Args:
        workspace: the agent's working directory.
        extra: further folders to work in.
        home: the person's home.
        dsh_home: where dsh keeps its own files.
    """

    workspace: str = field(converter=_real)
    extra: tuple[str, ...] = field(converter=_all_real)
    home: str = field(converter=_real)
    dsh_home: str = field(converter=_real)
    shelves: Callable[[], Collection[str]] = field(default=tuple, init=False)
    """The folders below `dsh_home` that hold what tools said, to be read; asked only where a path may be there."""
    fold: bool = field(init=False)
    """Whether capitals do not matter on the workspace's disk."""

    def __attrs_post_init__(self) -> None:
        self.fold = _swapped_case_is_same(self.workspace)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders to work in."""
        return (self.workspace, *self.extra)

    def look(self, path: str, cwd: str, access: Access) -> Place:
        """Where `path` leads, said in the folder `cwd`.  Looks at links, and opens nothing."""
        if not path or "\0" in path:
            return Place(path, path, "unclear", "a path that names no file", "paths")
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        joined = os.path.join(cwd, path)
        lexical = os.path.normpath(joined)
        try:
            real = self._follow(joined)
        except OSError as error:
            return Place(lexical, lexical, "unclear", f"{path} leads nowhere: {error.strerror or error}", "paths")
        if real is None:
            return Place(lexical, lexical, "unclear", f"{path} leads through another process's view of files", "paths")
        return self._judge(real, lexical, access)

    def _follow(self, path: str) -> str | None:
        """`path` without links; None where one of them is the kernel's own and means something else to others."""
        if _SYSTEM_FILES.fullmatch(path) or _SINKS.fullmatch(path):
            return path
        todo = path.split("/")[::-1]
        done, links = "", 0
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{name}"
            if _MAGIC.match(here):
                return None
            try:
                found = os.lstat(here)
            except (FileNotFoundError, NotADirectoryError):
                done = here
                continue
            if not stat.S_ISLNK(found.st_mode):
                done = here
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError("too many links")
            target = os.readlink(here)
            todo += target.split("/")[::-1]
            if target.startswith("/"):
                done = ""
        return done or "/"

    def _judge(self, real: str, lexical: str, access: Access) -> Place:
        if _SYSTEM_FILES.fullmatch(real) and (access == "read" or _SINKS.fullmatch(real)):
            return Place(real, lexical, "system")
        root = self._root_of(real)
        parts = (real if root is None else real[len(root) :]).strip("/").split("/")
        for look in (self._secret, self._protected):
            reason = look(real, parts, root, access)
            if reason is not None:
                return reason if isinstance(reason, Place) else Place(real, lexical, *reason)
        if root is not None:
            return Place(real, lexical, "inside")
        if access == "read" and self._readable(real):
            return Place(real, lexical, "system")
        through = "" if self._root_of(lexical) is None else " (through a link)"
        what = "reading" if access == "read" else "writing"
        return Place(real, lexical, "outside", f"{what} outside of the workspace: {real}{through}", "outside")

    def _root_of(self, path: str) -> str | None:
        return next((root for root in self.roots if self.within(path, root)), None)

    def within(self, path: str, root: str) -> bool:
        """Whether `path` is `root`, or below it."""
        if self.fold:
            path, root = path.casefold(), root.casefold()
        return path == root or path.startswith("/" if root == "/" else f"{root}/")

    def _own(self, real: str) -> bool:
        """Whether it is dsh's own, and not a workspace within that."""
        inner = any(self.within(root, self.dsh_home) and root != self.dsh_home for root in self.roots)
        return self.within(real, self.dsh_home) and not (inner and self._root_of(real) is not None)

    def _secret(self, real: str, parts: list[str], root: str | None, access: Access) -> tuple[Where, str, str] | None:
        if access == "write":
            return None
        name = parts[-1]
        if any(self.within(real, shelf) for shelf in self.shelves()):
            return None
        if self._own(real):
            return "secret", f"{real} is dsh's own: settings, keys and sessions", "dsh-home"
        if _SECRET.fullmatch(name) or any(part.casefold() in _SECRET_FOLDERS for part in parts):
            return "secret", f"{real} may hold credentials", "secrets"
        if re.fullmatch(r"/proc/[^/]+/(?:environ|mem|maps|cmdline|auxv)", real):
            return "secret", f"{real} shows what a process keeps to itself", "secrets"
        return None

    def _protected(
        self, real: str, parts: list[str], root: str | None, access: Access
    ) -> tuple[Where, str, str] | None:
        if access == "read":
            return None
        folded = [_IGNORABLE.sub("", part).casefold() for part in parts]
        if self._own(real):
            return "protected", f"{real} is dsh's own: settings, keys and sessions", "dsh-home"
        if any(part in _CONTROL for part in folded):
            return "protected", f"{real} decides what tools run by themselves", "control-files"
        if _STARTUP.fullmatch(parts[-1]):
            return "protected", f"{real} is read when programs start", "start-up-files"
        if self.within(real, self.home) and (root is None or self.within(self.home, root)):
            below = real[len(self.home) :].strip("/").split("/")[0]
            if below in _HOME_FOLDERS:
                return "protected", f"{real} holds settings of programs", "start-up-files"
        return None

    def _readable(self, real: str) -> bool:
        """Whether what lies there is nobody's own: programs, libraries, and the output that a tool put aside."""
        if any(self.within(real, folder) for folder in (*_SYSTEM, *self.shelves())):
            return True
        import tempfile  # which costs more than the rest of this module, and is seldom needed

        temp = _real(tempfile.gettempdir())
        name = real[len(temp) :].strip("/").split("/")[0] if self.within(real, temp) else ""
        if not _OUTPUT.fullmatch(name) or real == f"{temp}/{name}":
            return False
        try:
            found = os.lstat(f"{temp}/{name}")
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077

    def expand(self, pattern: str, cwd: str, limit: int = 2000) -> list[str] | None:
        """The paths that a pattern of the shell means now; None where they are too many, or cannot be told."""
        found: list[str] = ["/" if pattern.startswith("/") else ""]
        globbed = False
        for part in pattern.strip("/").split("/"):
            if part == "**":
                return None
            if not re.search(r"[*?\[]", part):
                found = [f"{base}{part}/" for base in found]
                if globbed:
                    found = [path for path in found if os.path.lexists(os.path.join(cwd, path.rstrip("/")))]
                continue
            if re.search(r"\\|\[[^]]*\[[:=.]", part):
                return None  # classes of signs, which are matched otherwise here
            globbed = True
            matches = []
            wanted = re.compile(_globbed(part))
            for base in found:
                try:
                    with os.scandir(os.path.join(cwd, base) or ".") as entries:
                        for entry in entries:
                            limit -= 1
                            if limit < 0:
                                return None
                            hidden = entry.name.startswith(".") and not part.startswith(".")
                            if not hidden and wanted.fullmatch(entry.name):
                                matches.append(f"{base}{entry.name}/")
                except OSError:
                    continue
            found = matches
        return [path.rstrip("/") or "/" for path in found] or [pattern]


def _globbed(part: str) -> str:
    import fnmatch

    return fnmatch.translate(part.replace("[^", "[!"))
