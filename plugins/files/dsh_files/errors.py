"""The errors of the file tools, with a code each that programs can tell apart."""

from __future__ import annotations

import errno
from typing import Literal, TypeAlias

from dsh.errors import ToolError

__all__ = ["Code", "FsError", "os_error"]

Code: TypeAlias = Literal[
    "FS_NOT_FOUND",
    "FS_NOT_TEXT",
    "FS_NOT_REGULAR_FILE",
    "FS_PERMISSION_DENIED",
    "FS_IO_ERROR",
    "FS_STALE_VERSION",
    "FS_NOT_OBSERVED",
    "FS_AMBIGUOUS_EDIT",
    "FS_EDIT_NOT_FOUND",
    "FS_MOVED",
]

_CODES: dict[int | None, Code] = {
    errno.ENOENT: "FS_NOT_FOUND",
    errno.ENOTDIR: "FS_NOT_FOUND",
    errno.EISDIR: "FS_NOT_REGULAR_FILE",
    errno.EACCES: "FS_PERMISSION_DENIED",
    errno.EPERM: "FS_PERMISSION_DENIED",
    errno.EROFS: "FS_PERMISSION_DENIED",
}


class FsError(ToolError):
    """A file cannot be read or changed as asked; the message is for the model, and says what to do.

    Args:
        absent: the reason is that there is nothing at that path.
    """

    default_code = "FS_IO_ERROR"

    def __init__(self, message: str, code: Code, *, absent: bool = False) -> None:
        super().__init__(message, code=code)
        self.absent = absent


def os_error(error: OSError, path: str) -> FsError:
    """What the operating system said about `path`, as an `FsError`."""
    code = _CODES.get(error.errno, "FS_IO_ERROR")
    if error.errno == errno.ENOENT:
        return FsError(f"{path} does not exist", code, absent=True)
    if error.errno == errno.ENOTDIR:
        return FsError(f"{path} does not exist: a part of it is a file, not a directory", code, absent=True)
    if code == "FS_PERMISSION_DENIED":
        return FsError(f"{path}: no permission ({error.strerror})", code)
    return FsError(f"{path}: {error.strerror or error}", code)
