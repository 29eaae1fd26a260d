"""The table ``[files]`` of the configuration."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

__all__ = ["FilesConfig"]


def _positive(instance: object, attribute: Attribute[int], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{attribute.name} must be a whole number of at least 1, not {value!r}")


@frozen
class FilesConfig:
    """How much one call of ``read`` shows.

    Attributes:
        read_limit: lines, at most and by default.
        read_max_line_length: characters of one line; the rest of it is left out.
        read_max_bytes: bytes of text, in UTF-8.
        read_stream_min_size: files of at least so many bytes are read in pieces, and only as far as needed.
    """

    read_limit: int = field(default=2000, validator=_positive)
    read_max_line_length: int = field(default=2000, validator=_positive)
    read_max_bytes: int = field(default=51_200, validator=_positive)
    read_stream_min_size: int = field(default=10_485_760, validator=_positive)
