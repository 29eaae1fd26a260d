"""The line of input: what stands in it, what was pasted into it, and what was entered before."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

__all__ = ["Entry", "Pastes", "history_file"]

PASTE_LINES, PASTE_SIGNS = 8, 1500
"""A longer paste is shown as a word in its place."""
TOGETHER = 0.3
"""Seconds between two parts of one paste, on a terminal that does not mark where it begins and ends."""
KEPT = 10_000
"""Signs of the longest entry that the history keeps; the log has what was sent."""
UNSENT = 1_000_000
"""The same of what was not sent, which is nowhere else."""


class Pastes:
    """Long texts that a word stands for in the line of input."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def fold(self, text: str) -> str:
        """What to put into the line for `text`."""
        if text.count("\n") < PASTE_LINES and len(text) < PASTE_SIGNS:
            return text
        self._count += 1
        lines = text.count("\n") + 1
        word = f"[pasted {lines} line{'s' if lines > 1 else ''}, {len(text)} signs #{self._count}]"
        self._texts[word] = text
        return word

    def forget(self, word: str) -> None:
        """The last word that was folded stands for nothing any more."""
        if self._texts.pop(word, None) is not None:
            self._count -= 1

    def unfold(self, text: str) -> str:
        """The line with everything in its place."""
        for word, whole in self._texts.items():
            if word in text:
                text = text.replace(word, whole)
        return text


class _Kept(FileHistory):
    """A file of entries; what begins with a blank is not kept, as in shells, and secrets are masked.

    That it cannot be written is no reason to end a conversation.
    """

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._mask = mask

    def store_string(self, string: str) -> None:
        if string.startswith(" "):
            return
        lines = "".join(f"+{line}\n" for line in self._mask(string).split("\n"))
        data = f"\n# {datetime.now()}\n{lines}".encode("utf-8", "replace")
        with suppress(OSError):
            file = os.open(self.filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, data)  # at once, as another conversation in this folder may write, too
            finally:
                os.close(file)


class Entry:
    """The line of a conversation.  All of it belongs to the thread of prompt_toolkit, but for `rest`.

    Args:
        history: the file that keeps what was entered; None keeps nothing.
        mask: takes secrets out of a text.
    """

    def __init__(self, history: Path | None, mask: Callable[[str], str] = str) -> None:
        self._path = history
        self._mask = mask
        self._pastes = Pastes()
        self._buffer: Buffer | None = None
        self._typed = -1e9
        self._pasted = ("", "", -1e9)

    def history(self) -> History:
        """What was entered before, in this folder."""
        if self._path is None:
            return InMemoryHistory()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
        except OSError:
            return InMemoryHistory()
        return _Kept(self._path, self._mask)

    def use(self, buffer: Buffer) -> None:
        """Stand in this buffer from now on."""
        self._buffer = buffer
        buffer.on_text_changed += self._changed
        buffer.accept_handler = lambda buffer: True  # it stays; what an editor made of it, too

    def _changed(self, buffer: Buffer) -> None:
        self._typed = time.monotonic() if buffer.text else -1e9

    def rest(self, seconds: float) -> float:
        """For how many more seconds the line, in which something stands, has to rest until it has rested so long."""
        return max(0.0, seconds - (time.monotonic() - self._typed))

    @property
    def is_empty(self) -> bool:
        """Nothing stands in the line."""
        return self._buffer is None or not self._buffer.text

    def paste(self, text: str) -> None:
        """Put what was pasted where the cursor is; a long text as a word in its place."""
        buffer = self._buffer
        if buffer is None:
            return
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        shown, whole, when = self._pasted
        if shown and time.monotonic() - when < TOGETHER and buffer.document.text_before_cursor.endswith(shown):
            buffer.delete_before_cursor(len(shown))
            self._pastes.forget(shown)
            text = whole + text
        word = self._pastes.fold(text)
        buffer.insert_text(word)
        self._pasted = (word, text, time.monotonic())

    def take(self, most: int = KEPT) -> str:
        """What stands there, whole; the line is empty then, and the history has it, if it is not too long."""
        if self._buffer is None:
            return ""
        text = self._pastes.unfold(self._buffer.text)
        if text.strip():
            self._buffer.text = text if len(text) <= most else ""
            self._buffer.append_to_history()
            self._buffer.reset()
        return text

    def drop(self) -> str:
        """What stands there and is not sent, whole; the history has it, so that it can be had again."""
        return self.take(UNSENT)

    def whole(self) -> str:
        """What stands there, with pasted texts in their places."""
        return "" if self._buffer is None else self._pastes.unfold(self._buffer.text)

    def replace(self, text: str) -> None:
        """Have this stand there; what is too long to be seen as a word in its place."""
        if self._buffer is not None:
            self._buffer.text = text if len(text) <= KEPT else self._pastes.fold(text)
            self._buffer.cursor_position = len(self._buffer.text)

    def put_back(self, text: str) -> None:
        """Something did not count: before what stands there."""
        if self._buffer is not None:
            self._buffer.text = "\n".join(part for part in (self._pastes.fold(text), self._buffer.text) if part)
            self._buffer.cursor_position = len(self._buffer.text)


def history_file(home: Path, cwd: str) -> Path:
    """Where what is entered in a folder is kept."""
    return home / "history" / hashlib.sha256(os.fsencode(cwd)).hexdigest()[:16]
