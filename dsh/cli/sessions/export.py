"""``dsh sessions export``: a session as a document."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ...errors import ConfigError, SessionError
from ...jsonvalue import loads
from ...session.fork import lines_of
from ...session.store import StoredSession
from .. import complain
from ..start import Start, opened
from ..stored import Damage, found_session, told

if TYPE_CHECKING:
    from ...session.codec import Codec

__all__ = ["FORMATS", "run"]

Pieces: TypeAlias = Iterator[bytes]
Complain: TypeAlias = Callable[[str], None]
ENDINGS = {".json": "json", ".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}


async def run(args: argparse.Namespace, start: Start) -> int:
    """Write the session to stdout, or to a file; 1 if a line of it cannot be read, and is left out."""
    target = _target(args.output, start.cwd)
    kind = args.format or (ENDINGS.get(target.suffix.lower()) if target is not None else None) or "markdown"
    async with opened(start) as harness:
        stored = await found_session(harness, args.target)
        damage = Damage(complain)
        pieces = FORMATS[kind](stored, harness.codec, damage)
        if target is None:
            _print(pieces)
        else:
            _write(pieces, target, stored)
    if target is not None:
        start.warn(f"written to {target}")
    return damage.close()


def _target(output: str | None, cwd: Path) -> Path | None:
    if output is None or output == "-":
        return None
    if not output:
        raise ConfigError("--output needs the name of a file", code="USAGE")
    return cwd / Path(output).expanduser()


def _print(pieces: Iterable[bytes]) -> None:
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)


def _write(pieces: Iterable[bytes], target: Path, stored: StoredSession) -> None:
    if stored.path is not None and target.exists() and target.samefile(stored.path):
        raise ConfigError(f"--output {target} is the session's own file; choose another one", code="USAGE")
    try:
        with open(target, "wb", opener=_private) as stream:
            for piece in pieces:
                stream.write(piece)
    except OSError as error:
        raise SessionError(f"cannot write {target}: {error.strerror or error}") from error


def _private(path: str, flags: int) -> int:
    """A new file is for its owner alone, as the session's own is."""
    return os.open(path, flags, 0o600)


def _json(stored: StoredSession, codec: Codec, damage: Complain) -> Pieces:
    """``{"header": ..., "events": [...]}``, an event a line."""
    yield b'{"header":' + codec.encode_header(stored.header) + b',"events":['
    between = b"\n"
    for number, line in enumerate(lines_of(stored, codec), 2):
        try:
            loads(line)
        except ValueError as error:
            damage(f"{stored.path or f'session {stored.header.id}'}, line {number}: not JSON: {error}; it is left out")
            continue
        yield between + line
        between = b",\n"
    yield b"\n]}\n"


def _markdown(stored: StoredSession, codec: Codec, damage: Complain) -> Pieces:
    from .markdown import document

    return _document(document, stored, codec, damage)


def _html(stored: StoredSession, codec: Codec, damage: Complain) -> Pieces:
    from .html import page

    return _document(page, stored, codec, damage)


def _document(make: Callable[..., Iterator[str]], stored: StoredSession, codec: Codec, damage: Complain) -> Pieces:
    from .story import story, totals

    counted = totals(told(stored, codec, damage))
    pieces = make(stored.header, counted, story(told(stored, codec, lambda _: None), codec))
    return (piece.encode("utf-8", "replace") for piece in pieces)


FORMATS: dict[str, Callable[[StoredSession, Codec, Complain], Pieces]] = {
    "json": _json,
    "markdown": _markdown,
    "html": _html,
}
