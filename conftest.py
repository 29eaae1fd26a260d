"""For all tests here and in the plugins' folders."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A busy machine fails no test.
settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def nothing_is_left_running(no_leftovers: None) -> None:
    """Every test fails that leaves a task or a child process behind."""
