"""Kinds of children: described in the settings, and in Markdown files of the project and of the person."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dsh.config import config_files
from dsh.structure import did_you_mean

from .provider import AgentType

if TYPE_CHECKING:
    from dsh import Agent, Harness

    from .acp.settings import AcpConfig
    from .settings import SubagentsConfig, TypeConfig

__all__ = ["Malformed", "Types", "parse_type"]

LIMIT = 1 << 18
"""Bytes that a file may have."""
SHOWN = 8000
"""Characters that a description may have."""
OWN_KEYS = ("name", "description", "tools", "disallowed_tools", "model")
FOREIGN = {
    "bash": ("bash", "bash_output", "bash_kill"),
    "bashoutput": ("bash_output",),
    "killshell": ("bash_kill",),
    "killbash": ("bash_kill",),
    "multiedit": ("edit",),
    "task": ("subagent",),
    "agent": ("subagent",),
    "todowrite": ("todo_write",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
}
"""What other harnesses call tools, in lower case."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|)$")


class Malformed(ValueError):
    """A file describes no kind of child; the message says what is wrong with it."""


class Types:
    """The kinds of children of a harness."""

    def __init__(self, harness: Harness, config: SubagentsConfig) -> None:
        self._harness = harness
        self._configured = {name: _configured(name, table) for name, table in config.types.items()}
        self._configured |= {name: _another(name, table) for name, table in config.acp.items()}
        self._found: dict[str | None, Mapping[str, AgentType]] = {}

    def of(self, agent: Agent) -> Mapping[str, AgentType]:
        """The kinds that `agent` may choose from, by name.  Files are read once for each directory that agents work in.

        Of several with one name the settings' comes first, then the project's files, then the person's.
        """
        cwd = agent.session.header.cwd
        if cwd not in self._found:
            root = self._project(cwd)
            found = dict(self._configured)
            for folder, foreign in self._folders(root):
                for path in _files(folder):
                    kind = self._read(path, foreign)
                    if kind is not None:
                        found.setdefault(kind.name, kind)
            self._found[cwd] = dict(sorted(found.items()))
        return self._found[cwd]

    def _project(self, cwd: str | None) -> Path | None:
        if cwd is None:
            return None
        return config_files(cwd=Path(cwd), home=self._harness.home, environ=os.environ).root or Path(cwd)

    def _folders(self, root: Path | None) -> Iterator[tuple[Path, bool]]:
        """The folders to look into, each with whether its files are written for another harness."""
        person = Path(os.environ.get("HOME") or Path.home())
        if root is not None:
            yield root / ".dsh/agents", False
            if root != person:
                yield root / ".claude/agents", True
        yield self._harness.home / "agents", False
        yield person / ".claude/agents", True

    def _read(self, path: Path, foreign: bool) -> AgentType | None:
        try:
            return parse_type(_text(path), origin=str(path), foreign=foreign)
        except Malformed as error:
            self._harness.warn(f"{path}: {error}; this kind of subagent is left out")
        except OSError as error:
            self._harness.warn(f"{path}: cannot be read ({error.strerror or error}); this kind of subagent is left out")
        return None


def _configured(name: str, table: TypeConfig) -> AgentType:
    return AgentType(
        name,
        table.description,
        table.prompt,
        table.tools,
        table.without_tools,
        table.model,
        f"subagents.types.{name}",
    )


def _another(name: str, table: AcpConfig) -> AgentType:
    return AgentType(name, table.description, "", origin=f"subagents.acp.{name}", provider="acp")


def _files(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(".md")]


def _text(path: Path) -> str:
    # A pipe without O_NONBLOCK would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Malformed("it is no regular file")
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise Malformed(f"it has more than {LIMIT >> 10} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 (byte {error.start})") from None


