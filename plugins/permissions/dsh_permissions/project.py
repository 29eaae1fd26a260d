"""Rules for good: writing what a person allowed into the project's settings, without losing what stands there."""

from __future__ import annotations

import os
import stat
import tomllib
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from dsh.config import config_files
from dsh.errors import ConfigError
from dsh.tomledit import extended, quoted
from dsh.trust import FILES, Folder, TrustStore, read_folder

__all__ = ["CannotWrite", "Plan", "add_rules", "plan", "write"]

_, LOCAL, ALLOWED = FILES
HEAD = "# Rules that were allowed for good when dsh asked.  dsh writes this file anew; comments do not last.\n\n"


class CannotWrite(Exception):
    """There is no place for a project's rule; the message says why."""


@frozen
class Plan:
    """A file to write.

    Attributes:
        path: which.
        content: what it shall hold.
        note: why it is not the usual file; empty if it is.
        folder: the project as it was read.
    """

    path: Path
    content: bytes
    note: str
    folder: Folder


def plan(rules: Sequence[str], cwd: Path, home: Path) -> Plan:
    """Where `rules` go, and what the file will look like.  Nothing is written.

    Args:
        cwd: the agent's working directory.
        home: the directory of the user's settings.

    Raises:
        CannotWrite: the rules would not count, or the file cannot be read.
    """
    files = config_files(cwd=cwd, home=home, environ=os.environ)
    root = files.root if files.root is not None else cwd
    local = root / ".dsh" / LOCAL
    if (files.root is not None and files.project is None) or local.parent.resolve() == home.resolve():
        raise CannotWrite(f"{local.parent} holds your own settings, not a project's; put the rule there yourself")
    try:
        folder = TrustStore(home).judged(read_folder(root, cwd))
    except ConfigError as error:
        raise CannotWrite(error.message) from None
    if folder.wants and not folder.trusted:
        raise CannotWrite("this folder is not trusted, so its rules do not count: `dsh trust` shows what it brings")
    present = folder.files.get(LOCAL)
    added = None if local.is_symlink() else add_rules(present, rules)
    if added is not None:
        return Plan(local, added, "", folder)
    note = f"{LOCAL} cannot be changed without losing some of it"
    added = HEAD.encode() + _anew(folder.files.get(ALLOWED), rules)
    return Plan(local.with_name(ALLOWED), added, note, folder)


def write(planned: Plan, home: Path) -> None:
    """Write the file, whole or not at all, and go on trusting the folder as it is then.

    Raises:
        CannotWrite: the disk says no.
        ConfigError: it cannot be noted that the folder is trusted.
    """
    try:
        _replace(planned.folder.root, planned.path.name, planned.content)
    except OSError as error:
        raise CannotWrite(f"{planned.path}: cannot be written: {error.strerror or error}") from None
    # not as it is on the disk by now: whatever else has changed meanwhile is asked about
    TrustStore(home).keep(planned.folder.with_file(planned.path.name, planned.content), True)


def _replace(root: Path, name: str, content: bytes) -> None:
    directory = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    top = os.open(root, directory)
    try:
        if not os.path.isdir(root / ".dsh"):
            os.mkdir(".dsh", 0o755, dir_fd=top)
        place = os.open(".dsh", directory | os.O_NOFOLLOW, dir_fd=top)
    finally:
        os.close(top)
    try:
        mode = _mode(name, place)
        beside = f".{name}.{uuid.uuid4().hex}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(beside, flags, mode, dir_fd=place), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, name, src_dir_fd=place, dst_dir_fd=place)
        except OSError:
            with suppress(OSError):
                os.unlink(beside, dir_fd=place)
            raise
    finally:
        os.close(place)


def _mode(name: str, place: int) -> int:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0o644


def add_rules(present: bytes | None, rules: Sequence[str]) -> bytes | None:
    """The file with the rules in ``permissions.allow`` and everything else as it was; None if that cannot be done."""
    if present is None:
        return _anew(None, rules)
    try:
        text = present.decode("utf-8")
    except ValueError:
        return None
    added = extended(text, "permissions", "allow", rules)
    return None if added is None else added.encode()


def _anew(present: bytes | None, rules: Sequence[str]) -> bytes:
    allowed: list[str] = []
    if present is not None:
        with suppress(ValueError):
            table = tomllib.loads(present.decode("utf-8", "replace")).get("permissions") or {}
            allowed = table.get("allow") or []
    lines = "".join(f"    {quoted(rule)},\n" for rule in dict.fromkeys([*allowed, *rules]))
    return f"[permissions]\nallow = [\n{lines}]\n".encode()
