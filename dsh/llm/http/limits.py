"""How much a service may send."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_ANSWER"]

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of one answer, as it is sent; the longest that models are known to give have some forty million."""
