"""Whole operations on one file: look at the version, change, publish.  They block, and run in a worker thread."""

from __future__ import annotations

import codecs
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import trio
from attrs import define, field, frozen

from dsh.jsonvalue import Json

from .config import FilesConfig
from .edits import Edited, dominant_end, normal, replace
from .errors import FsError
from .local import Version, chunks, not_observed, open_regular, probe, publish, read_whole, version_of
from .paths import Target, TargetKey
from .window import NotText, Window, take

__all__ = ["Written", "edit_of", "edit_text", "editable", "exclusive", "window", "writable", "write_text"]

PROBED = 8192
"""A NUL among so many first bytes makes a file binary."""
MOST_BEFORE = 1024 * 1024
"""Bytes of an old text that a diff is made of."""
MOST_EDITED = 64 * 1024 * 1024
BOM = codecs.BOM_UTF8


@frozen
class Written:
    """What a change came to.

    Attributes:
        version: of the file now.
        diffs: JSON for user interfaces; None where there was nothing to compare with.
        count: replaced places.
        note: what else the model should know.
    """

    version: Version
    diffs: list[Json] | None
    count: int = 0
    note: str = ""


# -- reading


def window(
    descriptor: int,
    found: os.stat_result,
    target: Target,
    offset: int,
    limit: int,
    config: FilesConfig,
    check: Callable[[], None],
) -> Window:
    """The lines of an open file that a call asks for.

    Raises:
        FsError: ``FS_NOT_TEXT``.
    """
    try:
        if 0 < found.st_size < config.read_stream_min_size:
            data = read_whole(descriptor, found.st_size)
            _decode(data, PROBED)
            return take((data,), offset, limit, config)
        # Files of /proc have a size of 0 and a content all the same.
        return take(_text_chunks(chunks(descriptor, found.st_size or None, check)), offset, limit, config)
    except NotText as error:
        raise _not_text(target, found.st_size, error) from None


def _text_chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for number, piece in enumerate(pieces):
        if number == 0 and b"\0" in piece[:PROBED]:
            raise NotText("it holds NUL bytes")
        yield piece


def _decode(data: bytes, probed: int | None) -> str:
    if b"\0" in data[:probed]:
        raise NotText("it holds NUL bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotText(f"line {line} holds the byte 0x{data[error.start]:02x}") from None


def _not_text(target: Target, size: int, error: NotText) -> FsError:
    kind = "is a binary file" if "NUL" in str(error) else "is not UTF-8 text"
    return FsError(
        f"{target.shown} {kind} of {size} bytes ({error}); look at it, or convert it, with a command in the shell",
        "FS_NOT_TEXT",
    )


# -- writing


@define
class _Turnstile:
    lock: trio.Lock = field(factory=trio.Lock)
    users: int = 0


_turnstiles: trio.lowlevel.RunVar[dict[TargetKey, _Turnstile]] = trio.lowlevel.RunVar("dsh_files.turnstiles")


@asynccontextmanager
async def exclusive(key: TargetKey) -> AsyncIterator[None]:
    """One writer of a file at a time, first come first served, whichever agents they write for.

    Cancelling the wait leaves the queue.
    """
    waiting = _turnstiles.get({})
    _turnstiles.set(waiting)
    turnstile = waiting.setdefault(key, _Turnstile())
    turnstile.users += 1
    try:
        async with turnstile.lock:
            yield
    finally:
        turnstile.users -= 1
        if not turnstile.users:
            del waiting[key]


def write_text(target: Target, content: str, expected: Version | None, check: Callable[[], None]) -> Written:
    """Make `content` the content of a file; `expected` is the version it must have now, None that it must be new.

    Raises:
        FsError: ``FS_NOT_OBSERVED``, ``FS_STALE_VERSION``, or why it cannot be written.
    """
    from .diffs import hunks

    found = writable(target, expected)
    if found is None:
        return Written(publish(target, content.encode(), None, check), None)
    before = _text_before(target)
    version = publish(target, content.encode(), found, check)
    if before is None:
        return Written(version, None)
    old, new = dominant_end(before), dominant_end(content)
    note = f"its line ends are now {_END[new]}, they were {_END[old]}" if old != new and "\n" in content else ""
    was, now = normal(before), normal(content)
    diffs = hunks(target.shown, was, now)
    return Written(version, diffs if diffs or was == now else None, note=note)


_END = {"\n": "LF", "\r\n": "CRLF"}


def writable(target: Target, expected: Version | None) -> os.stat_result | None:
    """The file that is to be overwritten as it was seen; None if it is new.

    Raises:
        FsError: ``FS_NOT_OBSERVED`` or ``FS_STALE_VERSION``.
    """
    found = probe(target)
    if expected is not None:
        return _unchanged(target, found, expected, missing="write it again to make it anew")
    if found is not None:
        raise not_observed(target)
    return None


def edit_text(
    target: Target, old: str, new: str, every: bool, expected: Version | None, check: Callable[[], None]
) -> Written:
    """Replace `old` by `new` in a file that has the version `expected`; None means that it was found missing.

    Raises:
        FsError: ``FS_STALE_VERSION`` before anything else, then what is wrong with file or text.
    """
    from .diffs import hunks

    found = editable(target, expected)
    mark, edited = edit_of(target, found, old, new, every)
    version = publish(target, mark + edited.text.encode(), found, check)
    return Written(version, hunks(target.shown, edited.before, edited.after) or None, edited.count)


def editable(target: Target, expected: Version | None) -> os.stat_result:
    """The file that is to be edited as it was seen; None as `expected` means that it was found missing.

    Raises:
        FsError: ``FS_NOT_OBSERVED`` or ``FS_STALE_VERSION``.
    """
    found = probe(target)
    if expected is None and found is not None:
        raise FsError(f"{target.shown} was made since you looked; read it first", "FS_NOT_OBSERVED")
    return _unchanged(target, found, expected, missing="write makes it anew")


def edit_of(target: Target, found: os.stat_result, old: str, new: str, every: bool) -> tuple[bytes, Edited]:
    """What an edit makes of a file, and the mark that stands before its text.

    Raises:
        FsError: what is wrong with file or text.
    """
    if found.st_size > MOST_EDITED:
        raise FsError(
            f"{target.shown} has {found.st_size} bytes, more than the {MOST_EDITED} that edit takes; "
            "change it with a command in the shell",
            "FS_IO_ERROR",
        )
    with open_regular(target) as (descriptor, _):
        data = read_whole(descriptor, found.st_size)
    mark = BOM if data.startswith(BOM) else b""
    try:
        text = _decode(data.removeprefix(mark), None)
    except NotText as error:
        raise _not_text(target, len(data), error) from None
    return mark, replace(text, old.removeprefix("\ufeff"), new.removeprefix("\ufeff"), every=every, shown=target.shown)


def _unchanged(
    target: Target, found: os.stat_result | None, expected: Version | None, *, missing: str
) -> os.stat_result:
    if found is None:
        raise FsError(f"{target.shown} does not exist any more; {missing}", "FS_STALE_VERSION", absent=True)
    if version_of(found) != expected:
        raise FsError(f"{target.shown} was changed since you read it; read it again first", "FS_STALE_VERSION")
    return found


def _text_before(target: Target) -> str | None:
    """The text that is about to be replaced, if it is text and short enough to compare."""
    try:
        with open_regular(target) as (descriptor, found):
            if found.st_size > MOST_BEFORE:
                return None
            return _decode(read_whole(descriptor, found.st_size), PROBED)
    except (FsError, NotText):
        return None
