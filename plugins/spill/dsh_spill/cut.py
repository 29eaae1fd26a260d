"""The beginning and the end of a long text, and what is said of the rest."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Cut", "cut", "lines_in"]


@frozen
class Cut:
    """A text in parts; `left_bytes` and `left_lines` are what stands in neither."""

    head: str
    tail: str
    left_bytes: int
    left_lines: int


def lines_in(text: str) -> int:
    """The lines of a text; one that the end leaves open counts."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def cut(text: str, head_bytes: int, tail_bytes: int, head_lines: int, tail_lines: int) -> Cut:
    """Take the beginning and the end, at the ends of lines where there are some near enough.

    Each part has at most so many bytes of UTF-8 and so many lines; no character is split.
    """
    head = _first(text, head_bytes, head_lines)
    rest = text[len(head) :]
    tail = _last(rest, tail_bytes, tail_lines)
    left = rest[: len(rest) - len(tail)]
    return Cut(head, tail, len(left.encode()), lines_in(left))


def _first(text: str, most: int, lines: int) -> str:
    part = text[:most].encode()[:most].decode("utf-8", "ignore")
    if part.count("\n") >= lines:
        part = part[: _place(part, lines)]
    if len(part) < len(text):
        end = part.rfind("\n") + 1
        if end > len(part) // 2:
            part = part[:end]
    return part


def _last(text: str, most: int, lines: int) -> str:
    if most <= 0 or lines <= 0:
        return ""
    part = text[-most:].encode()[-most:].decode("utf-8", "ignore")
    body = part.removesuffix("\n")
    if body.count("\n") >= lines:
        place = len(body)
        for _ in range(lines):
            place = body.rfind("\n", 0, place)
        part = part[place + 1 :]
    if len(part) < len(text):
        start = part.find("\n") + 1
        if 0 < start < len(part) // 2:
            part = part[start:]
    return part


def _place(text: str, lines: int) -> int:
    """Where the first `lines` lines end."""
    place = 0
    for _ in range(lines):
        place = text.index("\n", place) + 1
    return place
