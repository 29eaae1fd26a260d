"""What was read of the sessions' files for a list, kept for the next list.

The index is a cache in the folder of the sessions: an entry counts only while its file has the time
of change and the size that it had, so nothing is lost with the index, and nothing it says about
another state of a file is believed.  Small folders have none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeAlias

import orjson

from dsh.session.events import FORMAT

__all__ = ["Entry", "Index"]

Entry: TypeAlias = "list[str | int | None] | None"
"""id, created_at, cwd, parent_session, seed_length and title; None for a file that is no session's."""

NAME = ".index.json"
_LAYOUT = f"1, log format {FORMAT}"
_WITHOUT = 300
"""So many files are read before the index is; most lists need no more."""
_WORTH_WRITING = 500
"""From how many files on that were read it is written."""


class Index:
    """What is known of the files below a folder.

    Args:
        root: the folder.
        read: reads a file, which is done when the index does not know it as it is now.
    """

    def __init__(self, root: Path, read: Callable[[str], Entry]) -> None:
        self._root = f"{root}{os.sep}"
        self._file = root / NAME
        self._read = read
        self._known: dict[str, tuple[int, int, Entry]] = {}
        self._loaded = False
        self._new: dict[str, tuple[int, int, Entry]] = {}

    def entry(self, path: str, written: int, size: int) -> Entry:
        """What is known of the file of that time of change (in nanoseconds) and size, read if need be."""
        if not self._loaded and len(self._new) >= _WITHOUT:
            self._known = dict(self._load())
            self._loaded = True
        name = path.removeprefix(self._root)
        known = self._known.get(name)
        if known is not None and known[0] == written and known[1] == size:
            return known[2]
        found = self._read(path)
        self._new[name] = (written, size, found)
        return found

    def _load(self) -> Iterator[tuple[str, tuple[int, int, Entry]]]:
        try:
            record = orjson.loads(self._file.read_bytes())
            if record["layout"] == _LAYOUT:
                for name, (written, size, entry) in record["files"].items():
                    if entry is None or len(entry) == 6:
                        yield name, (written, size, entry)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return  # it is missing or damaged, and will be made anew

    def save(self, present: Collection[str] | None = None) -> None:
        """Write the index if that spares enough of the next list; it does not matter if it cannot be written.

        Args:
            present: the paths of all files there are, if that is known; the others are forgotten.
        """
        if len(self._new) < _WORTH_WRITING:
            return
        files = {**self._known, **self._new}
        if present is not None:
            names = {path.removeprefix(self._root) for path in present}
            files = {name: known for name, known in files.items() if name in names}
        temporary = self._file.with_name(f"{NAME}.{os.getpid()}")
        with contextlib.suppress(OSError, orjson.JSONEncodeError):  # a name of a folder may not be text
            text = orjson.dumps({"layout": _LAYOUT, "files": files})
            try:
                fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with open(fd, "wb") as stream:
                    stream.write(text)
                os.replace(temporary, self._file)
            except OSError:
                temporary.unlink(missing_ok=True)
