"""Landlock: a program that takes rights from itself for good, and becomes the command.

    python -I -S landlock.py FD FIELD=VALUE... -- PROGRAM ARGUMENT...

It is run as a file, by itself, so that it starts fast: nothing of dsh is imported.  What goes wrong
before the command runs is written to the descriptor FD, which the command does not get, and the
exit status is 125.

Of the rights that the kernel's version of Landlock knows none is left but those that are given.
What Landlock does not know is taken by other means: capabilities are dropped, and a seccomp filter
keeps sockets away and refuses to set set-user-id bits.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

TYPE_CHECKING = False  # importing it would take longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

FAILED = 125

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_KNOWN = ((1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
"""The rights over files, by the version that is the index and one more."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_NET = 0b11
_SCOPES = 0b11
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 38, 22, 24, 47
_DAC_OVERRIDE = 1

_CALLS = {
    # of each machine: its number in seccomp, and the numbers of socket, chmod, fchmod and fchmodat
    "x86_64": (0xC000003E, 41, 90, 91, 268),
    "aarch64": (0xC00000B7, 198, None, 52, 53),
    "riscv64": (0xC00000F3, 198, None, 52, 53),
}
_FCHMODAT2, _IO_URING_SETUP = 452, 425
_KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219), "riscv64": (217, 218, 219)}
"""The kernel's keyrings, which belong to the person and to no file system."""
_COMPAT = {
    # the kind of programs that each machine runs beside its own: keyrings, and all that makes sockets or rings
    "x86_64": (0x40000003, (286, 287, 288), (102, 359, 425)),
    "aarch64": (0x40000028, (309, 310, 311), (281, 425)),
}
_FAMILIES = (1, 2, 10, 16, 17)
"""What a network of one's own confines: local sockets, the two internets, the kernel's messages, packets."""
_EPERM, _EACCES, _ENOSYS, _EAFNOSUPPORT = 1, 13, 38, 97


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def version(libc: Any = None) -> int:
    """The version of Landlock that the kernel has; 0 where it has none, or none that is switched on."""
    if sys.platform != "linux":
        return 0
    found: int = (libc or _libc()).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(found, 0)


def filters() -> bool:
    """Whether the seccomp filter is known for this machine."""
    return sys.platform == "linux" and os.uname().machine in _CALLS and sys.maxsize > 1 << 32


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(libc: Any, what: int, value: int, more: int = 0) -> int:
    words = [ctypes.c_ulong(word) for word in (value, more, 0, 0)]
    return int(libc.prctl(ctypes.c_int(what), *words))


