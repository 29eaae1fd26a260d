"""The disk: opening without hanging, versions, and writing so that no half of a file is ever seen.

Everything here blocks, and runs in a worker thread where it may take long.  What it waits for is
the disk alone; a cancelled call ends at the next chunk, and never between publishing and reporting.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NewType

from dsh.paths import open_folder, open_resolved

from .errors import FsError, os_error
from .paths import Target

__all__ = ["Version", "chunks", "not_observed", "open_regular", "probe", "publish", "read_whole", "version_of"]

Version = NewType("Version", str)
"""Changes whenever a file's content does: modification time in nanoseconds, size and inode."""

CHUNK = 256 * 1024
STAGED = "new"
_EFFECTIVE = os.access in os.supports_effective_ids


def version_of(found: os.stat_result) -> Version:
    """The version that `found` shows."""
    return Version(f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}")


def probe(target: Target) -> os.stat_result | None:
    """What is there, or None.

    Raises:
        FsError: it is no regular file, or cannot be looked at.
    """
    try:
        found = os.stat(target.key)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise os_error(error, target.shown) from error
    _require_regular(found, target)
    return found


def _require_regular(found: os.stat_result, target: Target) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FsError(f"{target.shown} is a directory; list it with ls in the shell", "FS_NOT_REGULAR_FILE")
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
        raise FsError(f"{target.shown} is {kind}, not a file", "FS_NOT_REGULAR_FILE")


@contextmanager
def open_regular(target: Target) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor for reading and what it is open on.

    Raises:
        FsError: there is no such file, it is no regular file, or it cannot be opened.
    """
    try:
        # Opening some devices does something already, so look first; the look at the descriptor then counts.
        _require_regular(os.stat(target.key), target)
        descriptor = open_resolved(target.key, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise os_error(error, target.shown) from error
    try:
        found = os.fstat(descriptor)
        _require_regular(found, target)
        yield descriptor, found
    except OSError as error:
        raise os_error(error, target.shown) from error
    finally:
        os.close(descriptor)


def read_whole(descriptor: int, size: int) -> bytes:
    """The first `size` bytes, or all if there are fewer."""
    pieces = []
    while size > 0 and (piece := os.read(descriptor, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def chunks(descriptor: int, size: int | None, check: Callable[[], None]) -> Iterator[bytes]:
    """The first `size` bytes (None: all) in pieces; `check` is called before each and may raise."""
    left = size
    while left is None or left > 0:
        check()
        piece = os.read(descriptor, CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        if left is not None:
            left -= len(piece)
        yield piece


def publish(target: Target, data: bytes, replaced: os.stat_result | None, check: Callable[[], None]) -> Version:
    """Make `data` the content of `target`, whole or not at all.

    Args:
        replaced: what was found there, whose mode, owner and attributes are kept; None when the file must be
            new, and then it never takes another one's place.
        check: called right before the file appears; may raise to stop that.

    Returns:
        The version of what was written.

    Raises:
        FsError: ``FS_NOT_OBSERVED`` when the file must be new and is not; or the disk's own error.
    """
    try:
        if replaced is not None and not os.access(target.key, os.W_OK, effective_ids=_EFFECTIVE):
            raise PermissionError(errno.EACCES, "the file is read-only")
        parent, name = os.path.split(target.key)
        # From here on nothing is reached by a path that somebody could bend meanwhile.
        with _folder(parent, replaced is None) as folder, _staging(folder, target) as staging:
            version = _fill(staging, data, target, replaced)
            check()
            if replaced is not None:
                os.replace(STAGED, name, src_dir_fd=staging, dst_dir_fd=folder)
            else:
                _appear(staging, folder, name, target)
            return version
    except (FileExistsError, NotADirectoryError) as error:
        # Raised for the parent alone: a part of the path is a file.
        raise os_error(NotADirectoryError(errno.ENOTDIR, "not a directory"), target.shown) from error
    except OSError as error:
        raise os_error(error, target.shown) from error


@contextmanager
def _folder(path: str, create: bool) -> Iterator[int]:
    descriptor = open_folder(path, create=create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _staging(folder: int, target: Target) -> Iterator[int]:
    """A private directory beside the file, on the same disk."""
    name = f".dsh-{os.urandom(8).hex()}"
    os.mkdir(name, 0o700, dir_fd=folder)
    staging = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield staging
    except OSError as error:
        failed = os_error(error, target.shown)
        leftover = _remove(staging, name, folder, target)
        raise (FsError(f"{failed.message}; {leftover}", "FS_IO_ERROR") if leftover else failed) from error
    except BaseException:
        _remove(staging, name, folder, target)
        raise
    else:
        _remove(staging, name, folder, target)


def _remove(staging: int, name: str, folder: int, target: Target) -> str | None:
    try:
        with suppress(FileNotFoundError):
            os.unlink(STAGED, dir_fd=staging)
        os.close(staging)
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        path = os.path.join(os.path.dirname(target.key), name)
        return f"{path} could not be removed either ({error.strerror})"
    return None


def _fill(staging: int, data: bytes, target: Target, replaced: os.stat_result | None) -> Version:
    # A new file gets what the umask leaves, as from any editor; nobody else can look into the folder meanwhile.
    mode = 0o666 if replaced is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(STAGED, flags, mode, dir_fd=staging)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if replaced is not None:
            _keep(file.fileno(), target, replaced)
        os.fsync(file.fileno())
        return version_of(os.fstat(file.fileno()))


def _keep(descriptor: int, target: Target, replaced: os.stat_result) -> None:
    """Give the new file what the old one had; the owner first, as changing it takes bits off the mode."""
    mode = stat.S_IMODE(replaced.st_mode)
    if (replaced.st_uid, replaced.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
        except OSError:
            mode &= 0o777  # bits that lend the owner's rights must not lend another one's
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target.key):
                os.setxattr(descriptor, name, os.getxattr(target.key, name))
    os.fchmod(descriptor, mode)


def _appear(staging: int, folder: int, name: str, target: Target) -> None:
    """Give a complete file its name, unless the name is taken."""
    try:
        try:
            os.link(STAGED, name, src_dir_fd=staging, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
            # A disk without hard links: claim the name, then put the file in the place of the claim.
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
            os.replace(STAGED, name, src_dir_fd=staging, dst_dir_fd=folder)
    except FileExistsError as error:
        raise not_observed(target) from error


def not_observed(target: Target) -> FsError:
    """The error of writing over a file that nobody looked at."""
    return FsError(f"{target.shown} exists and was not read; read it before you overwrite it", "FS_NOT_OBSERVED")
