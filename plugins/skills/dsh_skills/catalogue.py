"""Which skills there are: files with a name and a description in front, found in folders or given by plugins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from dsh.frontmatter import FrontMatterError, front_matter
from dsh.textfile import read_text

__all__ = ["LIMIT", "Catalogue", "Root", "Skill", "any_files", "collect", "read_skill", "roots", "skill_of"]

LIMIT = 256 * 1024
"""Bytes of a skill's file at most."""
LONG = 1024
"""Characters of a description after which it is called long: other tools refuse it."""
FILE = "SKILL.md"
MOST = 500
"""Entries of a folder that are looked at."""

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@frozen
class Skill:
    """A skill.

    Attributes:
        name: lower-case words joined by hyphens.
        description: what it is for; the model decides by it whether to load the skill.
        when: more on when to use it; may be empty.
        source: whose it is: ``project``, ``user``, ``config``, or the plugin that gave it.
        path: its file; None if a plugin gave the text.
        text: what the model reads, where there is no file.
        hidden: not offered to the model; a person may use it.
        folder: what its relative paths start from; None without one.
    """

    name: str
    description: str
    when: str = ""
    source: str = ""
    path: Path | None = None
    text: str = ""
    hidden: bool = False
    folder: Path | None = None


@frozen
class Root:
    """A folder in which skills are looked for."""

    path: Path
    source: str


@define
class Catalogue:
    """The skills that hold in a place, by name in order, and what was wrong with files."""

    skills: Mapping[str, Skill]
    problems: list[str] = field(factory=list)

    def offered(self) -> list[Skill]:
        """Those that the model may load."""
        return [skill for skill in self.skills.values() if not skill.hidden]


def roots(cwd: Path | None, dsh_home: Path, home: Path, more: Sequence[Path] = ()) -> list[Root]:
    """Where skills are looked for; of several with one name the first counts."""
    found: list[Root] = []
    if cwd is not None:
        project = next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)
        found += [Root(project / name / "skills", "project") for name in (".dsh", ".agents", ".claude")]
    found += [Root(folder / "skills", "user") for folder in (dsh_home, home / ".agents", home / ".claude")]
    return [*found, *(Root(path, "config") for path in more)]


def any_files(places: Iterable[Root]) -> bool:
    """Whether there is anything to read at all."""
    return any(True for root in places for _ in _files(root, []))


def collect(places: Sequence[Root], given: Sequence[Skill] = ()) -> Catalogue:
    """All skills; what a project has comes first, then what plugins gave, then the person's own."""
    problems: list[str] = []
    found: dict[str, Skill] = {}
    before = [root for root in places if root.source == "project"]
    behind = [root for root in places if root.source != "project"]

    def add(skill: Skill) -> None:
        other = found.setdefault(skill.name, skill)
        if other is not skill and not _same(other.path, skill.path):
            mine, theirs = skill.path or skill.source, other.path or other.source
            problems.append(f"the skill {skill.name} of {mine} is hidden by that of {theirs}")

    for root in before:
        for skill in _skills(root, problems):
            add(skill)
    for skill in sorted(given, key=lambda skill: skill.name):
        add(skill)
    for root in behind:
        for skill in _skills(root, problems):
            add(skill)
    return Catalogue(dict(sorted(found.items())), problems)


def _same(one: Path | None, other: Path | None) -> bool:
    """Whether two paths are the same file, as where a folder of skills is a link to another."""
    return one is not None and other is not None and os.path.realpath(one) == os.path.realpath(other)


def _skills(root: Root, problems: list[str]) -> Iterator[Skill]:
    for path, folder in _files(root, problems):
        try:
            skill, notes = read_skill(path, folder, root.source)
        except FrontMatterError as error:
            problems.append(f"{path}: {error}")
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror or error}")
        else:
            problems += [f"{path}: {note}" for note in notes]
            yield skill


def _files(root: Root, problems: list[str]) -> Iterator[tuple[Path, Path]]:
    """The files of skills in a folder, each with what its relative paths start from, in the order of their names."""
    try:
        names = sorted(os.listdir(root.path))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(f"{root.path}: cannot be listed: {error.strerror or error}")
        return
    if len(names) > MOST:
        problems.append(f"{root.path} has {len(names)} entries: only the first {MOST} are looked at")
    for name in names[:MOST]:
        path = root.path / name
        if os.path.isfile(inner := path / FILE):
            yield inner, path
        elif name.endswith(".md") and not name.startswith((".", "README")) and os.path.isfile(path):
            yield path, root.path
        elif os.path.islink(path) and not os.path.exists(path):
            problems.append(f"{path} is a link to what does not exist")
        elif (other := _spelt_otherwise(path)) is not None:
            problems.append(f"{path / other} is left out: a skill's file is called SKILL.md, in capitals")


def _spelt_otherwise(folder: Path) -> str | None:
    """The name of a file in `folder` that is SKILL.md but for its capitals."""
    try:
        return next(
            (name for name in sorted(os.listdir(folder)) if name != FILE and name.casefold() == FILE.casefold()), None
        )
    except OSError:
        return None


def read_skill(path: Path, folder: Path, source: str) -> tuple[Skill, list[str]]:
    """The skill of a file, and what is odd about it.

    Raises:
        FrontMatterError: it is no skill; the message says why.
        OSError: it cannot be read.
    """
    found = read_text(path, LIMIT)
    if found.binary:
        raise FrontMatterError("it is no text")
    if found.cut:
        raise FrontMatterError(f"it has {found.size} bytes; {LIMIT} are read at most")
    matter = front_matter(found.text)
    skill, notes = skill_of(matter.settings, source=source, path=path, folder=folder)
    notes = [*([matter.note] if matter.note else []), *notes]
    if found.invalid:
        notes.append("it is not UTF-8 throughout: what is not, is shown as \ufffd")
    if not matter.body:
        notes.append("it has no text behind its settings")
    return skill, notes


def skill_of(settings: Mapping[str, Any], **more: Any) -> tuple[Skill, list[str]]:
    """The skill that some settings describe, and what is odd about them.

    Raises:
        FrontMatterError: the name or the description is missing or wrong.
    """
    name, description = settings.get("name"), settings.get("description")
    if not isinstance(name, str) or not name.strip():
        raise FrontMatterError("name: is missing" if name is None else f"name: expected text, got {name!r}")
    name = name.strip()
    if NAME.match(name) is None:
        raise FrontMatterError(f"name: {name!r} is none: use lower-case letters and digits, in words joined by -")
    if not isinstance(description, str) or not description.strip():
        missing = description is None
        raise FrontMatterError(
            "description: is missing" if missing else f"description: expected text, got {description!r}"
        )
    notes: list[str] = []
    description = " ".join(description.split())
    if len(description) > LONG:
        notes.append(f"description: has {len(description)} characters; over {LONG} the model sees only the beginning")
    when = _either(settings, "whenToUse", "when_to_use", "when-to-use")
    hidden = _either(settings, "disableModelInvocation", "disable-model-invocation", "disable_model_invocation")
    if when is not None and not isinstance(when, str):
        notes.append(f"whenToUse: expected text, got {when!r}; it is left out")
        when = None
    if hidden is not None and not isinstance(hidden, bool):
        notes.append(f"disableModelInvocation: expected true or false, got {hidden!r}; it counts as true")
        hidden = True
    return Skill(name, description, " ".join((when or "").split()), hidden=bool(hidden), **more), notes


def _either(settings: Mapping[str, Any], *names: str) -> Any:
    return next((settings[name] for name in names if name in settings), None)
