"""What a small model is shown: a short system prompt, few tools, short schemas.

The tools themselves stay as they are and check their arguments by their own, whole schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from dsh import ToolSchema

if TYPE_CHECKING:
    from dsh.prompt import Assembly, Section

__all__ = ["PROMPT", "lean", "lean_schema"]

_FOLDER = "You are dsh, a coding agent in the folder {{cwd}}."
_NO_FOLDER = "You are dsh, a coding agent."
PROMPT = (
    "You cannot see files by yourself: use the tools to read, change and list them. "
    "When you have a result, answer in a sentence or two."
)

# What a person wrote into the prompt: it stays.
_PERSONAL = ("deployment:persona", "deployment:append")

_DESCRIPTION, _PARAMETER, _MOST = 100, 40, 5
_KEPT = ("type", "enum", "items", "const")


@frozen
class _Shown:
    """How a tool is shown: what it does, what a person may say to have it used, and the call that answers.

    The chat template makes a worked example of the last two; they travel in the schema as the
    ``title`` of the parameters and the ``examples`` of each.
    """

    description: str
    request: str
    arguments: Mapping[str, str] = field(factory=dict)


_SHOWN = {
    "read": _Shown("Read a text file and return its contents.", "What is in README.md?", {"file_path": "README.md"}),
    "write": _Shown(
        "Write a new file with the given content.",
        "Write Hello! into hello.txt.",
        {"file_path": "hello.txt", "content": "Hello!"},
    ),
    "edit": _Shown(
        "Replace a piece of text in a file.",
        "Change Hello to Bye in hello.txt.",
        {"file_path": "hello.txt", "old_string": "Hello", "new_string": "Bye"},
    ),
    "bash": _Shown("Run a shell command, as in: list the files.", "List the files.", {"command": "ls"}),
}


def lean(assembly: Assembly, tools: Sequence[str]) -> Assembly:
    """`assembly` for a small model: our few sentences and what a person added to the prompt, and of the tools
    those named in `tools`, at most five.  If it has none of them, its first ones are shown.
    """
    return evolve(
        assembly,
        sections=(_section(assembly), *(section for section in assembly.sections if section.name in _PERSONAL)),
        tools=tuple(lean_schema(tool) for tool in _few(assembly.tools, tools)),
    )


def _section(assembly: Assembly) -> Section:
    from dsh.prompt import Section

    where = _FOLDER if assembly.variables.get("cwd") is not None else _NO_FOLDER
    return Section("local:lean", -100, f"{where} {PROMPT}")


def _few(offered: Sequence[ToolSchema], names: Sequence[str]) -> list[ToolSchema]:
    by_name = {tool.name: tool for tool in offered}
    kept = [by_name[name] for name in names if name in by_name] or list(offered)
    return kept[:_MOST]


def lean_schema(tool: ToolSchema) -> ToolSchema:
    """`tool` with a sentence of description and its required parameters only."""
    shown = _SHOWN.get(tool.name)
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = [name for name in tool.parameters.get("required", ()) if name in properties]
    examples = shown.arguments if shown is not None and set(required) <= set(shown.arguments) else {}
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {name: _short(properties[name], examples.get(name)) for name in required},
        "required": required,
    }
    if shown is None:
        return ToolSchema(tool.name, _sentence(tool.description, _DESCRIPTION), parameters)
    if examples:
        parameters["title"] = shown.request
    return ToolSchema(tool.name, shown.description, parameters)


def _short(schema: Any, example: str | None) -> dict[str, Any]:
    """A parameter's schema: its type and what it may be, a few words, and `example`."""
    if not isinstance(schema, Mapping):
        return {}
    short = {key: schema[key] for key in _KEPT if key in schema} or dict(schema)
    if text := _sentence(str(schema.get("description", "")), _PARAMETER):
        short["description"] = text
    if example is not None:
        short["examples"] = [example]
    return short


def _sentence(text: str, most: int) -> str:
    """The first sentence of `text`, cut between words to `most` characters."""
    first = re.split(r"(?<=[.!?])\s|\n|;|:\s", text.strip(), maxsplit=1)[0].strip()
    if len(first) <= most:
        return first
    return first[: most - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"
