"""The table ``[instructions]``."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge

__all__ = ["InstructionsConfig"]


@frozen
class InstructionsConfig:
    """What is read, and how much of it.

    Attributes:
        names: the files that are looked for in each folder, in this order.
        max_file_bytes: of one file; what is behind it is cut off, and that is said.
        max_total_bytes: of all files that are read when an agent starts, imports included.
        import_depth: how many imports may lead from one to the next; 0 turns them off.
        nested: read the files of a folder below when the agent first touches something in it.
        attach: ``@path`` in a prompt attaches a file.
        max_attachment_bytes: of one attached file; all of a prompt may have four times as many together.
    """

    names: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md")
    max_file_bytes: int = field(default=48 * 1024, validator=ge(1))
    max_total_bytes: int = field(default=160 * 1024, validator=ge(0))
    import_depth: int = field(default=5, validator=ge(0))
    nested: bool = True
    attach: bool = True
    max_attachment_bytes: int = field(default=64 * 1024, validator=ge(1))
