"""A stream of chunks whose tokens are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from dsh import TokenUsage
from dsh.llm.chunks import Chunk, ChunkStream, Finish, Usage

__all__ = ["Watched"]


class Watched:
    """Hands on the chunks of `inner`, unchanged.

    Args:
        used: told the tokens, when they are told.
        untold: called when a whole answer is over and did not tell them.
    """

    def __init__(self, inner: ChunkStream, used: Callable[[TokenUsage], None], untold: Callable[[], None]) -> None:
        self._inner = inner
        self._used = used
        self._untold = untold
        self._told = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        chunk = await self._inner.__anext__()
        if isinstance(chunk, Usage):
            self._told = True
            self._used(chunk.usage)
        elif isinstance(chunk, Finish) and not self._told and chunk.reason.kind not in ("error", "aborted"):
            self._untold()
        return chunk

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._inner.aclose()

    def __eq__(self, other: object) -> bool:
        """Equal to the inner stream: nothing that a trace should tell of is changed."""
        return other is self or other is self._inner

    __hash__ = object.__hash__
