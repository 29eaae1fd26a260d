"""Markdown as it is drawn here: headings where text begins, and nothing that was written gets lost.

What rich leaves out is shown as it stands: HTML, the address of a picture, definitions of links, cells of a table
that has no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table
from rich.text import Text

__all__ = ["LeftMarkdown"]

NARROW = 6
"""Cells of a column below which a table is no table any more."""
MARGIN = 3
"""Cells between two columns."""


class LeftHeading(Heading):
    """A heading at the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag in ("h1", "h2"):
            yield Text("")
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class WholeTable(TableElement):
    """A table whose cells go on in the next line; where it has more columns than fit, a line a cell."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = self.header.row.cells if self.header is not None and self.header.row is not None else []
        if heads and options.max_width // len(heads) < NARROW + MARGIN:
            yield from self._cells([cell.content for cell in heads])
            return
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table

    def _cells(self, heads: Sequence[Text]) -> RenderResult:
        rows = self.body.rows if self.body is not None else []
        if not rows:
            yield Text(", ").join(heads)
        for row in rows:
            yield Text("")
            for head, cell in zip(heads, row.cells, strict=False):
                yield Text.assemble(head, ": ", cell.content)


class LeftMarkdown(Markdown):
    """Markdown as it is drawn here."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": LeftHeading,
        "table_open": WholeTable,
    }

    def __init__(self, text: str, code_theme: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
        self.markup = text
        self.parsed = parser.parse(text)
        for token in self.parsed:
            if token.type == "inline" and token.children:
                token.children = list(_whole(token.children))


def _whole(tokens: Sequence[Token]) -> list[Token]:
    """Pictures as words with their address; links whose words are the address as these words alone."""
    found: list[Token] = []
    plain = False
    for place, token in enumerate(tokens):
        if token.type == "image":
            found.append(Token("text", "", 0, content=f"{token.content} ({token.attrs.get('src', '')})".strip()))
        elif token.type == "link_open":
            following = tokens[place + 1].content if place + 1 < len(tokens) else ""
            plain = str(token.attrs.get("href", "")).removeprefix("mailto:") == following
            found += [] if plain else [token]
        elif token.type != "link_close" or not plain:
            found.append(token)
    return found
