"""Sessions that nobody is asked to go on with: reading them where they lie, and deleting them."""

from __future__ import annotations

import functools
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import trio

from dsh import CorruptSession, SessionError, SessionLocked, hookimpl
from dsh.session import StoredSession
from dsh.session.codec import Codec

from .paths import find
from .writer import lock

if TYPE_CHECKING:
    from dsh.checks import Checks
    from dsh.session import Event, Sessions

__all__ = ["FileLog", "StoredFiles", "delete", "look"]

_BLOCK = 1024 * 1024


class StoredFiles:
    """The hooks for files that are not open here.

    Args:
        root: the folder of the sessions.
        sessions: the live ones; their codec reads the lines.
    """

    def __init__(self, root: Path, sessions: Sessions) -> None:
        self.root = root
        self.sessions = sessions

    @hookimpl
    async def session_read(self, session_id: str) -> StoredSession | None:
        """Look at a session's file, in a thread that nobody waits for once it is cancelled."""
        path = find(self.root, session_id)
        if path is None:
            return None
        see = functools.partial(look, path, self.sessions.codec)
        return await trio.to_thread.run_sync(see, abandon_on_cancel=True)

    @hookimpl
    async def dsh_doctor(self, checks: Checks) -> None:
        """Say whether sessions can be stored, and which are damaged."""
        from .doctor import check

        await check(self.root, self.sessions.codec, checks)

    @hookimpl
    async def session_delete(self, session_id: str) -> bool | None:
        """Remove a session's file, unless somebody writes it.  Cancelling waits until that is done."""
        path = find(self.root, session_id)
        if path is None:
            return None
        await trio.to_thread.run_sync(delete, path)
        return True


class FileLog(Sequence["Event"]):
    """The events of a file, each read when it is asked for: what is kept in memory is where they begin.

    Lines that are added to the file later are not seen.

    Args:
        path: the file.
        starts: where its lines begin, the header's first; the last is where the last line ends.
        codec: makes the events.

    Raises, when an event is asked for:
        CorruptSession: its line is no event, or the file has become shorter.
        SessionError: the file cannot be read any more.
    """

    def __init__(self, path: Path, starts: Sequence[int], codec: Codec) -> None:
        self._path = path
        self._starts = starts
        self._codec = codec

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """The lines from `start` on, without their newlines."""
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._starts[min(start, len(self)) + 1])
                for seq in range(start, len(self)):
                    yield self._taken(stream.read(self._size(seq)), seq)
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def line(self, seq: int) -> bytes:
        """The line of an event, without its newline."""
        return next(self.lines(seq))

    def _size(self, seq: int) -> int:
        return self._starts[seq + 2] - self._starts[seq + 1]

    def _taken(self, line: bytes, seq: int) -> bytes:
        if len(line) != self._size(seq):
            raise CorruptSession(f"{self._path}, line {seq + 2}: the file has become shorter while it was read")
        return line[:-1]

    def _made(self, line: bytes, seq: int) -> Event:
        try:
            return self._codec.read(line)
        except CorruptSession as error:
            raise CorruptSession(f"{self._path}, line {seq + 2}: {error}") from None

    def __len__(self) -> int:
        return len(self._starts) - 2

    def __iter__(self) -> Iterator[Event]:
        return (self._made(line, seq) for seq, line in enumerate(self.lines()))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[seq] for seq in range(*index.indices(len(self)))]
        seq = index + len(self) if index < 0 else index
        if not 0 <= seq < len(self):
            raise IndexError(f"the log has {len(self)} events, and no event {index}")
        return self._made(self.line(seq), seq)


def look(path: Path, codec: Codec) -> StoredSession:
    """A session's file as it is.

    Raises:
        CorruptSession: its first line is no header of this format.
        SessionError: it cannot be read.
    """
    starts = array("Q", [0])
    size = 0
    try:
        with open(path, "rb") as stream:
            while block := stream.read(_BLOCK):
                at = block.find(b"\n")
                while at >= 0:
                    starts.append(size + at + 1)
                    at = block.find(b"\n", at + 1)
                size += len(block)
            stream.seek(0)
            first = stream.read(starts[1]) if len(starts) > 1 else b""
    except OSError as error:
        raise _unreadable(path, error) from error
    if not first:
        raise CorruptSession(f"{path} has no complete header line; there is nothing in it to read")
    try:
        header = codec.decode_header(first[:-1])
    except CorruptSession as error:
        raise CorruptSession(f"{path}, line 1: {error}") from None
    return StoredSession(header, FileLog(path, starts, codec), str(path), size - starts[-1])


def delete(path: Path) -> None:
    """Remove a session's file.  It blocks; run it in a thread.

    Raises:
        SessionLocked: somebody writes it.
        SessionError: the file system refused it.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            lock(fd, path)
            os.unlink(path)
        finally:
            os.close(fd)
    except SessionLocked:
        raise SessionLocked(
            f"the session is open, and {path} is being written; end the program that writes it, then delete it"
        ) from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise SessionError(f"cannot delete the session file {path}: {error.strerror or error}") from error


def _unreadable(path: Path, error: OSError) -> SessionError:
    return SessionError(f"cannot read the session file {path}: {error.strerror or error}")
