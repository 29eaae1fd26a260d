"""What the log of such a child says besides its messages.  No model sees these."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from dsh.jsonvalue import clean
from dsh.messages import Block
from dsh.session.events import ErrorInfo

__all__ = ["AcpCall", "AcpResult", "AcpTool"]


@frozen
class AcpTool:
    """The agent told of a tool of its own that it uses, or used; that is what it says.

    Attributes:
        call_id: its own id of that.
        kind: ``read``, ``edit``, ``execute`` ...
        status: ``pending``, ``in_progress``, ``completed`` or ``failed``.
    """

    type: ClassVar[str] = "acp/tool"
    turn: int
    step: int | None
    call_id: str = field(converter=clean)
    title: str = field(converter=clean)
    kind: str = field(converter=clean)
    status: str = field(converter=clean)


@frozen
class AcpCall:
    """The agent asked for something, which is judged as this call of a tool.

    Attributes:
        method: by which it asked.
        arguments: JSON.
    """

    type: ClassVar[str] = "acp/call"
    turn: int
    step: int | None
    call_id: str
    method: str
    name: str
    arguments: str


@frozen
class AcpResult:
    """What it was answered."""

    type: ClassVar[str] = "acp/result"
    turn: int
    step: int | None
    call_id: str
    content: tuple[Block, ...]
    is_error: bool
    error: ErrorInfo | None = None
