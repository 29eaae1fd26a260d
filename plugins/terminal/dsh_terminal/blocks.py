"""Text that comes in pieces, as blocks of Markdown: what is finished is drawn once, so that a word costs no more at
the end of a long answer than at its start.
"""

from __future__ import annotations

import re
import textwrap

from attrs import define, field

__all__ = ["Blocks"]

_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s")
_FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
LONG = 40
"""Lines after which a block that has no end is drawn all the same, where that does no harm."""
TABLE = 400
"""Lines of a table, which cannot be cut without its head."""
CODE = 24
"""Lines of code that are drawn together."""
LINE = 6000
"""Signs of a line after which it is drawn although it has not ended."""
SEEN = 2000
"""Signs of an unfinished line that are shown."""


@define
class Blocks:
    """The blocks of one answer."""

    _pieces: list[str] = field(factory=list)
    _size: int = 0
    _lines: list[str] = field(factory=list)
    _fence: str = ""
    _opening: str = ""
    _indent: int = 0
    _in_list: bool = False

    def feed(self, text: str) -> list[str]:
        """Take a piece; the blocks that it finished, each a whole Markdown text."""
        if "\n" not in text and self._size + len(text) < LINE:
            self._pieces.append(text)
            self._size += len(text)
            return []
        *lines, rest = "".join([*self._pieces, text]).split("\n")
        found: list[str] = []
        for line in lines:
            found += self._take(line)
        if len(rest) >= LINE:
            at = rest.rfind(" ", LINE // 2)
            at = len(rest) if at < 0 else at
            found += [*self._take(rest[:at]), *self._cut()]
            rest = rest[at + 1 :]
        self._pieces, self._size = [rest], len(rest)
        return found

    @property
    def open(self) -> str:
        """What is not finished, or its end; its size does not grow with the answer's."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        line = self._pieces[0][-SEEN:] if self._pieces else ""
        opening = [self._opening] if self._fence and not self._lines else []
        lines = [*opening, *self._lines, line]
        text = "\n".join(lines).strip("\n")
        belongs = self._in_list and not self._fence and lines[0].startswith("  ")
        return textwrap.dedent(text) if belongs else text  # as `_cut` does

    def close(self) -> list[str]:
        """The answer has ended: what is left."""
        line = "".join(self._pieces)
        found = self._take(line) if line else []
        self._pieces, self._size = [], 0
        return [*found, *self._cut()]

    def _take(self, line: str) -> list[str]:
        match = _FENCE.match(line)
        if self._fence:
            line = line[min(self._indent, len(line) - len(line.lstrip(" "))) :]
            if match and match["marks"].startswith(self._fence) and not match["info"].strip():
                self._lines.append(line)
                return self._end_fence()
            self._lines.append(line)
            return self._cut() if len(self._lines) > CODE else []
        if match:
            before = self._cut()
            self._indent = len(match["indent"])
            self._fence, self._opening = match["marks"], line[self._indent :]
            self._lines = [self._opening]
            return before
        if not line.strip():
            return self._cut()
        self._lines.append(line)
        limit = TABLE if line.lstrip().startswith("|") else LONG
        return self._cut() if len(self._lines) >= limit else []

    def _end_fence(self) -> list[str]:
        block, empty = "\n".join(self._lines), len(self._lines) <= 2
        self._lines, self._fence = [], ""
        return [] if empty else [block]

    def _cut(self) -> list[str]:
        """The lines so far as a block; of code that goes on, a block of its own, and the rest begins as one."""
        if not self._lines:
            return []
        if self._fence:
            block = "\n".join([*self._lines, self._fence])
            only_opening = len(self._lines) == 1 and self._lines[0] == self._opening
            self._lines = [self._opening]
            return [] if only_opening else [block]
        lines, self._lines = self._lines, []
        item = bool(_ITEM.match(lines[0]))
        block = "\n".join(lines)
        if lines[0].startswith("  ") and self._in_list:
            # it belongs to an item above; alone, its margin would make it code
            block = textwrap.dedent(block)
        else:
            self._in_list = item
        return [block]
