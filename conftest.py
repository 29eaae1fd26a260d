"""For all tests here and in the plugins' folders."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nothing_is_left_running(no_leftovers: None) -> None:
    """Every test fails that leaves a task or a child process behind."""
