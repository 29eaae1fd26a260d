"""The table ``[spill]``."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import ge, optional

__all__ = ["SpillConfig", "ToolLimits"]


@frozen
class ToolLimits:
    """The limits of one tool, ``[spill.tools.NAME]``; what is not given is the table's own, 0 is no limit.

    Attributes:
        max_bytes, max_lines: a longer result of this tool goes to a file.
    """

    max_bytes: int | None = field(default=None, validator=optional(ge(0)))
    max_lines: int | None = field(default=None, validator=optional(ge(0)))


@frozen
class SpillConfig:
    """How long a result may be.

    Attributes:
        max_bytes, max_lines: a longer result goes to a file; 0 is no limit.
        head_bytes, tail_bytes: how much of its beginning and its end the model sees then.
        clean: take out what steers terminals, and all but the last state of progress bars; never from files that
            were read.
        tools: limits of single tools.  `read` shows a part of a file already, so that it has none if none is given.
    """

    max_bytes: int = field(default=50 * 1024, validator=ge(0))
    max_lines: int = field(default=2000, validator=ge(0))
    head_bytes: int = field(default=8 * 1024, validator=ge(0))
    tail_bytes: int = field(default=8 * 1024, validator=ge(0))
    clean: bool = True
    tools: Mapping[str, ToolLimits] = {}

    def limits(self, tool: str) -> ToolLimits:
        """What holds for a tool."""
        own = self.tools.get(tool) or OWN.get(tool, ToolLimits())
        return ToolLimits(
            self.max_bytes if own.max_bytes is None else own.max_bytes,
            self.max_lines if own.max_lines is None else own.max_lines,
        )


OWN = {"read": ToolLimits(0, 0)}
"""Limits of tools that the settings say nothing of."""
