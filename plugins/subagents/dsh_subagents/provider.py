"""What runs a child, and what it is given: the interface between this plugin and the providers of children.

A provider opens a child; the child answers prompts until it is closed.  Everything else is done
for it, the same for all providers: the caps, the time a child has, answers by schema, work in the background,
the events in the parent's log and the hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen

from dsh import TokenUsage
from dsh.errors import ToolError
from dsh.jsonvalue import Json

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["AgentType", "Answer", "Child", "ChildInfo", "Outcome", "Provider", "SubagentError", "Task"]


class SubagentError(ToolError):
    """Work could not be handed to a child, or a child failed; the model reads the message.

    Codes: ``SUBAGENT_DEPTH`` ``SUBAGENT_CONCURRENCY`` ``UNKNOWN_SUBAGENT`` ``UNKNOWN_TYPE`` ``SUBAGENT_FAILED``
    ``SUBAGENT_CANCELLED`` ``SUBAGENT_TIMEOUT`` ``SUBAGENT_MAX_TOKENS`` ``SUBAGENT_REFUSED`` ``SUBAGENT_ANSWER``.
    """

    default_code = "SUBAGENT_FAILED"


@frozen
class AgentType:
    """A kind of child that settings or a file describe.

    Attributes:
        description: for the parent's model: when to choose it.
        prompt: its persona; takes the place of the parent's in the system prompt.
        tools: the only ones of its parent's tools that it has; None for all of them.
        without_tools: those it does not have.
        model: ``provider/name``; None for its parent's.
        origin: where it is described.
        provider: who runs children of this kind; None for whoever was asked to.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    without_tools: tuple[str, ...] = ()
    model: str | None = None
    origin: str = ""
    provider: str | None = None


@frozen(eq=False)
class Task:
    """What a child is to do.

    Attributes:
        parent: who hands it on; its gates, its working directory and its budget are the child's.
        description: what it is about, in a few words, for people.
        type: the kind of child; None for one like its parent.
        schema: a JSON schema that the answer has to fit; None for plain text.
        call_id: the call that asks for it; None without one.
        background: the parent does not wait for it.
    """

    parent: Agent
    description: str
    prompt: str
    type: AgentType | None = None
    schema: Json = None
    call_id: str | None = None
    background: bool = False


@frozen
class Answer:
    """What a prompt came to.

    Attributes:
        reason: ``completed``, ``max-tokens``, ``aborted``, ``refused``, ``error`` or a provider's own word.
        text: the last of the child's messages that was not empty; also of one that failed.
        message, code: what went wrong, where something did.
    """

    reason: str
    text: str = ""
    message: str | None = None
    code: str | None = None


@frozen
class Outcome:
    """What a child came to.

    Attributes:
        id: what its parent calls it.
        reason: that of its last `Answer`; or ``timeout``, or ``answer`` when that does not fit the schema.
        text: what it said last, whatever the reason.
        message, code: what went wrong, where something did.
        structured: the answer as JSON, if a schema was given and it fits.
        usage: the tokens of its requests, with those of its own children.
    """

    id: str
    reason: str
    text: str = ""
    message: str | None = None
    code: str | None = None
    structured: Json = None
    session_id: str | None = None
    usage: TokenUsage = field(factory=TokenUsage)

    @property
    def completed(self) -> bool:
        """Whether the child did what it was asked."""
        return self.reason == "completed"


@frozen
class ChildInfo:
    """Who a child is.

    Attributes:
        id: what its parent calls it, as in ``subagent-1``; unique in the parent's session.
        provider: the name of the provider that runs it.
        session_id: of its own log; None where it has none.
        type: the name of its type; None without one.
    """

    id: str
    provider: str
    description: str
    session_id: str | None = None
    type: str | None = None
    background: bool = False
    call_id: str | None = None


class Child(Protocol):
    """A child that is there."""

    @property
    def session_id(self) -> str | None:
        """Of its own log; None where it keeps none here."""
        ...

    @property
    def usage(self) -> TokenUsage:
        """The tokens of its requests so far."""
        ...

    async def ask(self, prompt: str) -> Answer:
        """Have it answer; called again for a repaired answer, never while it is being awaited.

        A child that fails is an `Answer`, too.  Cancelling stops what it does, and returns when that has stopped.

        Raises:
            Exception: there is no talking to it.
        """
        ...

    def tell(self, message: str) -> None:
        """Give it a message while it works; it reads it when it can.

        Raises:
            SubagentError: it takes none.
        """
        ...

    def said(self) -> str:
        """The last of its messages that is not empty, also after it was closed; never any of its parent's."""
        ...

    def progress(self, since: int) -> tuple[Sequence[str], int]:
        """What it said and did since the mark `since`, 0 for all; and the mark for the next call."""
        ...


class Provider(Protocol):
    """Who runs children.

    Attributes:
        tool: the name of the tool by which a model chooses this provider; None where a kind of child does.
        wording: what its model is told of it, behind what all such tools have in common.
        types: whether it heeds `Task.type`.
    """

    @property
    def tool(self) -> str | None: ...

    @property
    def wording(self) -> str: ...

    @property
    def types(self) -> bool: ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Child]:
        """Start a child, and end it with the block.

        Leaving the block, however, returns only when nothing of the child is left running.  Entering
        should not wait longer than starting takes.

        Raises, on entering:
            Exception: the child cannot be started; nothing of it is left then.
        """
        ...
