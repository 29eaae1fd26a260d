"""Changing a file of settings that a person wrote: everything else in it, comments too, stays as it is.

Each function tries edits of the text and keeps the first that reads back as exactly what is wanted, so an
edit that went wrong is no edit.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

__all__ = ["extended", "quoted", "shrunk", "with_top"]

_TOKEN = re.compile(r"'''.*?'''|\"\"\"(?:\\.|.)*?\"\"\"|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*|.", re.DOTALL)
_ANY_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def quoted(text: str) -> str:
    """`text` as TOML writes it, on one line."""
    import tomli_w

    return tomli_w.dumps({"text": text}, multiline_strings=False).partition(" = ")[2].strip()


def extended(text: str, table: str, key: str, items: Sequence[str]) -> str | None:
    """`text` with `items` in the list ``[table] key``, but for those that it holds; None if that cannot be done."""
    data = _parsed(text)
    present = _list_in(data, table, key)
    if data is None or present is None:
        return None
    fresh = [item for item in dict.fromkeys(items) if item not in present]
    if not fresh:
        return text
    wanted = {**data, table: {**data.get(table, {}), key: [*present, *fresh]}}
    signs = [quoted(item) for item in fresh]
    place = _Place(table, key)
    attempts = (
        place.into_list(text, signs, lines=True),
        place.into_list(text, signs, lines=False),
        place.for_example(text, ", ".join(signs)),
        place.into_table(text, ", ".join(signs)),
        place.behind(text, ", ".join(signs)),
    )
    return _first(attempts, wanted)


def shrunk(text: str, table: str, key: str, items: Sequence[str]) -> str | None:
    """`text` without `items` in the list ``[table] key``; None if that cannot be done."""
    data = _parsed(text)
    present = _list_in(data, table, key)
    if data is None or present is None:
        return None
    left = [item for item in present if item not in items]
    if left == present:
        return text
    wanted = {**data, table: {**data[table], key: left}}
    return _first(_Place(table, key).without(text, set(items)), wanted)


def with_top(text: str, key: str, value: str) -> str | None:
    """`text` with the setting ``key = value`` above all tables, where it has none; None if that cannot be done."""
    data = _parsed(text)
    if data is None or key in data:
        return None
    line = f"{key} = {quoted(value)}\n"
    found = _ANY_TABLE.search(text)
    at = found.start() if found else len(text)
    head = text[:at] if not text[:at] or text[:at].endswith("\n") else f"{text[:at]}\n"
    commented = re.compile(rf"^#[ \t]?{re.escape(key)}[ \t]*=[^\n]*(?:\n|\Z)", re.MULTILINE)
    attempts = (
        commented.sub(lambda _: line, text, count=1) if commented.search(text) else None,
        f"{head}{line}" + ("\n" if text[at:] else "") + text[at:],
        f"{line}\n{text}",
    )
    return _first(attempts, {key: value, **data})


def _first(attempts: Iterable[str | None], wanted: dict[str, Any]) -> str | None:
    return next((text for text in attempts if text is not None and _parsed(text) == wanted), None)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _list_in(data: dict[str, Any] | None, table: str, key: str) -> list[Any] | None:
    """The list; an empty one where there is none, and None where something else stands."""
    inner = (data or {}).get(table, {})
    present = inner.get(key, []) if isinstance(inner, dict) else None
    return present if isinstance(present, list) else None


@frozen
class _Place:
    """Where a list stands in a text, as it is mostly written."""

    table: str
    key: str

    def _table(self, text: str) -> re.Match[str] | None:
        head = rf"^[ \t]*\[[ \t]*{re.escape(self.table)}[ \t]*\][ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)"
        return re.search(head, text, re.MULTILINE)

    def _list(self, text: str) -> re.Match[str] | None:
        """The key and its opening bracket."""
        table = self._table(text)
        key = re.compile(rf"^[ \t]*{re.escape(self.key)}[ \t]*=[ \t]*\[", re.MULTILINE)
        return key.search(text, table.end()) if table else None

    def into_list(self, text: str, items: Sequence[str], lines: bool) -> str | None:
        """The items behind the last of a list that is there: on lines of their own, or beside it."""
        found = self._list(text)
        if found is None:
            return None
        last, comma = found.end(), True  # where the last item ends, and whether something parts it from the next
        for token in _TOKEN.finditer(text, found.end()):
            sign = token[0]
            if sign == "]":
                part = "" if comma else ","
                if not lines:
                    is_first = last == found.end()
                    space, end = "" if is_first else " ", "," if comma and not is_first else ""
                    return f"{text[:last]}{part}{space}{', '.join(items)}{end}{text[last:]}"
                start = text.rfind("\n", 0, token.start()) + 1
                if start < last or text[start : token.start()].strip():
                    return None
                indent = f"{text[start : token.start()]}    "
                added = "".join(f"{indent}{item},\n" for item in items)
                return f"{text[:last]}{part}{text[last:start]}{added}{text[start:]}"
            if sign == ",":
                last, comma = token.end(), True
            elif not sign.isspace() and not sign.startswith("#"):
                last, comma = token.end(), False
        return None

    def for_example(self, text: str, items: str) -> str | None:
        """A list in the place of the table's line that shows one, as a comment."""
        table = self._table(text)
        example = re.compile(rf"^#[ \t]?{re.escape(self.key)}[ \t]*=[ \t]*\[[^\n]*$", re.MULTILINE)
        found = example.search(text, table.end()) if table else None
        return None if found is None else f"{text[: found.start()]}{self.key} = [{items}]{text[found.end() :]}"

    def into_table(self, text: str, items: str) -> str | None:
        """A list at the beginning of the table."""
        table = self._table(text)
        if table is None:
            return None
        line = "" if text[: table.end()].endswith("\n") else "\n"
        return f"{text[: table.end()]}{line}{self.key} = [{items}]\n{text[table.end() :]}"

    def behind(self, text: str, items: str) -> str:
        """A table of its own at the end."""
        line = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{line}\n[{self.table}]\n{self.key} = [{items}]\n"

    def without(self, text: str, items: set[str]) -> Iterator[str]:
        """The list without items: their lines gone where they stand alone on them, or else themselves."""
        found = self._list(text)
        if found is None:
            return
        spans: list[tuple[int, int]] = []
        for token in _TOKEN.finditer(text, found.end()):
            sign = token[0]
            if sign == "]":
                break
            if sign == "," and spans and text[spans[-1][1] : token.start()].strip() == "":
                spans[-1] = (spans[-1][0], token.end())
            elif sign[0] in "'\"" and (_parsed(f"x = {sign}") or {}).get("x") in items:
                spans.append(token.span())
        before = text[: spans[-1][0]].rstrip(" \t") if spans else ""
        if before.endswith(",") and text[spans[-1][1] - 1] != ",":  # the comma before the last one goes with it
            yield _cut(text, [*(_with_space(text, span) for span in spans[:-1]), (len(before) - 1, spans[-1][1])])
        yield _cut(text, [_whole_line(text, span) for span in spans])
        yield _cut(text, [_with_space(text, span) for span in spans])


def _whole_line(text: str, span: tuple[int, int]) -> tuple[int, int]:
    start = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", span[1])
    end = len(text) if end < 0 else end + 1
    if text[start : span[0]].strip() or not re.fullmatch(r"[ \t]*(#[^\n]*)?\r?\n?", text[span[1] : end]):
        return _with_space(text, span)
    return start, end


def _with_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    end = span[1]
    while end < len(text) and text[end] in " \t":
        end += 1
    return span[0], end


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text
