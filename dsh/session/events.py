"""The vocabulary of the session log.

`Event` is the envelope; its `data` is one of the classes below, or `OtherData` for a type that
nobody registered.  JSON spellings are those of log format 0: the attribute ``call_id`` is
``callId`` there, an attribute that is None is absent.  `surface` marks the types the model sees.
A plugin's own event is a frozen attrs class with a ``type`` class variable like these, offered
through the hook ``session_event_types``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from attrs import field, frozen

from ..jsonvalue import Json, clean, freeze
from ..llm.chunks import Chunk
from ..messages import Block, CallConfig, Message, MessageSource, TokenUsage, ToolSchema

FORMAT = 0
"""The version of the log format that this program writes and reads."""


class EventData(Protocol):
    """What an event's data must have."""

    type: ClassVar[str]


@frozen
class Replace:
    """A surface operation: the nodes from `start` to `end`, by position, give way to this event."""

    start: int
    end: int


SurfaceOp: TypeAlias = Literal["append"] | Replace


@frozen
class Event:
    """One entry of the log.

    Attributes:
        seq: its index in the log, from 0.
        time: milliseconds since the epoch.
        data: an instance of one of this module's classes, of a plugin's, or `OtherData`.
        source_event_seqs: the events that this one was made from.
        surface_op: how it changes what the model sees; None on types the model does not see.
        raw: the line it was read from, where it was read; written back unchanged.
    """

    seq: int
    time: int
    data: Any
    source_event_seqs: tuple[int, ...] | None = None
    surface_op: SurfaceOp | None = None
    raw: bytes | None = field(default=None, repr=False, eq=False)

    @property
    def type(self) -> str:
        kind: str = self.data.type
        return kind


@frozen
class OtherData:
    """Data of a type that nobody registered, kept as it came."""

    type: str
    data: Json = field(converter=freeze)


# -- turns and steps


@frozen
class Trigger:
    """What opened a turn: ``message`` or ``injection``, and its source."""

    kind: str
    source: MessageSource


@frozen
class EndReason:
    """Why a turn ended.

    ``completed`` · ``max-tokens`` · ``aborted`` (reason?) · ``error`` (step, message, code?) ·
    ``disposed`` · ``rejected`` (reason) · ``interrupted``.
    """

    kind: str
    step: int | None = None
    message: str | None = field(default=None)
    code: str | None = None
    reason: str | None = None


@frozen
class TurnStart:
    type: ClassVar[str] = "turn/start"
    turn: int
    trigger: Trigger


@frozen
class TurnEnd:
    type: ClassVar[str] = "turn/end"
    turn: int
    reason: EndReason


@frozen
class StepStart:
    type: ClassVar[str] = "step/start"
    turn: int
    step: int


@frozen
class StepEnd:
    type: ClassVar[str] = "step/end"
    turn: int
    step: int


# -- messages


@frozen
class UserMessage:
    type: ClassVar[str] = "user/message"
    surface: ClassVar[bool] = True
    content: tuple[Block, ...]
    source: MessageSource


@frozen
class PromptBlocked:
    """A prompt that a gate refused, with what was asked and why not."""

    type: ClassVar[str] = "prompt/blocked"
    content: tuple[Block, ...]
    source: MessageSource
    reason: str = field(converter=clean)


@frozen
class ContextMessage:
    """Content that a plugin added; the model reads it inside a ``context`` tag."""

    type: ClassVar[str] = "context/message"
    surface: ClassVar[bool] = True
    content: tuple[Block, ...]
    source: MessageSource


@frozen
class SteeringMessage:
    """A message that arrived while the turn ran; the model reads it inside a ``steering`` tag."""

    type: ClassVar[str] = "steering/message"
    surface: ClassVar[bool] = True
    turn: int
    content: tuple[Block, ...]
    source: MessageSource


# -- requests


@frozen
class Header:
    """All of a request but its messages.  Empty text, tools and prefix are represented by None."""

    config: CallConfig
    system: str | None = None
    tools: tuple[ToolSchema, ...] | None = None
    message_prefix: tuple[Message, ...] | None = None


