"""How user interfaces show calls of the file tools.  Arguments may be anything here: then there is no view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh import ToolResult
from dsh.tools.views import CallView, Diff, DiffCall, DiffResult, GenericCall, Location, ResultView

__all__ = ["edit_call", "edit_result", "read_call", "write_call", "write_result"]


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name) if isinstance(arguments, Mapping) else None
    return value if isinstance(value, str) else None


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    value: Any = arguments.get(name)
    return int(value) if type(value) in (int, float) and 1 <= value < 2**53 and value == value // 1 else None


def read_call(arguments: Mapping[str, Any]) -> CallView | None:
    """The path and the lines that are asked for."""
    path = _text(arguments, "file_path")
    if path is None:
        return None
    offset, limit = _number(arguments, "offset"), _number(arguments, "limit")
    first = offset or 1
    lines = f" ({first} - {first + limit - 1})" if limit else f" (from line {offset})" if offset else ""
    return GenericCall(f"Read {path}{lines}", kind="read", locations=(Location(path, first),))


def write_call(arguments: Mapping[str, Any]) -> CallView | None:
    """The whole new content; what it replaces is known when it is done."""
    path, content = _text(arguments, "file_path"), _text(arguments, "content")
    if path is None or content is None:
        return None
    return DiffCall(f"Write {path}", diffs=(Diff(path, None, content),), locations=(Location(path),))


def edit_call(arguments: Mapping[str, Any]) -> CallView | None:
    """The old and the new text."""
    path, old, new = (_text(arguments, name) for name in ("file_path", "old_string", "new_string"))
    if path is None or old is None or new is None:
        return None
    return DiffCall(f"Edit {path}", diffs=(Diff(path, old, new),), locations=(Location(path),))


def write_result(arguments: Mapping[str, Any], result: ToolResult) -> ResultView | None:
    """What was changed, or the whole file where nothing is known of its past."""
    path, content = _text(arguments, "file_path"), _text(arguments, "content")
    if result.is_error or path is None or content is None:
        return None
    diffs = _diffs(result.meta)
    return DiffResult(f"Write {path}", (Diff(path, None, content),) if diffs is None else diffs)


def edit_result(arguments: Mapping[str, Any], result: ToolResult) -> ResultView | None:
    """What was changed, if that was recorded."""
    path, diffs = _text(arguments, "file_path"), _diffs(result.meta)
    return None if result.is_error or path is None or diffs is None else DiffResult(f"Edit {path}", diffs)


def _diffs(meta: Any) -> tuple[Diff, ...] | None:
    found = meta.get("diffs") if isinstance(meta, Mapping) else None
    if not isinstance(found, list):
        return None
    diffs = []
    for item in found:
        if not isinstance(item, Mapping):
            return None
        path, old, new = item.get("path"), item.get("oldText"), item.get("newText")
        if not isinstance(path, str) or not isinstance(new, str) or not (old is None or isinstance(old, str)):
            return None
        diffs.append(Diff(path, old, new))
    return tuple(diffs)
