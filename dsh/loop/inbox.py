"""The inbox: what was sent to an agent and is not in its log yet."""

from __future__ import annotations

from collections import deque

import trio
from attrs import field, frozen

from ..messages import Block, BlockLike, MessageSource, blocks

__all__ = ["Inbox", "Mail"]


@frozen
class Mail:
    """One message on its way into the log."""

    content: tuple[Block, ...] = field(converter=blocks)
    source: MessageSource


class Inbox:
    """Two queues: `queued` becomes the next turn, `steering` goes into the running one."""

    def __init__(self) -> None:
        self.queued: deque[Mail] = deque()
        self.steering: deque[Mail] = deque()
        self._wake = trio.Event()

    def __bool__(self) -> bool:
        return bool(self.queued or self.steering)

    def enqueue(self, content: BlockLike, source: MessageSource) -> Mail:
        """Queue a message for the next turn, and wake whoever waits."""
        mail = Mail(content, source)
        self.queued.append(mail)
        self.wake()
        return mail

    def steer(self, content: BlockLike, source: MessageSource) -> Mail:
        """Queue a message for the running turn."""
        mail = Mail(content, source)
        self.steering.append(mail)
        return mail

    def wake(self) -> None:
        """End the current wait."""
        self._wake.set()

    async def wait(self) -> None:
        """Wait until something is queued, or `wake` is called."""
        self._wake = trio.Event()
        await self._wake.wait()

    def drain(self) -> list[Mail]:
        """Take all that is queued."""
        batch = list(self.queued)
        self.queued.clear()
        return batch

    def requeue_steering(self) -> None:
        """What came too late to steer becomes part of the next turn."""
        self.queued.extend(self.steering)
        self.steering.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.queued.clear()
        self.steering.clear()
