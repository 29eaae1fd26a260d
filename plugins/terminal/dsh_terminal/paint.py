"""Drawing: Markdown, changes of files and lines about calls as text for a terminal of some width."""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from dsh.tools.views import Diff

from .cells import cells, fitted, shown, within
from .state import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["THEMES", "Look", "Painter"]

THEMES = {"dark": "ansi_dark", "light": "ansi_light"}
"""Names for the colours of code; others are those of Pygments."""
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SAID, LINES = 4000, 20
"""How much is shown again of what a person entered: they may have pasted a book."""


@frozen
class Look:
    """How a terminal is written to.

    Attributes:
        colour: with colours and other attributes.
        plain: nothing that moves, boxes or draws lines: for pipes, dumb terminals and screen readers.
        width: cells in a line.
    """

    colour: bool = True
    plain: bool = False
    width: int = 80

    @classmethod
    def of(cls, environ: Mapping[str, str], *, tty: bool, width: int) -> Look:
        """What the environment asks for: ``NO_COLOR`` (no-color.org), ``FORCE_COLOR``, ``TERM=dumb``, no terminal."""
        dumb = not tty or environ.get("TERM", "") in ("dumb", "")
        colour = bool(environ.get("FORCE_COLOR")) or (not dumb and not environ.get("NO_COLOR"))
        return cls(colour, dumb, max(20, width))


def styles() -> list[str]:
    """The styles of Pygments."""
    from pygments.styles import get_all_styles  # type: ignore[import-untyped]  # it has no types

    return sorted(get_all_styles())


