"""Which files of instructions there are, and what they say.

A file may import others with ``@path``.  It comes from whoever wrote the project, so an import, or a link, may not
lead out of the folder that it belongs to: else a stranger's project could have a person's keys read to the model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import define, field, frozen

from dsh.textfile import read_text

from .config import InstructionsConfig

__all__ = ["Document", "Loader", "above", "folders_between", "home_folders", "project_root", "rendered", "without_code"]

# Possessive, since a file of nothing but backticks would be tried in each of their combinations otherwise.
_CODE = re.compile(
    r"^(?P<fence>```++|~~~++).*?^(?P=fence)[`~]*+[ \t]*$|(?<!`)(?P<tick>`++).+?(?<!`)(?P=tick)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_IMPORT = re.compile(r"(?:(?<=\s)|^)@(?P<path>[^\s`@]+)", re.MULTILINE)
_AFTER = ".,;:!?)]}'\"*_"
FILES = 200
"""Files that are read for one agent at most."""
PROBLEMS = 20
"""How many a person is told of."""


@frozen
class Document:
    """A file of instructions; `shown` is its path as the model reads it."""

    shown: str
    text: str


@define
class Loader:
    """Reads files, each once, and keeps what was wrong with them.

    Attributes:
        cwd: where the agent works; paths below it are shown relative to it.
        problems: for a person, in the order in which they were met.
    """

    config: InstructionsConfig
    cwd: Path
    home: Path
    problems: list[str] = field(factory=list)
    left: int = field(init=False)
    _seen: set[str] = field(factory=set)
    _texts: set[str] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.left = self.config.max_total_bytes

    def folder(self, folder: Path, inside: Path) -> list[Document]:
        """The files of a folder, each followed by what it imports.

        Args:
            inside: the folder that links and imports may not lead out of.
        """
        found: list[Document] = []
        for name in self.config.names:
            path = folder / name
            if os.path.lexists(path):
                found += self._read(path, inside, 0)
        return found

    def _read(self, path: Path, inside: Path, depth: int) -> Iterator[Document]:
        real = os.path.realpath(path)
        if real in self._seen:
            return
        shown = self.shown(path)
        if not _within(real, inside):
            self._say(f"{shown} leads out of {self.shown(inside)}, to {real}: it is not read")
            return
        if len(self._seen) == FILES:
            self._say(f"{shown} is left out, as whatever else there is: {FILES} files of instructions are read at most")
        self._seen.add(real)
        if len(self._seen) > FILES:
            return
        try:
            found = read_text(real, self.config.max_file_bytes)
        except OSError as error:
            self._say(f"{shown} cannot be read: {error.strerror or error}")
            return
        if found.binary:
            self._say(f"{shown} is no text: it is not read")
            return
        if found.invalid:
            self._say(f"{shown} is not UTF-8 throughout: what is not, is shown as \ufffd")
        text = found.text.strip()
        if not text or text in self._texts:
            return  # a copy, as CLAUDE.md often is of AGENTS.md, says nothing new
        if found.cut:
            self._say(f"{shown} has {found.size} bytes: only the first {self.config.max_file_bytes} are read")
            text += f"\n[cut here: the file has {found.size} bytes]"
        size = len(text.encode())
        if size > self.left:
            self._say(
                f"{shown} is left out: with it, the files of instructions have more than "
                f"{self.config.max_total_bytes} bytes"
            )
            return
        self.left -= size
        self._texts.add(text)
        yield Document(shown, text)
        if depth < self.config.import_depth:
            for target in imports(text):
                yield from self._import(target, path, inside, depth)

    def _import(self, target: str, importer: Path, inside: Path, depth: int) -> Iterator[Document]:
        path = Path(os.path.expanduser(target)) if target.startswith("~/") else Path(os.path.dirname(importer), target)
        if os.path.isfile(path):
            yield from self._read(path, inside, depth + 1)
        elif target.endswith((".md", ".txt")):
            self._say(f"{self.shown(importer)} imports {target}, which does not exist")

    def _say(self, problem: str) -> None:
        """Note a problem; of very many only the first."""
        if len(self.problems) < PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == PROBLEMS:
            self.problems.append("there is more that is wrong with files of instructions, which is not told")

    def shown(self, path: Path) -> str:
        """The path as a person and the model read it: below the working directory relative, in the home with ~."""
        for base, sign in ((self.cwd, ""), (self.home, "~/")):
            if path == base:
                return sign or "."
            if path.is_relative_to(base):
                return sign + str(path.relative_to(base))
        return str(path)


def imports(text: str) -> list[str]:
    """The paths that a text imports: ``@path``, but not in code."""
    found = _IMPORT.finditer(without_code(text))
    return list(dict.fromkeys(path for match in found if (path := match["path"].rstrip(_AFTER))))


def without_code(text: str) -> str:
    """The text with blanks in the place of code, fenced or between backticks."""
    return _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def project_root(cwd: Path) -> Path:
    """The nearest folder from `cwd` upwards that is a git repository's; `cwd` where there is none."""
    return next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)


def above(cwd: Path, root: Path) -> list[Path]:
    """The folders from `root` down to `cwd`."""
    return folders_between(root, cwd)


def folders_between(top: Path, bottom: Path) -> list[Path]:
    """The folders from `top` down to `bottom`, both included; none if `bottom` is not below."""
    if not bottom.is_relative_to(top):
        return []
    return [*(parent for parent in reversed(bottom.parents) if parent.is_relative_to(top)), bottom]


def home_folders(dsh_home: Path, home: Path) -> list[Path]:
    """Where a person keeps instructions for all work."""
    return [home / ".claude", home / ".agents", dsh_home]


def _within(real: str, folder: Path) -> bool:
    return Path(real).is_relative_to(os.path.realpath(folder))


def rendered(documents: Iterable[Document]) -> str:
    """The documents as the model reads them."""
    return "\n\n".join(
        f'<instructions path="{_attribute(document.shown)}">\n{document.text}\n</instructions>'
        for document in documents
    )


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")


def start_documents(loader: Loader, dsh_home: Path) -> Sequence[Document]:
    """Everything that holds from the start: the person's own files, then those of the project down to the folder."""
    found: list[Document] = []
    for folder in home_folders(dsh_home, loader.home):
        found += loader.folder(folder, Path(folder.anchor))  # a person's own files may lead anywhere
    root = project_root(loader.cwd)
    for folder in above(loader.cwd, root):
        found += loader.folder(folder, root)
    return found
