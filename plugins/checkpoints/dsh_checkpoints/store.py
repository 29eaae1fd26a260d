"""The contents of files, each kept once under its hash, in the session's folder."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from attrs import define, frozen

from dsh.session.folder import private_folder, session_folder

__all__ = ["CheckpointsConfig", "Kept", "Snapshot", "Store", "look", "write_whole"]

NAME = "checkpoints"
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
    """What is at `path` now; blocks for as long as the disk takes.

    A file that cannot be read is `odd`, with the reason.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return Snapshot()
    except OSError as error:
        return Snapshot(odd=f"it cannot be read: {error.strerror}")
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return Snapshot(odd="it is no regular file")
        digest, size = hashlib.sha256(), 0
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return Snapshot(digest.hexdigest(), stat.S_IMODE(found.st_mode), size)


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

    def _used(self, folder: Path) -> int:
        if self._total is None:
            self._total = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
        return self._total


def write_whole(target: Path, data: bytes, mode: int) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    beside = target.with_name(f".{target.name}.{os.getpid()}")
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
