"""What the pages show can be written so: commands are understood, Python and TOML and JSON are no typos."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh.cli import COMMANDS
from dsh.cli.extensions import brought, command_line
from dsh.cli.parser import Parser, command_parser, common_flags, find_word, main_parser, parse
from dsh.cli.start import settle
from dsh.errors import ConfigError

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("plugins/*/README.md")],
    key=lambda page: str(page.relative_to(ROOT)),
)
ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"}
"""What ends a command in a line of the shell."""


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each block of code; an indented one has no language."""
    fences = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
    for found in fences.finditer(text):
        yield found[2], "\n".join(line.removeprefix(found[1]) for line in found[3].splitlines()) + "\n"
    for found in re.finditer(r"(?<=\n\n)((?:    .*\n|\n)+)", fences.sub("", text)):
        yield "", found[1]


def commands_in(text: str) -> Iterator[list[str]]:
    """The command lines of dsh in lines of a shell, without the program's name."""
    for line in text.replace("\\\n", " ").splitlines():
        if not re.search(r"(^|\s)dsh\s", line):
            continue
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue  # a sentence with an apostrophe
        while "dsh" in words:
            at = words.index("dsh")
            rest = words[at + 1 :]
            end = next((number for number, word in enumerate(rest) if word in ENDS), len(rest))
            if at == 0 or words[at - 1] in ENDS or "=" in words[at - 1]:
                yield rest[:end]
            words = rest[end:]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


SHELL = [
    (named(page), argv)
    for page in PAGES
    for language, text in blocks(page.read_text(encoding="utf-8"))
    if language in ("", "sh", "console", "bash")
    for argv in commands_in(text)
]


@pytest.fixture(scope="module")
def brings() -> dict[str, Parser]:
    parser = Parser("dsh", add_help=False)
    common_flags(parser)
    start = settle(parser.parse_known_args(["--safe-mode"])[0])
    return {name: command_line(command) for name, command in brought(start).items()}


def understood(argv: list[str], brings: dict[str, Parser]) -> argparse.Namespace:
    parser = main_parser(COMMANDS)
    at = find_word(parser, argv)
    word = argv[at] if at is not None else ""
    if at is None or "-p" in argv[:at] or not (word in COMMANDS or word in brings):
        return parse(parser, argv)
    rest = [*argv[:at], *argv[at + 1 :]]
    if word in COMMANDS:
        return parse(command_parser(word, COMMANDS[word]), rest)
    return brings[word].parse_intermixed_args(rest) if word != "sandbox" else brings[word].parse_args(rest)


@pytest.mark.parametrize(("page", "argv"), SHELL)
def test_a_command_on_a_page_is_understood(page: str, argv: list[str], brings: dict[str, Parser]) -> None:
    understood(argv, brings)


def test_there_are_commands_on_the_pages(brings: dict[str, Parser]) -> None:
    shown = {page for page, _ in SHELL}
    assert {"README.md", "docs/cli.md", "plugins/checkpoints/README.md"} <= shown
    assert len(SHELL) > 40
    with pytest.raises(ConfigError):
        understood(["sessions", "lst"], brings)
    with pytest.raises(ConfigError):
        understood(["rewind", "--tu", "3"], brings)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_shows_can_be_read(page: Path) -> None:
    for language, text in blocks(page.read_text(encoding="utf-8")):
        if language == "python":
            compile(text, named(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif language == "toml":
            tomllib.loads(text)
        elif language == "json":
            assert is_json(text) or is_json(f"{{{text}}}") or all(map(is_json, text.splitlines())), text
