"""Answers that have to fit a JSON schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsh.jsonvalue import Json, dumps, loads
from dsh.tools.schema import violations

if TYPE_CHECKING:
    from .provider import Task

__all__ = ["again", "asked", "judged"]

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


def asked(task: Task) -> str:
    """The prompt of a task, with what its answer has to look like."""
    if task.schema is None:
        return task.prompt
    return (
        f"{task.prompt}\n\nYour last message is read by a program. It must be JSON alone, without any text around it, "
        f"that fits this JSON schema:\n\n{dumps(task.schema).decode()}"
    )


def again(wrong: list[str]) -> str:
    """The prompt by which a child mends its answer."""
    return (
        f"Your answer could not be used: {'; '.join(wrong)}. Answer once more, with all of it: JSON alone that fits "
        "the schema."
    )


def judged(text: str, schema: Json) -> tuple[Json, list[str]]:
    """The answer as JSON, and what is wrong with it; a fence around it is taken off."""
    fenced = _FENCED.findall(text)
    try:
        value = loads(text.strip() if len(fenced) != 1 else fenced[0])
    except ValueError as error:
        return None, [f"it is no JSON ({error})"]
    return value, violations(schema, value, "the answer")
