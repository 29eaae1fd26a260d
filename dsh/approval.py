"""What is asked when a call needs somebody's approval, and what may be answered: the values of ``permission_ask``.

The hook is the plugin `permissions`'s; whoever answers it needs only these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

if TYPE_CHECKING:
    from .agents import Agent
    from .tools.tool import ToolCall

__all__ = ["AllowOnce", "AllowProject", "AllowSession", "Answer", "PermissionRequest", "Refuse"]


def _rules(rules: str | Iterable[str]) -> tuple[str, ...]:
    return (rules,) if isinstance(rules, str) else tuple(rules)


@frozen
class PermissionRequest:
    """A question.

    Attributes:
        id: of the question, as in the log.
        call: what is to run; `call.tool` is the tool, where it is known.
        reason: why somebody should say.
        verdict: what the rules found, with `kind`, `reason`, `rule`, `source` and `parts`; None where another
            plugin asks.
        rules: the rules that would allow such calls from now on; empty where no rule can.
        agent: who wants to run it.
        lineage: the ids of the agents from the root to `agent`.
    """

    id: str
    call: ToolCall
    reason: str
    verdict: Any
    rules: tuple[str, ...]
    agent: Agent
    lineage: tuple[str, ...]


@frozen
class AllowOnce:
    """This call may run."""

    by: str = ""


@frozen
class AllowSession:
    """This call may run, and such calls for the rest of the session, of all agents in it.

    Attributes:
        rules: which calls; those of the request if empty.  Where it has none, it is the same call again.
        by: who says so, for the log; the plugin's name if empty.
    """

    rules: tuple[str, ...] = field(default=(), converter=_rules)
    by: str = ""


@frozen
class AllowProject:
    """As `AllowSession`, and the rules are written into the project's settings, for the sessions to come."""

    rules: tuple[str, ...] = field(default=(), converter=_rules)
    by: str = ""


@frozen
class Refuse:
    """The call does not run; the model reads the reason."""

    reason: str | None = None
    by: str = ""


Answer: TypeAlias = AllowOnce | AllowSession | AllowProject | Refuse
