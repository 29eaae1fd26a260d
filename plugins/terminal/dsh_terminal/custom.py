"""Commands that people write as files: ``.dsh/commands/NAME.md``, ``.claude/commands/NAME.md``; one in a folder of
these, ``FOLDER/NAME.md``, is ``/FOLDER:NAME``.

The text is a prompt.  ``$ARGUMENTS`` stands for what is written behind the command, ``$1`` to ``$9`` for its words;
where neither is used, it is added at the end.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from dsh.frontmatter import FrontMatterError, front_matter
from dsh.textfile import read_text

__all__ = ["Custom", "fill", "find"]

LIMIT = 64 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9])")


@frozen
class Custom:
    """A command of a file."""

    name: str
    help: str
    text: str
    path: Path


def find(cwd: Path, dsh_home: Path, home: Path) -> tuple[dict[str, Custom], dict[str, str], list[str]]:
    """The commands that hold in a folder, those that cannot be read, and what is wrong with files.

    Of several with one name the first counts.
    """
    root = next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)
    folders = [root / ".dsh", root / ".claude", dsh_home, home / ".claude"]
    found: dict[str, Custom] = {}
    broken: dict[str, str] = {}
    problems: list[str] = []
    for folder in folders:
        for path in _files(folder / "commands"):
            parts = path.relative_to(folder / "commands").with_suffix("").parts
            name = ":".join(parts).lower()
            if not all(_NAME.match(part.lower()) for part in parts):
                problems.append(f"{path}: {name!r} is no name for a command: use letters, digits, - and _")
                continue
            try:
                custom = _read(path, name)
            except (OSError, FrontMatterError) as error:
                broken.setdefault(name, f"{path}: {error}")
            else:
                found.setdefault(name, custom)
    broken = {name: problem for name, problem in broken.items() if name not in found}
    return found, broken, [*problems, *broken.values()]


def _files(folder: Path, depth: int = 2) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith(".md") and os.path.isfile(folder / name):
            yield folder / name
        elif depth and not name.startswith(".") and os.path.isdir(folder / name):
            yield from _files(folder / name, depth - 1)


def _read(path: Path, name: str) -> Custom:
    matter = front_matter(read_text(path, LIMIT).text, needed=False)
    first = next((line.strip("# ") for line in matter.body.splitlines() if line.strip()), "")
    described = matter.settings.get("description")
    hint = matter.settings.get("argument-hint")
    help = (f"{hint}: " if isinstance(hint, str) else "") + (described if isinstance(described, str) else first)
    return Custom(name, " ".join(help.split())[:120], matter.body, path)


def fill(custom: Custom, arguments: str) -> str:
    """The prompt that a command stands for."""
    if not _PLACE.search(custom.text):
        return f"{custom.text}\n\n{arguments}".strip()
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()

    def value(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        number = int(match[1]) - 1
        return words[number] if number < len(words) else ""

    return _PLACE.sub(value, custom.text)
