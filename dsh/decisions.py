"""What hooks answer: small frozen values, named by what they decide.

The hook engine reads three class variables of a gate's answers: `severity` orders them,
`final` marks those that nothing can turn back, and `open_question` marks those that must
not be the last word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias, TypeVar

from attrs import field, frozen

from .errors import HookError
from .messages import Block as ContentBlock
from .messages import BlockLike, HookContext, blocks

__all__ = [
    "Accept",
    "Allow",
    "Ask",
    "Block",
    "ContextLike",
    "ContinuationDecision",
    "Continue",
    "Deny",
    "GiveUp",
    "NextStep",
    "PostDecision",
    "PromptDecision",
    "RequestErrorDecision",
    "Retry",
    "Stop",
    "ToolDecision",
    "contexts_of",
    "expected",
]

T = TypeVar("T")
ContextLike: TypeAlias = "str | ContentBlock | HookContext | Iterable[HookContext]"
"""Content a plugin adds.  Without a source of its own the engine names the plugin as source."""


def _content(value: BlockLike | None) -> tuple[ContentBlock, ...] | None:
    return None if value is None else blocks(value)


@frozen
class Allow:
    """No objection.

    On a prompt, `content` replaces what was submitted, and `context` is recorded behind it.
    """

    severity: ClassVar[int] = 0
    final: ClassVar[bool] = False
    open_question: ClassVar[bool] = False
    content: tuple[ContentBlock, ...] | None = field(default=None, converter=_content)
    context: ContextLike = ()


@frozen
class Ask:
    """A person should say.  An approver's wrapper turns it into `Allow` or `Deny`; if none does, it is denied."""

    severity: ClassVar[int] = 1
    final: ClassVar[bool] = False
    open_question: ClassVar[bool] = True
    reason: str | None = None


@frozen
class Deny:
    """The tool is not run, and the model reads the reason.  Final.

    `unanswered` marks an `Ask` that found nobody to answer it.
    """

    severity: ClassVar[int] = 2
    final: ClassVar[bool] = True
    open_question: ClassVar[bool] = False
    reason: str
    unanswered: bool = False


@frozen
class Block:
    """A prompt is not submitted, or a tool's result is withheld; `reason` is what is told instead.  Final."""

    severity: ClassVar[int] = 2
    final: ClassVar[bool] = True
    open_question: ClassVar[bool] = False
    reason: str
    context: ContextLike = ()


@frozen
class Accept:
    """The tool's result stands, or `content` stands in for what it said; `context` follows the step's results."""

    severity: ClassVar[int] = 0
    final: ClassVar[bool] = False
    open_question: ClassVar[bool] = False
    content: tuple[ContentBlock, ...] | None = field(default=None, converter=_content)
    context: ContextLike = ()


@frozen
class Continue:
    """Another step.  `reason` is recorded as a steering message before it."""

    reason: str | HookContext | None = None


@frozen
class Stop:
    """The turn ends."""


@frozen
class Retry:
    """Send the same request again, `after` seconds from now."""

    after: float = 0.0


@frozen
class NextStep:
    """Close this step without a message and open the next one, so that pre-step hooks run again."""


@frozen
class GiveUp:
    """The request failed for good; the turn ends with its error."""


def contexts_of(verdict: Allow | Accept | Block) -> tuple[HookContext, ...]:
    """The contexts of a gate's verdict; the gate has given each its source."""
    context = verdict.context
    return context if isinstance(context, tuple) else ()


def expected(hook: str, answer: T, *kinds: type[Any]) -> T:
    """The answer of a deciding hook, if it is one of `kinds`.

    Raises:
        HookError: it is not; the message says what belongs there.
    """
    if isinstance(answer, kinds):
        return answer
    raise HookError(f"{hook} is answered with {' or '.join(kind.__name__ for kind in kinds)}, not with {answer!r:.80}")


ToolDecision: TypeAlias = Allow | Ask | Deny
PromptDecision: TypeAlias = Allow | Block
PostDecision: TypeAlias = Accept | Block
ContinuationDecision: TypeAlias = Continue | Stop
RequestErrorDecision: TypeAlias = Retry | NextStep | GiveUp