def parse_type(text: str, *, origin: str = "", foreign: bool = False) -> AgentType:
    """A kind of child from the text of a Markdown file: its front matter, and its persona below that.

    Args:
        origin: where the text is from.
        foreign: it is written for another harness: keys that are not known here are its own business, a model
            without a provider is not known here, and neither keeps the file from being used.

    Raises:
        Malformed: the text is none; the message says what is wrong.
    """
    keys, body = _front_matter(text)
    keys = {name.replace("-", "_") if not foreign else name: value for name, value in keys.items()}
    if not foreign:
        for key in keys:
            if key not in OWN_KEYS:
                raise Malformed(
                    f"the front matter has the key {key!r}, which means nothing{did_you_mean(key, OWN_KEYS)}"
                )
    for key in ("name", "description"):
        if not keys.get(key):
            raise Malformed(f"the front matter has no {key}")
    name, description, model = _one(keys, "name"), _one(keys, "description"), _one(keys, "model")
    assert name is not None
    assert description is not None
    if not _NAME.fullmatch(name):
        raise Malformed(f"the name {name!r} is none: letters, digits, - and _ make one, at most 64")
    if len(description) > SHOWN:
        raise Malformed(f"its description has more than {SHOWN} characters, and is part of every request")
    if not body.strip():
        raise Malformed("there is no persona below the front matter")
    if model in ("inherit", "") or (foreign and model is not None and "/" not in model):
        model = None
    if model is not None and "/" not in model:
        raise Malformed(f"the model {model!r} is not written as provider/name")
    without = _names(keys.get("disallowedTools" if foreign else "disallowed_tools")) or ()
    return AgentType(name, description, body.strip(), _names(keys.get("tools")), without, model, origin)


def _front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """The keys between the two lines of dashes, and what follows.  Of YAML: text, over several lines too, and lists."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise Malformed("it does not begin with front matter (a line of three dashes)")
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")]
    if not ends:
        raise Malformed("its front matter does not end (with a second line of three dashes)")
    keys: dict[str, str | list[str]] = {}
    number = 1
    while number < ends[0]:
        line = lines[number].rstrip()
        number += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line)
        if found is None:
            raise Malformed(f"line {number} of its front matter is no `key: value`")
        if found[1] in keys:
            raise Malformed(f"its front matter has the key {found[1]} twice")
        more: list[str] = []
        while number < ends[0] and (lines[number][:1] in (" ", "\t", "-", "]") or not lines[number].strip()):
            more.append(lines[number])
            number += 1
        keys[found[1]] = _value((found[2] or "").strip(), more)
    return keys, "\n".join(lines[ends[0] + 1 :])


def _value(text: str, more: list[str]) -> str | list[str]:
    lines = [line.strip() for line in more]
    items = [line for line in lines if line]
    if not text and items and all(line.startswith("-") for line in items):
        return [_plain(line[1:].strip()) for line in items]
    whole = " ".join(line for line in (text, *(_plain(line) for line in items)) if line)
    if whole.startswith("[") and whole.endswith("]"):
        return [_plain(part.strip()) for part in whole[1:-1].split(",") if part.strip()]
    if re.fullmatch(r"[|>][+-]?", text):
        return ("\n" if text[0] == "|" else " ").join(lines).strip()
    return _plain(" ".join([text, *items]).strip())


def _plain(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        quote, inner = text[0], text[1:-1]
        return inner.replace('\\"', '"').replace("\\n", "\n") if quote == '"' else inner.replace("''", "'")
    return re.sub(r"\s#.*$", "", text).rstrip()


def _one(keys: Mapping[str, str | list[str]], key: str) -> str | None:
    value = keys.get(key)
    if isinstance(value, list):
        raise Malformed(f"its {key} is a list, and must be text")
    return value


def _names(value: str | list[str] | None) -> tuple[str, ...] | None:
    """Names of tools; those of other harnesses as they are called here.  None where nothing, or all, is said."""
    if value is None or value == "" or value == "*":
        return None
    names = value if isinstance(value, list) else [part.strip() for part in value.split(",")]
    found: list[str] = []
    for name in filter(None, names):
        plain = name.partition("(")[0].strip()
        found += (
            [plain]
            if plain == plain.lower() and plain not in ("task", "agent")
            else FOREIGN.get(plain.lower(), (plain.lower(),))
        )
    return tuple(dict.fromkeys(found))
