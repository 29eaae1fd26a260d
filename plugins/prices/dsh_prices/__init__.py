"""Prices and context windows of common models, as the data set of ``genai-prices`` has them, if it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh.models import CollectedFacts

__all__ = ["SOURCE"]

SOURCE = "data set"
LAST = 100
"""Who knows more about a model than a table for everybody goes before it."""


@hookimpl
async def model_facts(facts: CollectedFacts) -> None:
    """Offer what the data set knows; reading it takes a moment, and others run meanwhile."""
    import trio

    from .data import read

    look_up = await trio.to_thread.run_sync(read)
    if look_up is not None:
        facts.add(SOURCE, look_up, LAST)
