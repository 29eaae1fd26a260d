"""Scripts: what a model says, from the log of a session or from an override."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from dsh import ConfigError, CorruptSession, LlmError
from dsh.jsonvalue import Json, loads
from dsh.llm.chunks import Chunk, Finish
from dsh.llm.scripted import Reply, hang
from dsh.session import SessionHeader, parse_log
from dsh.session.codec import default_codec
from dsh.session.events import AssistantChunk

from .config import ReplayConfig

__all__ = ["Recording", "Script", "derive_script", "load_scripts", "read_override", "read_recording"]

KEYS = {
    "chunks": ({"chunks"}, set[str]()),
    "throw": ({"chunks", "message"}, {"code", "status"}),
    "hang": (set[str](), set[str]()),
}
"""What an entry of an override must and may say, by its kind."""


@frozen
class Script:
    """The answers that one session gets, in order.

    Attributes:
        name: of the file they are from.
    """

    name: str
    replies: tuple[Reply, ...]


@frozen
class Recording:
    """The log of a session, as far as it matters: its header, and the chunks in it by seq."""

    name: str
    header: SessionHeader
    chunks: tuple[tuple[int, AssistantChunk], ...]


def load_scripts(config: ReplayConfig) -> list[Script]:
    """The scripts in the order in which sessions take them.

    Raises:
        ConfigError: a file cannot be read or played; the message says where and why.
    """
    assert config.file is not None
    primary = read_recording(config.file)
    first = derive_script(primary) if config.override is None else read_override(config.override)
    children = sorted(
        (read_recording(name) for name in config.children), key=lambda it: (it.header.created_at, it.header.id)
    )
    return [first, *(derive_script(child, child.header.seed_length or 0) for child in children)]


def read_recording(name: str) -> Recording:
    """Read the log of a session.

    Raises:
        ConfigError: there is no such file, or it is no log.
    """
    try:
        log = parse_log(_read(name), default_codec(), name)
        chunks = tuple((event.seq, event.data) for event in log.events if isinstance(event.data, AssistantChunk))
    except CorruptSession as error:
        text = str(error)
        raise ConfigError(f"{'' if name in text else f'{name}: '}{text}") from None
    return Recording(name, log.header, chunks)


def derive_script(recording: Recording, skip: int = 0) -> Script:
    """The answers in a recording: for each step what was streamed in it, up to each ``finish``.

    Args:
        skip: how many events of the log were inherited and are not played.

    Raises:
        ConfigError: an answer was cut off, so that the log does not say how it went on.
    """
    steps: dict[tuple[int, int], list[list[Chunk]]] = {}
    for seq, data in recording.chunks:
        if seq < skip:
            continue
        answers = steps.setdefault((data.turn, data.step), [])
        if not answers or isinstance(answers[-1][-1], Finish):
            answers.append([])
        answers[-1].append(data.chunk)
    for (turn, step), answers in steps.items():
        if not isinstance(answers[-1][-1], Finish):
            raise ConfigError(
                f"{recording.name}: the answer in step {step} of turn {turn} ends without a finish; "
                "give an override that says what to play (DSH_SNAPSHOT_OVERRIDE, or override in [replay])"
            )
    return Script(recording.name, tuple(Reply(chunks) for answers in steps.values() for chunks in answers))


def read_override(name: str) -> Script:
    """Read a script: a JSON array of entries, each ``chunks``, ``throw`` or ``hang``.

    Raises:
        ConfigError: there is no such file, or it is no script; the message names the entry.
    """
    try:
        entries = loads(_read(name))
    except ValueError as error:
        raise ConfigError(f"{name}: not JSON: {error}") from None
    if not isinstance(entries, list):
        raise ConfigError(f"{name}: an override is an array of entries")
    replies = []
    for number, entry in enumerate(entries):
        try:
            replies.append(_reply(entry))
        except ValueError as error:
            raise ConfigError(f"{name}, entry {number + 1}: {error}") from None
    return Script(name, tuple(replies))


def _reply(entry: Json) -> Reply:
    if not isinstance(entry, dict) or entry.get("kind") not in KEYS:
        raise ValueError(f"an entry is an object whose kind is {', '.join(KEYS)}")
    kind = entry["kind"]
    must, may = KEYS[kind]
    found = entry.keys() - {"kind"}
    if missing := sorted(must - found):
        raise ValueError(f"{kind} needs {', '.join(missing)}")
    if unknown := sorted(found - must - may):
        raise ValueError(f"{kind} has no {', '.join(unknown)}")
    if kind == "hang":
        return hang("partial")
    chunks = _chunks(entry["chunks"])
    if kind == "chunks":
        return Reply(chunks)
    message, code, status = entry["message"], entry.get("code"), entry.get("status")
    if not isinstance(message, str) or not isinstance(code, str | None) or type(status) not in (int, type(None)):
        raise ValueError("message and code are text, status is an integer")
    return Reply(chunks, error=LlmError(message, code=code, status=status))


def _chunks(values: Json) -> Sequence[Chunk]:
    if not isinstance(values, list):
        raise ValueError("chunks is an array")
    codec, chunks = default_codec(), []
    for number, value in enumerate(values):
        try:
            chunk: Any = codec.from_json(value, Chunk)
        except ValueError as error:
            raise ValueError(f"chunk {number + 1}: {error}") from None
        chunks.append(chunk)
    return chunks


def _read(name: str) -> bytes:
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"the recording {name} cannot be read: {error.strerror or error}") from None
