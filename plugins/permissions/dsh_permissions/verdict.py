"""What judging a call comes to: the values that judges make and approvers read."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["MODES", "Kind", "Mode", "Part", "Verdict", "most_severe"]

Kind: TypeAlias = Literal["allow", "ask", "deny"]
Mode: TypeAlias = Literal["default", "accept-edits", "plan", "dont-ask", "bypass"]

MODES: tuple[Mode, ...] = ("default", "accept-edits", "plan", "dont-ask", "bypass")
SEVERITY: dict[Kind, int] = {"allow": 0, "ask": 1, "deny": 2}


@frozen
class Part:
    """One thing that a call does, judged alone: a simple command, or a path that is read or written.

    Attributes:
        what: ``command``, ``read``, ``write``, or ``tool`` for a call judged whole.
        text: the command or path, as it will be seen by a person.
        kind: its own verdict.
        reason: why, for a person and the model.
        rule: the rule that decided, as it is written, or a built-in rule's name; None where nothing matched.
        source: the file or flag of the rule, or ``built-in``.
        suggestion: the narrowest sensible rule that would allow it; None where no rule can.
        veiled: it may be what a rule forbids, as far as can be told; so `bypass` does not let it pass.
    """

    what: str
    text: str
    kind: Kind
    reason: str
    rule: str | None = None
    source: str = "built-in"
    suggestion: str | None = None
    veiled: bool = False


@frozen
class Verdict:
    """What becomes of a call.

    Attributes:
        kind: ``allow``, ``ask`` or ``deny``.
        reason: why, for a person and the model.
        rule: the deciding rule's text, or a built-in rule's name; None where nothing matched.
        source: the file or flag of the rule, or ``built-in``.
        suggestion: the narrowest sensible rule that "always" would write, as in ``bash(git commit *)``; None
            where no rule could allow it, or where more than one would be needed (see `suggestions`).
        parts: everything that was judged for it.
    """

    kind: Kind
    reason: str
    rule: str | None = None
    source: str = "built-in"
    suggestion: str | None = None
    parts: tuple[Part, ...] = ()

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The rules that together would allow the call: one for each part that asks; empty where no rules can."""
        asking = [part.suggestion for part in self.parts if part.kind == "ask"]
        if self.kind != "ask" or None in asking or not asking:
            return () if self.suggestion is None else (self.suggestion,)
        return tuple(dict.fromkeys(text for text in asking if text is not None))


def most_severe(parts: tuple[Part, ...]) -> Part | None:
    """The part that decides: the first of the most severe ones."""
    return max(parts, key=lambda part: SEVERITY[part.kind], default=None)
