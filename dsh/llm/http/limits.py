"""How much a service may send."""

from __future__ import annotations

from typing import Final

__all__ = ["ANSWERED", "MAX_ANSWER"]

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of one answer, as it is sent; the longest that models are known to give have some forty million."""

ANSWERED = frozenset({200, 201, 203})
"""Statuses of an answer: some gateways say that they have created something, or changed it on the way."""
