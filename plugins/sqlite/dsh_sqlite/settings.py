"""The settings."""

from __future__ import annotations

from typing import Literal

from attrs import Attribute, field, frozen

__all__ = ["JournalMode", "SqliteConfig"]

JournalMode = Literal["wal", "delete", "truncate", "persist"]


def _a_file(instance: object, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and (not value or value.startswith(":")):
        raise ValueError(f"{value!r} is no file; to store nothing, run with --no-session")


@frozen
class SqliteConfig:
    """The table ``[sqlite]``.

    Attributes:
        path: the database; ``sessions.db`` in dsh's own folder if not given.
        journal_mode: how SQLite survives a crash. All but ``wal`` sync the disk at every event.
    """

    path: str | None = field(default=None, validator=_a_file)
    journal_mode: JournalMode = "wal"
