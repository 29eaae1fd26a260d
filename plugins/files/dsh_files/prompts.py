"""What the model reads about the file tools."""

from __future__ import annotations

from dsh.jsonvalue import Json

__all__ = ["EDIT", "EDIT_PARAMETERS", "READ", "SECTIONS", "WRITE", "WRITE_PARAMETERS", "read_parameters"]

READ = (
    "Show a text file. Every line comes with its number in front, as in `12: text`; the number is no part of the file. "
    "Long files are shown in parts: offset and limit choose one."
)
WRITE = "Make a file, with missing directories, or replace the whole content of one that you have read."
EDIT = (
    "Replace text in a file that you have read. old_string is taken literally and must be in the file exactly once, "
    "unless replace_all is true."
)

_PATH: Json = {"type": "string", "description": "Path of the file; relative ones start at the working directory."}


def read_parameters(limit: int) -> Json:
    """The schema of ``read`` where a call may show `limit` lines."""
    return {
        "type": "object",
        "properties": {
            "file_path": _PATH,
            "offset": {"type": "integer", "minimum": 1, "description": "First line to show; 1 if left out."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": limit,
                "description": f"How many lines to show; {limit} if left out.",
            },
        },
        "required": ["file_path"],
    }


WRITE_PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "file_path": _PATH,
        "content": {"type": "string", "description": "The whole content of the file."},
    },
    "required": ["file_path", "content"],
}

EDIT_PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "file_path": _PATH,
        "old_string": {
            "type": "string",
            "description": "The text to replace, copied exactly, with its blanks and without line numbers.",
        },
        "new_string": {"type": "string", "description": "What to put there; it must differ from old_string."},
        "replace_all": {"type": "boolean", "description": "Replace every occurrence; false if left out."},
    },
    "required": ["file_path", "old_string", "new_string"],
}

SECTIONS = {
    "read": (
        100,
        "Look at files with the read tool rather than with cat, head or tail in the shell. Its lines are numbered; "
        "leave the numbers out when you copy text. For a part of a long file give offset and limit.",
    ),
    "write": (
        101,
        "The write tool replaces the whole file. Read a file that exists before you overwrite it, and prefer edit "
        "for changing parts of it.",
    ),
    "edit": (
        102,
        "The edit tool replaces literal text. Read the file first, and give enough text around the change for "
        "old_string to be unique in the file; replace_all changes every occurrence instead.",
    ),
}
"""Order and text of each tool's section of the system prompt."""
