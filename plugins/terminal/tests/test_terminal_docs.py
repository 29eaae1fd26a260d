"""docs/terminal.md: every command, key and setting is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
from dsh_terminal.actions import OWN
from dsh_terminal.commands import KEYS
from dsh_terminal.config import TerminalConfig

from dsh.config import Config

PAGE = (Path(__file__).parents[3] / "docs" / "terminal.md").read_text()


def test_every_command_is_there(scripted: Any) -> None:
    screen = scripted('text("x")', "/exit")
    told = set(re.findall(r"`/([a-z]+)", PAGE))
    named = {proposal.text for proposal in screen.talk.book.names()}
    assert OWN.keys() <= named
    assert named == told - {"review", "web", "cancel"}


def test_every_setting_is_there_with_what_it_is() -> None:
    import tomllib

    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    table = tomllib.loads(block)["terminal"]
    assert table == {field.name: field.default for field in attrs.fields(TerminalConfig)}
    assert Config(tables={"terminal": table}).section("terminal", TerminalConfig) == TerminalConfig()


def test_keys_of_the_help_are_there() -> None:
    for key in re.findall(r"(?:Ctrl|Alt)-\w+", KEYS):
        assert key in PAGE
