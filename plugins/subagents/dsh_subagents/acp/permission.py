"""A permission that an agent of another program asks for, as the calls that the parent's gates know."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsh import Tool, ToolCall, ToolError
from dsh.jsonvalue import Json
from dsh.tools.tool import Effect

__all__ = ["calls_of", "choice", "stand_in"]

_PATHS = ("file_path", "path", "abs_path", "filePath", "notebook_path")
_COMMANDS = ("command", "cmd")
_TOOL = {"read": "read", "search": "read", "edit": "write", "delete": "write", "move": "write"}
_KNOWN: dict[str, tuple[Effect, str]] = {
    "bash": ("execute", "command"),
    "read": ("read", "file_path"),
    "write": ("write", "file_path"),
    "web_fetch": ("fetch", "url"),
}
MOST_PATHS = 100
"""Places that one request may be about."""


def calls_of(wanted: Mapping[str, Any]) -> list[tuple[str, dict[str, Json]]]:
    """The calls, by name and arguments, that stand for what the agent wants to do; all of them have to be allowed.

    What it says of itself is all that is known: a command, if it names one; files, if it names some; else a
    call of a name that no tool has, with what it said.
    """
    given = wanted.get("rawInput")
    raw: Mapping[str, Any] = given if isinstance(given, dict) else {}
    kind = wanted.get("kind") if isinstance(wanted.get("kind"), str) else "other"
    commands = list(_commands(raw))
    if commands:
        return [("bash", {"command": command}) for command in commands]
    texts = dict(_diffs(wanted))
    paths = dict.fromkeys([*texts, *_paths(wanted, raw)])
    name = "write" if texts else _TOOL.get(str(kind))
    if name is not None and paths and len(paths) <= MOST_PATHS:
        return [(name, _file(name, path, texts.get(path))) for path in paths]
    url = raw.get("url")
    if kind == "fetch" and isinstance(url, str) and url:
        return [("web_fetch", {"url": url})]
    title = wanted.get("title")
    said: dict[str, Json] = {"title": title if isinstance(title, str) else ""}
    if raw:
        said["input"] = dict(raw)
    return [(f"acp_{kind}" if str(kind).isidentifier() else "acp_other", said)]


def _file(name: str, path: str, text: str | None) -> dict[str, Json]:
    return {"file_path": path} if name == "read" else {"file_path": path, "content": text or ""}


def _commands(raw: Mapping[str, Any]) -> Iterator[str]:
    for key in _COMMANDS:
        value = raw.get(key)
        if isinstance(value, str) and value.strip():
            more = raw.get("args")
            words = more if isinstance(more, list) and all(isinstance(word, str) for word in more) else []
            yield " ".join([value, *map(shlex.quote, words)])
        elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            yield shlex.join(value)


def _diffs(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for item in _list(wanted.get("content")):
        if item.get("type") == "diff" and isinstance(item.get("path"), str) and item["path"]:
            text = item.get("newText")
            yield item["path"], text if isinstance(text, str) else ""


def _paths(wanted: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    for place in (*_list(wanted.get("locations")), *({"path": raw.get(key)} for key in _PATHS)):
        path = place.get("path")
        if isinstance(path, str) and path:
            yield path


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def stand_in(name: str) -> Tool:
    """A tool for a call that is only judged, where the parent has none of that name.

    Of names that mean something it is known what such a call touches, so that rules about them hold; of others nothing.
    """

    def execute(arguments: Mapping[str, Json], call: ToolCall) -> str:
        raise ToolError(f"{name} is another program's own")

    effect, subject = _KNOWN.get(name, (None, None))
    return Tool(name, "A tool of another program.", {"type": "object"}, execute, effect=effect, subject=subject)


def choice(options: Any, allowed: bool) -> Json:
    """The outcome to answer with: of the options that say so the narrowest; none where there is no such option."""
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    offered: Sequence[dict[str, Any]] = _list(options)
    for kind in kinds:
        for option in offered:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return {"outcome": {"outcome": "cancelled"}}