class Painter:
    """Draws for one terminal; every result ends with a newline, or is empty.

    What others wrote has no control characters when it is drawn, so that it cannot steer the terminal.
    """

    def __init__(self, look: Look, columns: Callable[[], int] | None = None, theme: str = "dark") -> None:
        self.look = look
        self.theme = theme
        self._columns = columns or (lambda: look.width)

    @property
    def width(self) -> int:
        """Cells in a line, now."""
        return max(20, self._columns())

    def warm(self) -> None:
        """Import what drawing needs, which takes a moment; for a thread."""
        Painter(self.look).markdown("```python\npass\n```")

    def choose_theme(self, name: str) -> bool:
        """Draw code in other colours from now on, or everything without for ``none``; whether there are such."""
        if name == "none":
            self.look = evolve(self.look, colour=False)
            return True
        if name not in THEMES and name not in styles():
            return False
        self.look, self.theme = evolve(self.look, colour=True), name
        return True

    def markdown(self, text: str) -> str:
        """A block of Markdown."""
        text = shown(text)
        if self.look.plain:
            return f"{text.rstrip()}\n"
        from .markdown import LeftMarkdown

        drawn = self._drawn(LeftMarkdown(text, THEMES.get(self.theme, self.theme)))
        return _stripped(drawn)

    def reasoning(self, text: str) -> str:
        """What the model thought."""
        text = shown(text).rstrip()
        return self._styled("\n".join(f"· {line}" for line in text.split("\n")), "dim") if text else ""

    def said(self, text: str) -> str:
        """What the person said."""
        return self._entered("> ", text)

    def next(self, text: str) -> str:
        """What the person said for the next turn, which has to wait."""
        return self._entered("next: ", text)

    def _entered(self, sign: str, text: str) -> str:
        short = text if len(text) <= SAID else f"{text[:SAID]}… ({len(text)} signs in all)"
        first, *rest = shown(short).rstrip().split("\n")
        if len(rest) > LINES:
            rest[LINES:] = [_more(len(rest) - LINES)]
        return self._styled("\n".join([f"{sign}{first}", *(f"  {line}" for line in rest)]), "bold")

    def notice(self, text: str) -> str:
        """A word of dsh's own."""
        return self._styled(shown(text).rstrip(), "dim")

    def trouble(self, text: str) -> str:
        """Something went wrong."""
        return self._styled(shown(text).rstrip(), "red")

    def call(self, name: str, title: str, outcome: str = "", *, failed: bool = False, depth: int = 0) -> str:
        """A call on one line: what, and what became of it."""
        sign = "✗" if failed else "✓" if outcome else "…"
        if self.look.plain:
            sign = {"✗": "failed:", "✓": "done:", "…": "runs:"}[sign]
        margin = "  " * depth
        tail = f"  {outcome}" if outcome else ""
        name = " ".join(shown(name).split())
        if title.lower().startswith(f"{name.lower()} "):
            name = ""  # a title may begin with the tool's name
        named = f"{name} " if name else ""
        room = self.width - cells(f"{margin}{sign} {named}{tail}")
        line = fitted(" ".join(shown(title).split()), max(8, room))
        return self._styled(f"{margin}{sign} {named}{line}{tail}", "red" if failed else "cyan")

    def output(self, text: str, most: int) -> str:
        """What a tool answered, its first lines; `most` of them."""
        lines = shown(text).rstrip().split("\n")
        found = [f"  │ {line}" if not self.look.plain else f"  {line}" for line in lines[:most]]
        if len(lines) > most:
            found.append(f"  {_more(len(lines) - most)}")
        return self._styled("\n".join(found), "dim")

    def diff(self, diff: Diff, most: int = 60) -> str:
        """A change of a file, in colours."""
        lines = list(_diff_lines(diff))
        more = [_more(len(lines) - most)] if len(lines) > most else []
        if self.look.plain or not self.look.colour:
            drawn = "\n".join(f"  {shown(line)}" for line in [*lines[:most], *more]) + "\n"
            return drawn if self.look.plain else within(drawn, self.width)
        from rich.text import Text

        styles = {"+": "green", "-": "red", "@": "cyan"}
        text = Text("\n").join(
            Text(f"  {shown(line)}", style=styles.get(line[:1], "dim")) for line in [*lines[:most], *more]
        )
        return self._drawn(text)

    def patch(self, text: str) -> str:
        """A change as git shows it, in colours."""
        lines = shown(text).rstrip("\n").split("\n")
        if not self.look.colour:
            return within("\n".join(lines) + "\n", self.width)
        from rich.text import Text

        heads = ("diff ", "index ", "--- ", "+++ ")
        styles = {"+": "green", "-": "red", "@": "cyan"}
        drawn = (Text(line, "bold" if line.startswith(heads) else styles.get(line[:1], "")) for line in lines)
        return self._drawn(Text("\n").join(drawn))

    def _styled(self, text: str, style: str) -> str:
        if not text:
            return ""
        if self.look.plain and not self.look.colour:
            return f"{text}\n"
        from rich.text import Text

        return self._drawn(Text(text, style=style))

    def _drawn(self, item: Any) -> str:
        console = self._console()
        console.print(item)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO below
        lines = (line.rstrip() for line in text.split("\n"))
        return within("\n".join(lines), self.width)

    def _console(self) -> Console:
        from rich.console import Console

        colours = "truecolor" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "standard"
        return Console(
            file=io.StringIO(),
            width=self.width,
            force_terminal=self.look.colour,
            color_system=colours if self.look.colour else None,  # type: ignore[arg-type]  # one of rich's words
            no_color=not self.look.colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )


def _stripped(drawn: str) -> str:
    """Without empty lines before and behind it."""
    lines = drawn.split("\n")
    full = [number for number, line in enumerate(lines) if _ESCAPE.sub("", line).strip()]
    return "\n".join(lines[full[0] : full[-1] + 1]) + "\n" if full else ""


def _more(lines: int) -> str:
    return f"… {counted(lines, 'more line')}"


def _diff_lines(diff: Diff) -> Iterator[str]:
    yield diff.path
    if diff.old_text is None:
        yield from (f"+{line}" for line in diff.new_text.removesuffix("\n").split("\n"))
        return
    before, after = diff.old_text.split("\n"), diff.new_text.split("\n")
    for line in difflib.unified_diff(before, after, lineterm="", n=2):
        if not line.startswith(("---", "+++")):
            yield line
