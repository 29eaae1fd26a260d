"""bubblewrap: the command sees a file system of its own, its own processes, and no network.

Every mount is made in the order of its depth, so that what lies deeper is seen through what lies
above it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias

from attrs import define, field

from dsh.paths import open_folder
from dsh_sandbox.policy import Policy, is_under

__all__ = ["ALONE", "arguments", "environment", "filter_for", "filters", "find", "flags_that_work", "kept_by"]

PROGRAM: Final = "bwrap"
Kind: TypeAlias = Literal["rw", "ro", "empty", "temp", "none"]
_FROM_HOST: Final = ("rw", "ro")
_TEMP: Final = ("/tmp", "/var/tmp")
_SYSTEM_RUN: Final = ("/run/current-system", "/run/booted-system", "/run/systemd/resolve", "/run/resolvconf")
"""What of ``/run``, where the sockets of services are, programs need to find programs and names."""
_KEPT_CAPABILITIES: Final = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
"""What a superuser keeps: without it files of other users in the workspace could not be worked on."""
UNSET: Final = ("DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "TEMP", "TMP", "XDG_RUNTIME_DIR")
"""Variables that name what is not there."""

ALONE: Final = ("--new-session", "--die-with-parent")
"""For a process whose starter promises nothing: it loses the terminal, and ends with `kept_by`."""
_KEPT: Final = 'exec 3<&0; "$@" <&3 3<&- & wait $!'
_KEPT_FILTERED: Final = 'exec 3<&0; f=$1; shift; printf "$f" | "$@" 4<&0 <&3 3<&- & wait $!'


def kept_by(code: bytes) -> tuple[str, ...]:
    """What starts a process of which nobody keeps track, and is its parent; `code` is a filter, handed to it as file 4.

    bubblewrap would take the end of the thread that starts it for its parent's.
    """
    if not code:
        return ("/bin/sh", "-c", _KEPT, "dsh-sandbox")
    return ("/bin/sh", "-c", _KEPT_FILTERED, "dsh-sandbox", "".join(f"\\{byte:03o}" for byte in code))


def filter_for(policy: Policy) -> bytes:
    """The seccomp filter for a command."""
    from dsh_sandbox import landlock  # with ctypes, which a start need not wait for

    return landlock.beside(offline=not policy.network)


def filters(program: str, flags: Sequence[str], temp: str) -> bool:
    """Whether bubblewrap takes a filter here."""
    from dsh_sandbox import landlock

    if not landlock.filters():
        return False
    with tempfile.TemporaryFile() as file:
        file.write(landlock.beside(offline=True))
        file.seek(0)
        words = [program, *flags, "--seccomp", str(file.fileno()), *_probe(temp)]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, cwd="/", pass_fds=(file.fileno(),)
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0


def find() -> str | None:
    """Where the program is."""
    found = shutil.which(PROGRAM)
    return None if found is None else os.path.abspath(found)


@define
class _Mounts:
    """What is mounted where; of two that want one place, the first has it."""

    kinds: dict[str, Kind] = field(factory=dict)

    def add(self, path: str, kind: Kind) -> None:
        if path != "/":
            self.kinds.setdefault(path, kind)

    def above(self, path: str) -> Kind:
        """What `path` would be seen through, if nothing were mounted there."""
        while path != "/":
            path = os.path.dirname(path)
            if path in self.kinds:
                return self.kinds[path]
        return "ro"

    def shows(self, path: str) -> bool:
        """Whether `path` is the machine's own."""
        return self.kinds.get(path, self.above(path)) in _FROM_HOST


def arguments(
    program: str,
    basic: Sequence[str],
    policy: Policy,
    argv: Sequence[str],
    *,
    nothing: str,
    named: str,
    more: Sequence[str] = (),
) -> list[str]:
    """The command line that runs `argv` as `policy` says.

    Args:
        program: bubblewrap.
        basic: the flags that work here, see `flags_that_work`.
        nothing: an empty file, to stand in for those that are hidden.
        named: the working directory as it was named, which may lead through links.
        more: further flags.
    """
    mounts = _mounts(policy)
    words = [program, *basic, *more]
    if not policy.network:
        words.append("--unshare-net")
    # A superuser could set the kernel's own settings in /proc, whatever file system he is shown.
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    for path, kind in sorted(mounts.kinds.items(), key=lambda item: item[0].count("/")):
        if kind in _FROM_HOST:
            words += ["--bind" if kind == "rw" else "--ro-bind", path, path]
        elif kind == "temp":
            words += ["--bind", policy.temp, path]
        elif os.path.isdir(path):
            words += ["--tmpfs", path]
        else:
            words += ["--ro-bind", nothing, path]
    for path in policy.hidden:
        if mounts.kinds.get(path) == "empty" and os.path.isdir(path):
            words += ["--remount-ro", path]
    _lead(policy, mounts, named)
    return [*words, "--chdir", policy.cwd, "--", *argv]


