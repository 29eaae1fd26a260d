"""Markdown with headings where text begins, so that a heading of a narrow terminal and of a wide one look alike."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.text import Text

__all__ = ["LeftMarkdown"]


class LeftHeading(Heading):
    """A heading at the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag in ("h1", "h2"):
            yield Text("")
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class LeftMarkdown(Markdown):
    """Markdown as it is drawn here."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}