class _Rules:
    def __init__(self, libc: Any, known: int, handled: int, net: int, scoped: int) -> None:
        self.libc, self.known = libc, known
        attr = struct.pack("=QQQ", handled, net, scoped)
        size = {True: 24, False: 16 if net else 8}[bool(scoped)]
        self.fd = _check(libc.syscall(444, attr, ctypes.c_size_t(size), ctypes.c_uint32(0)), "landlock_create_ruleset")

    def allow(self, path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return  # it is gone, or may not be entered, and so nobody needs a rule for it
        try:
            kind = os.fstat(fd).st_mode & 0o170000
            if kind == 0o120000:
                return  # where a link leads has a rule of its own, or none
            rights &= self.known if kind == 0o040000 else self.known & _OF_FILES
            rule = struct.pack("=Qi", rights, fd)
            _check(self.libc.syscall(445, self.fd, 1, rule, ctypes.c_uint32(0)), f"landlock_add_rule {path}")
        finally:
            os.close(fd)

    def allow_reading(self, path: str, hidden: Sequence[str]) -> None:
        """Let `path` be read, but for `hidden`."""
        inside = [other for other in hidden if other == path or other.startswith(path.rstrip("/") + "/")]
        if not inside:
            self.allow(path, _READ)
        elif path not in inside:
            try:
                with os.scandir(path) as entries:
                    names = [entry.path for entry in entries if not entry.is_symlink()]
            except OSError:
                return
            for name in names:
                self.allow_reading(name, inside)


def _restrict(libc: Any, policy: Mapping[str, Any]) -> None:
    abi = version(libc)
    if abi < 1:
        raise OSError(0, "the kernel has no Landlock, or it is not switched on")
    known = _KNOWN[min(abi, len(_KNOWN)) - 1]
    offline = not policy["network"]
    rules = _Rules(libc, known, known, _NET if abi >= 4 and offline else 0, _SCOPES if abi >= 6 else 0)
    hidden = policy["hidden"]
    if hidden:
        rules.allow("/", _READ_DIR)
    rules.allow_reading("/", hidden)
    for path in policy["writable"]:
        inside = [other for other in hidden if other.startswith(path.rstrip("/") + "/")]
        rules.allow(path, known if not inside else known & ~(_READ_FILE | _EXECUTE))
    for path in (*policy["writable"], *policy["readable"], policy["cwd"]):
        rules.allow_reading(path, [other for other in hidden if other != path])
    rules.allow(policy["temp"], known)
    for name in _DEVICES:
        rules.allow(f"/dev/{name}", _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL)
    _check(libc.syscall(446, rules.fd, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(rules.fd)


def _drop_capabilities(libc: Any) -> None:
    """Keep of a superuser's rights the one to work on other users' files."""
    for number in range(64):
        if number != _DAC_OVERRIDE and _prctl(libc, _PR_CAPBSET_DROP, number) < 0:
            break  # there are no more, or none to drop
    _prctl(libc, _PR_CAP_AMBIENT, 4)
    header = struct.pack("=Ii", 0x20080522, 0)
    kept = (1 << _DAC_OVERRIDE) if os.geteuid() == 0 else 0
    data = struct.pack("=IIIIII", kept, kept, 0, 0, 0, 0)
    if os.geteuid() == 0 and libc.capset(header, data) < 0:
        libc.capset(header, struct.pack("=IIIIII", 0, 0, 0, 0, 0, 0))


def _filter(libc: Any, *, offline: bool) -> None:
    """No sockets, where there is no network; no set-user-id bits; no rings, which do both unseen."""
    arch, socket, chmod, fchmod, fchmodat = _CALLS[os.uname().machine]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny = 0x7FFF0000, 0x00050000
    program = [
        (load, 0, 0, 4),
        (equal, 1, 0, arch),
        (give, 0, 0, deny | _ENOSYS),
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),
        (give, 0, 0, deny | _ENOSYS),
        (equal, 0, 1, _IO_URING_SETUP),
        (give, 0, 0, deny | _ENOSYS),
    ]
    for key in _KEYS[os.uname().machine]:
        program += [(equal, 0, 1, key), (give, 0, 0, deny | _ENOSYS)]
    if offline:
        program += [(equal, 0, 1, socket), (give, 0, 0, deny | _EACCES)]
    for number, argument in ((chmod, 1), (fchmod, 1), (fchmodat, 2), (_FCHMODAT2, 2)):
        if number is not None:
            program += [
                (equal, 0, 4, number),
                (load, 0, 0, 16 + 8 * argument),
                (any_bit, 0, 1, 0o6000),
                (give, 0, 0, deny | _EPERM),
                (give, 0, 0, allow),
            ]
    program.append((give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    held = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    _check(_prctl(libc, _PR_SET_SECCOMP, 2, ctypes.addressof(held)), "seccomp")


def beside(*, offline: bool) -> bytes:
    """The filter for a command that other means confine: no keyrings and, offline, no sockets that they do not cover.

    Those of a virtual machine to its host, for one, are of no network.
    """
    machine = os.uname().machine
    arch, socket = _CALLS[machine][:2]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, deny = (give, 0, 0, 0x7FFF0000), 0x00050000
    missing = (give, 0, 0, deny | _ENOSYS)

    def refused(numbers: Sequence[int]) -> list[tuple[int, int, int, int]]:
        return [step for number in numbers for step in ((equal, 0, 1, number), missing)]

    own = [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), missing, *refused(_KEYS[machine])]
    if offline:
        families = [(equal, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
        asked = [(load, 0, 0, 16), *families, (give, 0, 0, deny | _EAFNOSUPPORT), allow]
        own += [*refused([_IO_URING_SETUP]), (equal, 0, len(asked), socket), *asked]
    own.append(allow)
    other = [missing]
    if machine in _COMPAT:
        kind, keys, sockets = _COMPAT[machine]
        inside = [(load, 0, 0, 0), *refused(keys), *(refused(sockets) if offline else []), allow]
        other = [(equal, 0, len(inside), kind), *inside, missing]
    steps = [(load, 0, 0, 4), (equal, 0, len(own), arch), *own, *other]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _policy(words: Sequence[str]) -> dict[str, Any]:
    """The fields; those that may be given more than once are lists."""
    found: dict[str, Any] = {"writable": [], "hidden": [], "readable": [], "network": False, "new_session": False}
    for word in words:
        name, _, value = word.partition("=")
        if isinstance(found.get(name), list):
            found[name].append(value)
        else:
            found[name] = value
    return found


def main(words: Sequence[str]) -> None:
    """Take the rights, and become the command."""
    report = int(words[0])
    try:
        end = list(words).index("--")
        policy = _policy(words[1:end])
        libc = _libc()
        if policy["new_session"]:
            try:  # noqa: SIM105  # what has it in a word takes longer to import than all of this
                os.setsid()
            except PermissionError:
                pass  # it leads one already
        if report >= 0:
            os.set_inheritable(report, False)
        _check(_prctl(libc, _PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")
        _restrict(libc, policy)
        _drop_capabilities(libc)
        if filters():
            _filter(libc, offline=not policy["network"])
        elif not policy["network"]:
            raise OSError(0, "on this machine Landlock alone does not keep all of the network away")
        os.execvp(words[end + 1], list(words[end + 1 :]))
    except Exception as error:
        text = f"{error.strerror}" if isinstance(error, OSError) and error.strerror else repr(error)
        if report >= 0:
            os.write(report, text.encode("utf-8", "replace")[:2000])
        print(f"the sandbox could not be set up: {text}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