def environment(env: Mapping[str, str], policy: Policy) -> dict[str, str]:
    """`env` for a command inside."""
    kept = {name: value for name, value in env.items() if name not in UNSET}
    private = _mounts(policy).kinds.get("/tmp") == "temp"
    return {**kept, "TMPDIR": "/tmp" if private else policy.temp}


def _mounts(policy: Policy) -> _Mounts:
    mounts = _Mounts()
    for path in policy.writable:
        mounts.add(path, "rw")
    for path in policy.protected:
        mounts.kinds[path] = "ro"
    for path in _TEMP:
        if os.path.isdir(path) and not os.path.islink(path):
            mounts.add(path, "temp")
    for path in ("/run", "/var/run"):
        if os.path.isdir(path) and not os.path.islink(path):
            mounts.add(path, "none")
    if mounts.kinds.get("/tmp") != "temp":
        mounts.add(policy.temp, "rw")
    _show(policy, mounts)
    for path in sorted(policy.hidden):
        if mounts.above(path) in _FROM_HOST:
            mounts.add(path, "empty")
    for path in sockets():
        # in the workspace they are the project's own
        if mounts.above(path) == "ro" and os.path.exists(path):
            mounts.add(path, "empty")
    _show(policy, mounts)  # what lies in a hidden directory, too
    for path in (*policy.protected, *policy.hidden):
        _pin(path, policy, mounts)
    return mounts


def sockets() -> list[str]:
    """Where the sockets of this machine's services are: a file system that cannot be written does not close them."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()[1:]
    except OSError:
        return []
    found = (line.rstrip("\n").split(" ", 7)[-1] for line in lines if " /" in line)
    return sorted({os.path.realpath(path) for path in found if path.startswith("/")})


def _show(policy: Policy, mounts: _Mounts) -> None:
    for path in (*policy.readable, *_SYSTEM_RUN, "/etc/resolv.conf"):
        real = os.path.realpath(path)
        if os.path.exists(real) and not mounts.shows(real):
            mounts.add(real, "ro")


def _pin(path: str, policy: Policy, mounts: _Mounts) -> None:
    """Make mounts of the directories above `path`: those cannot be moved away, for others to take their place."""
    roots = [root for root in policy.writable if is_under(path, root)]
    if not roots or path in roots or path not in mounts.kinds:
        return
    root = max(roots, key=len)
    above = os.path.dirname(path)
    while above != root:
        mounts.add(above, "rw")
        above = os.path.dirname(above)


def _lead(policy: Policy, mounts: _Mounts, named: str) -> None:
    """Where the working directory was named by a link in the machine's temporary directory, make that link."""
    for folder in _TEMP:
        if mounts.kinds.get(folder) == "temp" and named != policy.cwd and is_under(named, folder):
            link = os.path.join(policy.temp, os.path.relpath(named, folder))
            if not mounts.shows(named) and not os.path.lexists(link):
                with suppress(OSError):  # what commands left there may lead anywhere, and is not followed
                    place = open_folder(os.path.dirname(link), create=True)
                    try:
                        os.symlink(policy.cwd, os.path.basename(link), dir_fd=place)
                    finally:
                        os.close(place)


def flags_that_work(program: str, temp: str) -> tuple[tuple[str, ...] | None, str]:
    """The flags with which bubblewrap can be used here, found by trying; None, and why not, where it cannot."""
    base = ("--unshare-pid", "--unshare-ipc")
    if os.geteuid() == 0:
        keep = tuple(word for name in _KEPT_CAPABILITIES for word in ("--cap-add", name))
        candidates: tuple[tuple[str, ...], ...] = (("--cap-drop", "ALL", *keep),)
    else:
        candidates = (("--unshare-user", "--disable-userns"), ("--unshare-user",))
    why = ""
    for flags in candidates:
        try:
            words = [program, *flags, *base, *_probe(temp)]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, cwd="/")
        except (OSError, subprocess.SubprocessError) as error:
            return None, f"bubblewrap cannot be started: {error}"
        if done.returncode == 0:
            return (*flags, *base), ""
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1].removeprefix("bwrap: ") if said else f"it ended with status {done.returncode}"
    return None, f"bubblewrap does not work here: {why}"


def _probe(temp: str) -> tuple[str, ...]:
    """What is tried: one mount of each kind, and a network of its own."""
    true = shutil.which("true") or "/bin/true"
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", temp, temp, "--tmpfs", "/run")
    return ("--unshare-net", *mounts, "--remount-ro", "/proc", "--remount-ro", "/run", "--", true)
