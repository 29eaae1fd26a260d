"""The beginnings of requests, which are the same from step to step: made once, and known again."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ...messages import ToolSchema
from ..adapter import Request

__all__ = ["Heads"]

COUNT = 128
"""How many are kept: of so many agents that speak with one service at a time."""


@frozen(eq=False)
class _Head:
    tools: tuple[ToolSchema, ...] | None
    data: bytes


class Heads:
    """Keeps what comes before the messages of a request.

    Args:
        encode: makes it, of a request and the service's name of the model.
    """

    def __init__(self, encode: Callable[[Request, str], bytes]) -> None:
        self._encode = encode
        self._known: dict[tuple[object, ...], _Head] = {}

    def get(self, request: Request, model: str) -> bytes:
        """What comes before the messages of `request`; the same bytes as long as it says the same."""
        key = (model, request.system, request.temperature, request.max_tokens, request.stop, request.reasoning_effort)
        known = self._known.pop(key, None)
        if known is None or (known.tools is not request.tools and known.tools != request.tools):
            known = _Head(request.tools, self._encode(request, model))
        self._known[key] = known
        if len(self._known) > COUNT:
            del self._known[next(iter(self._known))]
        return known.data
