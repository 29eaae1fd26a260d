"""The files of a new plugin's project: a guard, a tool, settings, and tests of all three."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["files"]

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "dsh-{name}"
version = "0.1.0"
description = "A plugin for dsh"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["dsh-harness"]

[project.optional-dependencies]
test = ["dsh-harness[test]"]

[project.entry-points.dsh]
{name} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]

[tool.ruff]
line-length = 110

[tool.pytest.ini_options]
testpaths = ["tests"]
trio_mode = true
filterwarnings = ["error"]
"""

README = """\
# dsh-{name}

A plugin for [dsh](https://pypi.org/project/dsh-harness/): it keeps commands away that hold a forbidden word,
and gives the model a tool.

    pip install .
    dsh plugins                # it is in the list
    dsh -p "What time is it?"

Settings, in `~/.dsh/config.toml` or a project's `.dsh/config.toml`:

```toml
[{name}]
forbidden = ["rm"]         # beside sudo, which always is
```

## Work on it

    pip install -e '.[test]'
    pytest
"""

PACKAGE = '''\
"""Keeps forbidden words out of commands, and tells the model the time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from attrs import frozen
from dsh import Deny, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall
    from dsh.prompt import Sections
    from dsh.tools.tool import Tools


ALWAYS = ("sudo",)


@frozen
class Config:
    """The table ``[{name}]`` of the settings.

    Attributes:
        forbidden: words that no command may hold, beside `ALWAYS`.
    """

    forbidden: tuple[str, ...] = ()


_configs: WeakKeyDictionary[Harness, Config] = WeakKeyDictionary()


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the settings; a mistake in them is found here, and said with its place."""
    _configs[harness] = harness.config.section("{name}", Config)


@hookimpl(canaries=[("bash", {{"command": "sudo ls"}})])
def tools_pre_execute(agent: Agent | None, call: ToolCall) -> Deny | None:
    """Deny a command with a forbidden word.  What this raises denies, too.

    The canary is a call that must be denied whatever the settings say; it is tried at every start.
    """
    if call.name != "bash":
        return None
    config = Config() if agent is None else _configs[agent.harness]
    for word in (*ALWAYS, *config.forbidden):
        if word in str(call.arguments.get("command", "")).split():
            return Deny(f"{{word}} is forbidden here")
    return None


@hookimpl
def tools_register(tools: Tools) -> None:
    """Offer the tool."""
    from .clock import clock

    tools.add(clock)


@hookimpl
def prompt_sections(sections: Sections) -> None:
    """Say when the tool helps.  What stands here must stay the same, or a provider's cache is lost."""
    sections.add("tool:clock", "Ask the tool clock for the time; do not guess it.", order=150)
'''

CLOCK = '''\
"""The tool ``clock``."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dsh import ToolError, tool


@tool(parallel=True, effect="none")
def clock(zone: str = "UTC") -> str:
    """The time now.

    Args:
        zone: a time zone, as in Europe/Berlin.
    """
    try:
        return datetime.now(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z")
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise ToolError(f"there is no time zone {{zone!r}}") from error
'''

TESTS = '''\
"""What the plugin denies, what it lets pass, and what its tool says."""

from __future__ import annotations

import pytest
from dsh import ConfigError
from dsh.config import Config
from dsh.messages import text_of
from dsh.session.events import ToolResult
from dsh.testing import call, memory_agent, text, tool_of

import {module}

PLUGINS = {{
    "{name}": {module},
    "shell": tool_of("bash"),
}}


async def result_of(name: str, arguments: dict[str, object], **table: object) -> ToolResult:
    """What a call comes to, in an agent with a model that makes it."""
    config = Config(tables={{"{name}": table}})
    async with memory_agent(call(name, arguments), text("ok"), plugins=PLUGINS, config=config) as agent:
        await agent.run("go")
        (result,) = (event.data for event in agent.session.events if isinstance(event.data, ToolResult))
        return result


async def test_a_forbidden_word_is_denied() -> None:
    result = await result_of("bash", {{"command": "sudo reboot"}})
    assert result.is_error
    assert text_of(result.content) == "Error: sudo is forbidden here"


async def test_other_commands_run() -> None:
    result = await result_of("bash", {{"command": "echo pseudo"}})
    assert not result.is_error


async def test_the_words_are_settings() -> None:
    assert (await result_of("bash", {{"command": "rm x"}}, forbidden=["rm"])).is_error
    with pytest.raises(ConfigError, match="forbiden"):
        await result_of("bash", {{"command": "ls"}}, forbiden=["rm"])


async def test_the_clock() -> None:
    assert text_of((await result_of("clock", {{}})).content).endswith("UTC")
    wrong = await result_of("clock", {{"zone": "Nowhere/Land"}})
    assert "there is no time zone" in text_of(wrong.content)
'''

GITIGNORE = """\
__pycache__/
.pytest_cache/
.venv/
build/
dist/
*.egg-info/
"""


def files(name: str) -> Mapping[str, str]:
    """The files of the plugin `name`, by their paths in the project."""
    words = {"name": name, "module": f"dsh_{name.replace('-', '_')}"}
    module = words["module"]
    texts = {
        "pyproject.toml": PYPROJECT,
        "README.md": README,
        f"{module}/__init__.py": PACKAGE,
        f"{module}/clock.py": CLOCK,
        f"tests/test_{name.replace('-', '_')}.py": TESTS,
    }
    return {**{path: text.format(**words) for path, text in texts.items()}, ".gitignore": GITIGNORE}
