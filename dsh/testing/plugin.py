"""The pytest plugin that comes with dsh."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

__all__ = ["no_leftovers"]

PATIENCE = 5.0
"""Seconds that a child process has to disappear after a test."""


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    """Fail a test that leaves child processes behind."""
    from . import child_processes

    before = set(child_processes())
    yield
    deadline = time.monotonic() + PATIENCE
    while (left := set(child_processes()) - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        pytest.fail(f"the test left child processes behind: {sorted(left)}")
