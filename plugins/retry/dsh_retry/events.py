"""The event of a wait."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["RetryWait"]


@frozen
class RetryWait:
    """A request failed and is sent again after a wait.

    Attributes:
        attempt: the try that failed, from 1.
        wait_ms: how long until the next, in milliseconds.
        code: the error's code.
        message: the error, for people.
        tries: how often the request is sent at most; 0 in logs that do not say.
    """

    type: ClassVar[str] = "retry/wait"
    turn: int
    step: int
    attempt: int
    wait_ms: int
    code: str
    message: str
    tries: int = 0

    @property
    def notice(self) -> str:
        """The line for a person who waits."""
        of = f" of {self.tries}" if self.tries else ""
        return f"[retry] try {self.attempt + 1}{of} in {self.wait_ms / 1000:.1f} s: {self.message}"
