"""Files that a person names in a prompt with ``@path``."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio
from attrs import frozen

from dsh import Tool, ToolError
from dsh.jsonvalue import clean
from dsh.textfile import read_text

from .documents import without_code

__all__ = ["READING", "Mention", "attachments", "mentions"]

ENTRIES = 200
"""Names of a folder that are listed."""
COUNT = 20
"""Files of one prompt."""

TOGETHER = 4
"""How many times the limit of one attachment all of a prompt may have."""

_MENTION = re.compile(
    r"""(?:(?<=[\s(\[{"'])|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>(?:\\[ ]|[^\s"'`@,;()\[\]{}])+))""", re.MULTILINE
)
_AFTER = ".:!?*_"


def _never(arguments: object, call: object) -> str:
    raise ToolError("only judged, never run", code="NOT_RUN")


READING = Tool(
    "read",
    "Reads a file that a person attached to a prompt.",
    {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
    _never,
    effect="read",
    subject="file_path",
)
"""What those who judge calls are asked about: the model's own tool may be called otherwise, or not be there."""

Judge = Callable[[str], Awaitable[str | None]]
"""Why a path may not be read; None if it may."""


@frozen
class Mention:
    """A path that a prompt names; `exists` is False where it is none, as in a person's handle."""

    written: str
    path: Path


def mentions(text: str, cwd: Path) -> list[Mention]:
    """The files and folders that a prompt names outside of code, each once, in order; what does not exist is none."""
    found: dict[Path, Mention] = {}
    for match in _MENTION.finditer(without_code(text)):
        for written in _spellings(match):
            path = Path(os.path.normpath(cwd / os.path.expanduser(written)))
            if "\0" not in written and os.path.exists(path):
                found.setdefault(path, Mention(written, path))
                break
    return list(itertools.islice(found.values(), COUNT))


def _spellings(match: re.Match[str]) -> list[str]:
    if match["quoted"] is not None:
        return [match["quoted"]]
    plain = match["plain"].replace("\\ ", " ")
    shorter = plain.rstrip(_AFTER)
    return [plain, shorter] if shorter and shorter != plain else [plain]


async def attachments(named: Sequence[Mention], judge: Judge, limit: int) -> list[str]:
    """What the model reads of each; one that may not be read is said to be left out, with the reason.

    Args:
        limit: bytes of one; of all together `TOGETHER` times as many.
    """
    found, left = [], TOGETHER * limit
    for mention in named:
        refusal = await judge(str(mention.path))
        if refusal is None and left <= 0:
            refusal = "what is attached before it is long; read it with the tool for it"
        if refusal is None:
            text = await trio.to_thread.run_sync(_content, mention, min(limit, left))
            left -= len(text.encode())
        else:
            text = _element("attachment", mention, f"(not attached: {refusal})")
        found.append(text)
    return found


def _content(mention: Mention, limit: int) -> str:
    try:
        if mention.path.is_dir():
            return _element("folder", mention, _listing(mention.path))
        found = read_text(mention.path, limit)
    except OSError as error:
        return _element("attachment", mention, f"(not attached: {error.strerror or error})")
    if found.binary:
        return _element("attachment", mention, f"(not attached: {found.size} bytes that are no text)")
    text = found.text
    if found.cut:
        text += f"\n(cut here: the file has {found.size} bytes; read the rest with the tool for it)"
    return _element("attachment", mention, text)


def _listing(folder: Path) -> str:
    names = sorted(os.listdir(folder))
    shown = [name + ("/" if os.path.isdir(folder / name) else "") for name in names[:ENTRIES]]
    more = f"\n(and {len(names) - ENTRIES} more)" if len(names) > ENTRIES else ""
    return clean("\n".join(shown)) + more


def _element(tag: str, mention: Mention, text: str) -> str:
    path = mention.written.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'<{tag} path="{path}">\n{text}\n</{tag}>'
