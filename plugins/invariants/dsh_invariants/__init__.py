"""Invariants: what dsh promises, checked while it runs.  Off unless ``[invariants] enabled`` is true.

While it is off, no hook but the one that reads this setting is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Harness

CHECKS = "invariants.checks"
"""The name of the plugin that is registered while the checks are on."""


@frozen
class InvariantsConfig:
    """The table ``[invariants]``.

    Attributes:
        enabled: check while dsh runs; ``--debug`` does so, too.
    """

    enabled: bool = False


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Begin to check, if that is wanted."""
    if harness.config.section("invariants", InvariantsConfig).enabled:
        from .checks import Checks

        harness.plugins.register(Checks(harness.warn), CHECKS)
