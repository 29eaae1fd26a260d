"""What can go wrong with the shell itself, as opposed to a command that fails."""

from __future__ import annotations

from dsh.errors import ToolError

__all__ = ["ShellError"]


class ShellError(ToolError):
    """A command could not be started, or a task cannot be touched.

    Codes: ``NO_WORKDIR`` ``NO_SHELL`` ``COMMAND_TOO_LONG`` ``NOT_STARTED`` ``NO_OWNER``
    ``UNKNOWN_TASK`` ``FOREIGN_TASK`` ``CLOSED``.
    """

    default_code = "SHELL"
