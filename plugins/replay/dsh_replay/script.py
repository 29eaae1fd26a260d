"""Scripts: what a model says, from the log of a session or from an override."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from attrs import evolve, field, frozen

from dsh import ConfigError, CorruptSession, LlmError, TokenUsage
from dsh.jsonvalue import Json, loads
from dsh.llm.chunks import Chunk, Finish
from dsh.llm.scripted import Reply, hang, reply
from dsh.messages import Block, text_of
from dsh.session import SessionHeader, parse_log
from dsh.session.codec import default_codec
from dsh.session.events import AssistantChunk, Event, OtherData

from .config import ReplayConfig

__all__ = ["Recording", "Script", "derive_script", "load_scripts", "played", "read_override", "read_recording"]

SUMMARY = "compact/summary"
"""The event of a summary; it holds the whole of the model's answer."""
CHILD = "subagent/start"
"""The event by which the log of a session tells of a subagent."""
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
        asides: answers to what was asked between steps, which is for summaries.
        session: the id of the recorded session.
        children: the ids of the sessions of its subagents, by the calls that started them.
    """

    name: str
    replies: tuple[Reply, ...]
    asides: tuple[Reply, ...] = ()
    session: str = field(default="", eq=False)
    children: Mapping[str, str] = field(factory=dict, eq=False)


@frozen
class Recording:
    """The log of a session, as far as it matters: its header, chunks and summaries by seq, subagents by their calls."""

    name: str
    header: SessionHeader
    chunks: tuple[tuple[int, AssistantChunk], ...]
    summaries: tuple[tuple[int, Reply], ...] = ()
    children: Mapping[str, str] = field(factory=dict)


def load_scripts(config: ReplayConfig) -> list[Script]:
    """The scripts in the order in which sessions take them.

    Raises:
        ConfigError: a file cannot be read or played; the message says where and why.
    """
    assert config.file is not None
    primary = read_recording(config.file)
    first = derive_script(primary) if config.override is None else read_override(config.override)
    first = evolve(first, session=primary.header.id, children=primary.children)
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
        chunks = tuple((event.seq, _chunk(event)) for event in log.events if event.type == AssistantChunk.type)
        summaries = tuple(
            (event.seq, _summary(event.data.data))
            for event in log.events
            if isinstance(event.data, OtherData) and event.type == SUMMARY
        )
        children = dict(pair for event in log.events for pair in _child(event.data))
    except CorruptSession as error:
        text = str(error)
        raise ConfigError(f"{'' if name in text else f'{name}: '}{text}") from None
    return Recording(name, log.header, chunks, summaries, children)


def _child(data: Any) -> Iterator[tuple[str, str]]:
    """The call and the session of a subagent, if that is what an event tells of."""
    told = data.data if isinstance(data, OtherData) and data.type == CHILD else None
    if isinstance(told, Mapping):
        call, session = told.get("callId"), told.get("sessionId")
        if isinstance(call, str) and isinstance(session, str):
            yield call, session


def _summary(data: Any) -> Reply:
    """The answer that a summary was, as its event tells it."""
    codec = default_codec()
    values = data if isinstance(data, dict) else {}
    blocks: list[Block] = [codec.from_json(block, cast(Any, Block)) for block in values.get("summary", ())]
    used = values.get("usage")
    return reply(text_of(blocks), usage=TokenUsage() if used is None else codec.from_json(used, TokenUsage))


def _chunk(event: Event) -> AssistantChunk:
    if isinstance(event.data, OtherData):  # it could not be read
        default_codec().decode(event.raw or b"")
    assert isinstance(event.data, AssistantChunk)
    return event.data


def derive_script(recording: Recording, skip: int = 0) -> Script:
    """The answers in a recording: for each step what was streamed in it, up to each ``finish``.

    Args:
        skip: how many events of the log were inherited and are not played.

    Raises:
        ConfigError: an answer was cut off, so that the log does not say how it went on.
    """
    steps = _answers(data for seq, data in recording.chunks if seq >= skip)
    for (turn, step), answers in steps.items():
        if not isinstance(answers[-1][-1], Finish):
            raise ConfigError(
                f"{recording.name}: the answer in step {step} of turn {turn} ends without a finish; "
                "give an override that says what to play (DSH_SNAPSHOT_OVERRIDE, or override in [replay])"
            )
    replies = tuple(Reply(chunks) for answers in steps.values() for chunks in answers)
    asides = tuple(summary for seq, summary in recording.summaries if seq >= skip)
    return Script(recording.name, replies, asides, recording.header.id, recording.children)


def _answers(chunks: Iterable[AssistantChunk]) -> dict[tuple[int, int], list[list[Chunk]]]:
    """What was streamed, by turn and step: each answer by itself, up to its ``finish``."""
    steps: dict[tuple[int, int], list[list[Chunk]]] = {}
    for data in chunks:
        answers = steps.setdefault((data.turn, data.step), [])
        if not answers or isinstance(answers[-1][-1], Finish):
            answers.append([])
        answers[-1].append(data.chunk)
    return steps


def played(script: Script, events: Iterable[Event]) -> tuple[int, int]:
    """How many answers of `script`, and how many of its asides, a log has heard already; none if it heard others.

    Args:
        events: the log, without what it inherited.
    """
    own = list(events)
    heard = _answers(event.data for event in own if isinstance(event.data, AssistantChunk))
    number = 0
    for answer in (answer for answers in heard.values() for answer in answers):
        while number < len(script.replies) and not script.replies[number].chunks:
            number += 1  # it failed before it said anything
        # One that was cut off, by a person or a crash, was heard as well.
        if number == len(script.replies) or list(script.replies[number].chunks)[: len(answer)] != answer:
            return 0, 0
        number += 1
    return number, sum(event.type == SUMMARY for event in own) if script.asides else 0


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
