"""Reading a text that somebody put into a folder: never hanging, never without a bound; and writing one, whole."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from .jsonvalue import clean

__all__ = ["TextFile", "read_text", "replace_file"]


@frozen
class TextFile:
    """What a file says.

    Attributes:
        text: its content, or its beginning, without a byte order mark; line ends are ``\\n``.
        size: of the whole file, in bytes.
        cut: `text` is not all of it.
        invalid: it is no UTF-8 throughout; what is not, is U+FFFD.
        binary: it holds NUL characters, so it is hardly a text.
    """

    text: str
    size: int
    cut: bool
    invalid: bool
    binary: bool


def read_text(path: str | Path, limit: int) -> TextFile:
    """Read at most `limit` bytes of a regular file; blocks for as long as the disk takes.

    Raises:
        OSError: it is not there, may not be read, or is no regular file (`IsADirectoryError` for a directory).
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(21, "is a directory", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(22, "is no regular file", str(path))
        data = bytearray()
        while len(data) <= limit and (chunk := os.read(fd, min(1 << 20, limit + 1 - len(data)))):
            data += chunk
    finally:
        os.close(fd)
    cut = len(data) > limit
    kept = bytes(data[:limit])
    text = kept.decode("utf-8", "replace")
    if cut and text.endswith("\ufffd"):
        text = text.rstrip("\ufffd")  # a character that the cut went through
    invalid = "\ufffd" in text and "\ufffd".encode() not in kept
    text = clean(text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n")
    return TextFile(text, max(found.st_size, len(kept)), cut, invalid, "\0" in text)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file, whole or not at all; a link stays, and what it leads to is written.

    Args:
        mode: its rights; if not given, those that it has, or for a new one what the umask leaves of 0o644.

    Raises:
        OSError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    beside = real.with_name(f".{real.name}.{uuid.uuid4().hex}")
    rights = 0o644 if mode is None else mode
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, rights), "wb") as file:
            if mode is None and real.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(real.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, real)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise
