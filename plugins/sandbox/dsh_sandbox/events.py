"""The event of a process that the sandbox left alone."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["SandboxExempt"]


@frozen
class SandboxExempt:
    """A part of the program itself was started outside of the sandbox while this turn was open.

    Attributes:
        purpose: what starts it, in its own words.
        program: what was started.
    """

    type: ClassVar[str] = "sandbox/exempt"
    turn: int
    purpose: str
    program: str
