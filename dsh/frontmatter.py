"""Markdown files that begin with settings: skills, agents, commands.

The form is common to the tools of this kind: a first line ``---``, a YAML mapping, a line ``---``, then the body.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from .jsonvalue import NotJson, clean, freeze

__all__ = ["FrontMatter", "FrontMatterError", "front_matter"]

LIMIT = 64 * 1024
"""Characters of settings at most: YAML of a file that was found somewhere is not parsed without a bound."""

DEPTH = 32
"""Levels of nesting at most."""

_FENCE = re.compile(r"---[ \t]*\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_PLAIN = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s\"'|>\[{&*!#%@`].*?)[ \t]*\Z")


class FrontMatterError(ValueError):
    """The file does not have the form; the message says what is wrong, with the line."""


@frozen
class FrontMatter:
    """A file, taken apart.

    Attributes:
        settings: the mapping, as JSON: keys are text, and dates and times are their ISO spelling.
        body: what follows, without blank lines around it.
        note: what was wrong and could be read all the same, for a person; empty if nothing was.
    """

    settings: Mapping[str, Any] = field(converter=freeze)
    body: str
    note: str = ""


def front_matter(text: str, *, needed: bool = True) -> FrontMatter:
    """Take a file apart; a byte order mark and line ends of any kind are understood.

    A value with a colon that was not quoted, which YAML forbids and many files have, is taken as the text it is,
    and noted.

    Args:
        needed: a file without settings is an error; otherwise all of it is body.

    Raises:
        FrontMatterError: there are none, they have no end, they are no YAML mapping, or are too long.
    """
    text = clean(text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n")
    start = _FENCE.match(text)
    if start is None:
        if needed:
            raise FrontMatterError(
                "line 1: expected ---, with settings (name: ..., description: ...) up to a second ---"
            )
        return FrontMatter({}, text.strip())
    end = _END.search(text, start.end())
    if end is None:
        raise FrontMatterError("the settings have no end: a line --- is missing behind them")
    source = text[start.end() : end.start()]
    if len(source) > LIMIT:
        raise FrontMatterError(f"the settings are {len(source)} characters long; {LIMIT} are read at most")
    settings, note = _settings(source)
    return FrontMatter(settings, text[end.end() :].strip(), note)


def _settings(source: str) -> tuple[dict[str, Any], str]:
    import yaml

    note = ""
    try:
        value = _load(source)
    except yaml.YAMLError as error:
        quoted, lines = _quoted(source)
        if not lines:
            raise FrontMatterError(_explain(error)) from None
        try:
            value = _load(quoted)
        except yaml.YAMLError:
            raise FrontMatterError(_explain(error)) from None
        where = ", ".join(str(line + 2) for line in lines)
        note = f"line {where}: a value with a colon belongs in quotes; it is taken as text"
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise FrontMatterError(f"the settings are no mapping of keys to values, but {type(value).__name__}")
    try:
        return {_key(key): _json(item) for key, item in value.items()}, note
    except (NotJson, RecursionError) as error:
        raise FrontMatterError(f"the settings hold what is no plain value: {error}") from None


def _load(source: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    opening = (
        yaml.BlockMappingStartToken,
        yaml.BlockSequenceStartToken,
        yaml.FlowMappingStartToken,
        yaml.FlowSequenceStartToken,
    )
    closing = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)

    # An alias can make a small file a huge value, and nesting without a bound ends the process: nobody needs either.
    depth = 0
    for token in yaml.scan(source, Loader=loader):
        if isinstance(token, yaml.AliasToken):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not taken", problem_mark=token.start_mark)
        depth += isinstance(token, opening) - isinstance(token, closing)
        if depth > DEPTH:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=token.start_mark)
    try:
        return yaml.load(source, Loader=loader)
    except yaml.YAMLError:
        raise
    except Exception as error:  # a date that there is not, a number too long, a tag that does not fit: of any kind
        raise yaml.MarkedYAMLError(problem=f"a value cannot be read: {error or type(error).__name__}") from error


def _quoted(source: str) -> tuple[str, list[int]]:
    """The source with plain values that hold a colon in quotes, and the numbers of those lines from 0."""
    lines, changed = source.split("\n"), []
    for number, line in enumerate(lines):
        match = _PLAIN.match(line)
        if match is not None and (": " in match["value"] or match["value"].endswith(":")):
            value = match["value"].replace("'", "''")
            lines[number] = f"{match['key']}: '{value}'"
            changed.append(number)
    return "\n".join(lines), changed


def _explain(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = "" if mark is None else f"line {mark.line + 2}, column {mark.column + 1}: "
    return f"{where}{problem or error}".replace("\n", " ")


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key).lower() if isinstance(key, bool) else str(key)


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, set):
        return [_json(item) for item in sorted(value, key=str)]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bytes):
        raise NotJson("binary data")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