@frozen
class LinesDelta:
    """A change of text by lines: keep so many from either end, put `insert` in between."""

    keep_start: int
    keep_end: int
    insert: tuple[str, ...]


@frozen
class ToolsDelta:
    """A change of the tools, by name: drop, swap in place, put last."""

    added: tuple[ToolSchema, ...]
    removed: tuple[str, ...]
    changed: tuple[ToolSchema, ...]


@frozen
class RequestHeader:
    """The whole header of a request; `reason` is ``initial``, ``resume`` or ``fallback``."""

    type: ClassVar[str] = "request/header"
    header: Header
    reason: str


@frozen
class RequestHeaderDelta:
    """What changed in the header since the last request; fields that are None did not."""

    type: ClassVar[str] = "request/header-delta"
    system: LinesDelta | None = None
    tools: ToolsDelta | None = None
    config: CallConfig | None = None
    message_prefix: tuple[Message, ...] | None = None


# -- the model and its tools


@frozen
class AssistantChunk:
    type: ClassVar[str] = "assistant/chunk"
    turn: int
    step: int
    chunk: Chunk


@frozen
class AssistantMessage:
    """The model's answer.  `interrupted` marks one that was cut off: the text a person had seen by then."""

    type: ClassVar[str] = "assistant/message"
    surface: ClassVar[bool] = True
    turn: int
    step: int
    content: tuple[Block, ...]
    usage: TokenUsage | None = None
    interrupted: bool | None = None


@frozen
class ToolCall:
    """A call is about to be judged and run; `arguments` is the model's raw text."""

    type: ClassVar[str] = "tool/call"
    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


@frozen
class ErrorInfo:
    """What went wrong, for programs: the error's class name and code."""

    name: str
    code: str


def _frozen_or_none(value: Json) -> Json:
    return None if value is None else freeze(value)


@frozen
class ToolResult:
    """The answer to a call.  `meta` is the tool's own and never reaches the model."""

    type: ClassVar[str] = "tool/result"
    surface: ClassVar[bool] = True
    turn: int
    step: int
    call_id: str
    content: tuple[Block, ...]
    is_error: bool
    error: ErrorInfo | None = None
    meta: Json = field(default=None, converter=_frozen_or_none)


@frozen
class TodoItem:
    """One line of the list; `status` is ``pending``, ``in_progress`` or ``completed``."""

    content: str
    status: str


@frozen
class TodoWrite:
    """The whole list, as it is now."""

    type: ClassVar[str] = "todo/write"
    todos: tuple[TodoItem, ...]


# -- plugins' decisions


@frozen
class HookDecision:
    """A decision that a plugin took part in.

    Attributes:
        verdict: the answer's class in lower case; ``changed`` by a wrapper; ``raised``, ``late``;
            ``restored`` where a wrapper tried to turn back a denial.
        reason: what the plugin said, or how it failed.
        changed: the fields of the value that a wrapper replaced.
        ms: the plugin's own time, in milliseconds.
    """

    type: ClassVar[str] = "hook/decision"
    hook: str
    plugin: str
    version: str
    verdict: str
    reason: str | None = None
    changed: tuple[str, ...] | None = None
    ms: float = 0.0
    turn: int = 0
    step: int | None = None
    call_id: str | None = None


VOCABULARY: tuple[type[Any], ...] = (
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    UserMessage,
    PromptBlocked,
    ContextMessage,
    SteeringMessage,
    RequestHeader,
    RequestHeaderDelta,
    AssistantChunk,
    AssistantMessage,
    ToolCall,
    ToolResult,
    TodoWrite,
    HookDecision,
)


def usage_beside(data: Any) -> TokenUsage | None:
    """The tokens of requests that a plugin made beside the conversation, as for a summary.

    It tells them in an event of its own, whose `usage` is a `TokenUsage` and whose `model` says who was asked.
    """
    usage = getattr(data, "usage", None)
    return usage if isinstance(usage, TokenUsage) and not isinstance(data, AssistantMessage) else None
