"""Writes settings.md: a table for every table of settings, from the classes that read them and their docstrings.

python docs/write_settings.py
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tomli_w
import trio
from attrs import NOTHING, Factory, define, field, fields, frozen, has

from dsh.config import Config
from dsh.harness import open_harness

T = TypeVar("T")
PAGE = Path(__file__).with_name("settings.md")
CORE = ("hooks", "plugins", "prompt", "sessions")
MORE = {"dsh_chat.providers": "dsh_chat.dialect.Dialect"}
"""By the module of a class: where else its settings are explained."""
INTRO = """\
# Settings

Every setting that there is, by its table. Where settings are read from, which of them win, and which count only in a
trusted folder is in [cli.md](cli.md#settings). `dsh init` writes a file that has the common ones, each explained; `dsh
config` prints what holds. An unknown key is an error.

<!-- `python docs/write_settings.py` writes this page from the classes that read the settings. -->

"""


@frozen
class Row:
    """A setting."""

    key: str
    kind: str
    default: str
    text: str


@define
class Tables:
    """What was asked for while a harness opened: names of tables, with the classes that they are read as."""

    asked: dict[str, Any] = field(factory=dict)


_tables = Tables()


class Recording(Config):
    """Settings that note which tables are asked for."""

    def section(self, name: str, cls: type[T]) -> T:
        _tables.asked[name] = cls
        return super().section(name, cls)


def asked() -> dict[str, Any]:
    """Every table that the installed plugins read."""

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            recording = Recording(tables={"sqlite": {}})  # a store that is not chosen asks for what is there alone
            async with open_harness(recording, home=Path(folder), safe_mode=True, warn=complain):
                pass

    _tables.asked.clear()
    trio.run(main)
    return dict(sorted(_tables.asked.items()))


def complain(message: str) -> None:
    if " blocks: " in message:
        return  # a plugin was slow to start, as on a busy machine
    sys.exit(f"the page would not be complete: {message}")


def page() -> str:
    """The text of the page."""
    parts = [INTRO, "## Above all tables\n\n", table(core_rows())]
    for name in CORE:
        cls = inspect.get_annotations(core(), eval_str=True)[name]
        parts += section(name, cls)
    agent = get_args(inspect.get_annotations(core(), eval_str=True)["agents"])[0]
    parts += [f"## [[agents]]\n\n{summary(agent)}", table(rows(agent))]
    for name, cls in asked().items():
        parts += section(name, cls)
    return "".join(parts).rstrip() + "\n"


def core() -> Any:
    return Config.__mro__[1]


def core_rows() -> list[Row]:
    said = documented(Config)
    plain = [attribute for attribute in fields(core()) if attribute.name not in (*CORE, "agents")]
    hints = get_type_hints(core())
    return [Row(a.name, kind(hints[a.name]), default(a), said.get(a.name, "")) for a in plain]


def section(name: str, cls: Any) -> Iterator[str]:
    """A table of settings, and the tables within it."""
    inner = named(cls)
    if inner is not None:
        yield f"## [{name}.NAME]\n\n{summary(inner)}{table(rows(inner))}"
        yield from within(f"{name}.NAME", inner)
        return
    yield f"## [{name}]\n\n{summary(cls)}{table(rows(cls))}"
    yield from within(name, cls)


def within(name: str, cls: Any) -> Iterator[str]:
    for key, hint in hints_of(cls).items():
        inner = named(hint)
        if inner is not None:
            lacking = [f"`{each}`" for each in hints_of(cls) if each not in hints_of(inner)]
            yield f"### [{name}.{key}.NAME]\n\n{summary(inner)}"
            if issubclass(cls, inner):
                yield f"The keys of `[{name}]`, but for {', '.join(lacking)}.\n\n"
            else:
                yield table(rows(inner))


def named(hint: Any) -> Any:
    """The class of ``dict[str, X]``, also where it may be absent; None for anything else."""
    for each in (hint, *get_args(hint)):
        if get_origin(each) in (dict, Mapping) or str(get_origin(each)).endswith("Mapping'>"):
            inner = get_args(each)[1]
            return inner if has(inner) else None
    return None


def hints_of(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {attribute.name: hints[attribute.name] for attribute in fields(cls) if attribute.init}


def rows(cls: Any) -> list[Row]:
    said, hints = documented(cls), hints_of(cls)
    return [Row(a.name, kind(hints[a.name]), default(a), said.get(a.name, "")) for a in fields(cls) if a.name in hints]


def documented(cls: Any) -> dict[str, str]:
    """What docstrings say of the attributes of a class, and of those it inherits."""
    found: dict[str, str] = {}
    module, _, name = MORE.get(cls.__module__, "").rpartition(".")
    more = [getattr(import_module(module), name)] if module else []
    for each in (*more, *reversed(cls.__mro__)):
        text = inspect.cleandoc(each.__doc__ or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
        for entry in re.split(r"\n(?=    \S)", f"\n{text}"):
            names, colon, says = entry.strip().partition(": ")
            if colon:
                for name in names.split(", "):
                    found[name] = " ".join(says.split())
    return found


def summary(cls: Any) -> str:
    """What a docstring says before it comes to the attributes."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:")[0]
    text = re.sub(r"(The table|A table|One of) ``\[.*?\]``(, as all layers together have it)?[:;,.]?\s*", "", text)
    text = re.sub(r"; `Dialect` says what it means|, or `Dialect`'s default", "", " ".join(text.split()))
    return f"{words(text)}\n\n" if text else ""


def words(text: str) -> str:
    text = re.sub(r"``(.+?)``", r"`\1`", text).replace("|", "\\|").strip()
    text = re.sub(r"\bNone is ", "without it, ", text)
    text = re.sub(r"(?<=\. )without", "Without", text)
    return text[:1].upper() + text[1:]


def kind(hint: Any) -> str:
    """A type, for people."""
    plain = {str: "text", bool: "true or false", int: "whole number", float: "number", Path: "path"}
    if hint in plain:
        return plain[hint]
    if hint is Any:
        return "number or text"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{tomled(value)}`" for value in arguments)
    if NoneType in arguments:
        inner = [argument for argument in arguments if argument is not NoneType]
        return " or ".join(kind(argument) for argument in inner)
    if origin in (tuple, list):
        return "list of tables" if "Mapping" in str(arguments[0]) or "dict" in str(arguments[0]) else "list of text"
    if named(hint) is not None:
        return "tables, see below"
    return "table"


def default(attribute: Any) -> str:
    value = attribute.default
    if value is NOTHING:
        return "(needed)"
    if isinstance(value, Factory):  # type: ignore[arg-type]  # a class for the type checker, a function in name
        return ""
    if value is None or value == () or value == {} or value == "":
        return ""
    return f"`{tomled(list(value) if isinstance(value, tuple) else value)}`"


def tomled(value: Any) -> str:
    text = tomli_w.dumps({"x": value}, multiline_strings=False).partition(" = ")[2].strip()
    return " ".join(text.replace(",\n]", "\n]").replace("[\n    ", "[").replace("\n]", "]").split())


def table(found: list[Row]) -> str:
    lines = ["| key | value | default | |", "|---|---|---|---|"]
    cells = (f"| `{row.key}` | {row.kind} | {row.default} | {words(row.text)} |" for row in found)
    lines += [line.replace("|  |", "| |") for line in cells]
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
