"""The contents of files, each kept once under its hash, in the session's folder."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import define, frozen

from dsh.jsonvalue import dumps, loads
from dsh.session.folder import private_folder, session_folder

__all__ = [
    "CheckpointsConfig",
    "Journal",
    "Kept",
    "Rewound",
    "Snapshot",
    "Store",
    "look",
    "missing_folders",
    "raw_of",
    "write_whole",
]

NAME = "checkpoints"
JOURNAL = "rewound.jsonl"
CHUNK = 1 << 20


@frozen
class CheckpointsConfig:
    """The table ``[checkpoints]``.

    Attributes:
        enabled: keep what tools change.
        max_file_bytes: a larger file is not kept.
        max_total_bytes: of all that is kept of one session.
    """

    enabled: bool = True
    max_file_bytes: int = 10 << 20
    max_total_bytes: int = 500 << 20


@frozen
class Snapshot:
    """A file as it was: None of all where there was none; `odd` says why it is no file to keep."""

    hash: str | None = None
    mode: int | None = None
    size: int = 0
    odd: str = ""


@frozen
class Kept:
    """Whether a content can be brought back, and if not, why."""

    ok: bool
    reason: str = ""


def look(path: str) -> Snapshot:
    """What is at `path` now, which has no links in it; blocks for as long as the disk takes.

    A file that cannot be read is `odd`, with the reason.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return Snapshot()
    except OSError as error:
        why = "there is a link in its place" if os.path.islink(path) else f"it cannot be read: {error.strerror}"
        return Snapshot(odd=why)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "something that is no file"
            return Snapshot(odd=f"there is {what} in its place")
        digest, size = hashlib.sha256(), 0
        while chunk := os.read(fd, CHUNK):
            digest.update(chunk)
            size += len(chunk)
    except OSError as error:
        return Snapshot(odd=f"it cannot be read: {error.strerror}")
    finally:
        os.close(fd)
    return Snapshot(digest.hexdigest(), stat.S_IMODE(found.st_mode), size)


def missing_folders(path: str) -> int:
    """How many of the folders that `path` lies in are not there; blocks for as long as the disk takes."""
    count, folder = 0, os.path.dirname(path)
    while not os.path.lexists(folder):
        count, folder = count + 1, os.path.dirname(folder)
    return count


def raw_of(path: str) -> str:
    """The bytes of a path in hex if they are no UTF-8; else nothing."""
    raw = os.fsencode(path)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.hex()
    return ""


@define
class Store:
    """What is kept of one session."""

    home: Path
    session_id: str
    config: CheckpointsConfig
    _total: int | None = None

    def keep(self, path: str, snapshot: Snapshot) -> Kept:
        """Keep the content of `path`, which is as `snapshot` says; blocks for as long as the disk takes."""
        if snapshot.odd:
            return Kept(False, snapshot.odd)
        if snapshot.hash is None:
            return Kept(True)
        if snapshot.size > self.config.max_file_bytes:
            return Kept(False, f"it has {snapshot.size} bytes, more than checkpoints.max_file_bytes")
        try:
            folder = private_folder(self.home, self.session_id, NAME)
            target = folder / snapshot.hash
            if target.exists():
                return Kept(True)
            total = self._used(folder)
            if total + snapshot.size > self.config.max_total_bytes:
                return Kept(False, "checkpoints.max_total_bytes of this session are used up")
            data = Path(path).read_bytes()
            if hashlib.sha256(data).hexdigest() != snapshot.hash:
                return Kept(False, "it was changed while it was kept")
            write_whole(target, data, 0o600)
            self._total = total + len(data)
        except OSError as error:
            return Kept(False, f"it could not be kept: {error.strerror or error}")
        return Kept(True)

    def content(self, digest: str) -> bytes:
        """What was kept under a hash.

        Raises:
            OSError: it is not there.
            ValueError: it is not what it was.
        """
        data = (session_folder(self.home, self.session_id) / NAME / digest).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"what was kept as {digest} is damaged")
        return data

    def has(self, digest: str) -> bool:
        """Whether something is kept under a hash."""
        return (session_folder(self.home, self.session_id) / NAME / digest).is_file()

    def _used(self, folder: Path) -> int:
        if self._total is None:
            self._total = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
        return self._total


@frozen
class Rewound:
    """What a rewind put in the place of a file's content: from which hash, with which permission bits, to which."""

    before: str | None
    mode: int | None
    after: str | None


@frozen
class Journal:
    """What rewinds of a session and of its forks did to files, so that they can be undone."""

    home: Path
    session_id: str

    def last(self) -> Mapping[str, Rewound]:
        """What the last rewind did to each path; blocks for as long as the disk takes.

        Lines that cannot be read count for nothing, as one that a crash cut off.
        """
        found: dict[str, Rewound] = {}
        try:
            lines = (session_folder(self.home, self.session_id) / NAME / JOURNAL).read_bytes().splitlines()
        except OSError:
            return found
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):
                record = loads(line)
                path = os.fsdecode(bytes.fromhex(record["path"]))
                found[path] = Rewound(record["before"], record["mode"], record["after"])
        return found

    def add(self, path: str, entry: Rewound) -> None:
        """Say what is about to be done to a file.

        Raises:
            OSError: it cannot be written.
        """
        folder = private_folder(self.home, self.session_id, NAME)
        record = {"path": os.fsencode(path).hex(), "before": entry.before, "mode": entry.mode, "after": entry.after}
        fd = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "ab", buffering=0) as file:
            file.write(b"\n" + dumps(record) + b"\n")
            os.fsync(file.fileno())


def write_whole(target: Path, data: bytes, mode: int) -> None:
    """Write a file whole or not at all.  What a killed process left beside it is swept up.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    _sweep(target)
    beside = target.with_name(f"{_beside(target)}{os.getpid()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _beside(target: Path) -> str:
    """How names begin that a file has until it is whole; short, however long its own name is."""
    return f".dsh-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _sweep(target: Path) -> None:
    """Remove what processes that live no more left of a file they were writing."""
    pattern = re.compile(re.escape(_beside(target)) + r"(\d+)\Z")
    for name in os.listdir(target.parent):
        found = pattern.match(name)
        if found is None or (int(found[1]) != os.getpid() and _lives(int(found[1]))):
            continue
        with suppress(OSError):
            os.unlink(target.with_name(name))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
