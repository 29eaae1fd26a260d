"""Events as rows, and rows as the lines that they were.

A row has the parts of its event's line, so that SQL can ask for them.  A line that is not the
plain composition of these parts (another program wrote its keys in another order, or more of them)
is kept beside the row, to the byte.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import orjson

from dsh.jsonvalue import dumps, loads

__all__ = ["HeaderRow", "Row", "Stored", "compose", "compose_header", "split"]

Row: TypeAlias = "tuple[int, str, int, bytes, bytes | None, bytes | None]"
"""seq, type, time, data, source_event_seqs and surface_op."""
Stored: TypeAlias = "tuple[int, bytes, int, bytes, bytes | None, bytes | None]"
"""A row as the database has it: all texts are bytes."""
HeaderRow: TypeAlias = "tuple[int, bytes, int, bytes | None, bytes | None, int | None]"
_HEADER = ("version", "id", "createdAt", "cwd", "parentSession", "seedLength")
_PLAIN = frozenset(("type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp"))


def split(line: bytes) -> tuple[Row, bool]:
    """The row of an event's line, and whether `compose` makes the very line of it."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:  # long integers, lone surrogates
        record = loads(line)
    kind, seq, time = record["type"], record["seq"], record["time"]
    sources = dumps(record["sourceEventSeqs"]) if "sourceEventSeqs" in record else None
    operation = dumps(record["surfaceOp"]) if "surfaceOp" in record else None
    head, tail = b'%b%d,"time":%d,"data":' % (_start(kind), seq, time), _tail(sources, operation)
    if record.keys() <= _PLAIN and line.startswith(head) and line.endswith(tail):
        data = line[len(head) : len(line) - len(tail)]
        # What stands between is the data alone, and not a repeated key, if it is JSON.
        if _is_json(data):
            return (seq, kind, time, data, sources, operation), True
    return (seq, kind, time, dumps(loads(line)["data"]), sources, operation), False


def compose(rows: Iterable[Stored], verbatim: Mapping[int, bytes]) -> list[bytes]:
    """The lines of rows; `verbatim` has those that were kept, by seq."""
    lines = []
    for seq, kind, time, data, sources, operation in rows:
        line = verbatim.get(seq) if verbatim else None
        if line is None:
            line = b'%b%d,"time":%d,"data":%b%b' % (_stored(kind), seq, time, data, _tail(sources, operation))
            if b"\n" in line:  # of another program; harmless in JSON, but the end of a line
                line = line.replace(b"\n", b" ")
        lines.append(line)
    return lines


def compose_header(row: HeaderRow) -> bytes:
    """The line of a session's header."""
    values = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row]
    record = {key: value for key, value in zip(_HEADER, values, strict=True) if value is not None}
    return dumps({"type": "session", **record})


@functools.lru_cache(256)
def _start(kind: str) -> bytes:
    return b'{"type":%b,"seq":' % dumps(kind)


@functools.lru_cache(256)
def _stored(kind: bytes) -> bytes:
    return _start(kind.decode("utf-8", "replace"))


def _tail(sources: bytes | None, operation: bytes | None) -> bytes:
    if operation is None:
        return b"}" if sources is None else b',"sourceEventSeqs":%b}' % sources
    if sources is None:
        return b',"surfaceOp":%b}' % operation
    return b',"sourceEventSeqs":%b,"surfaceOp":%b}' % (sources, operation)


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            loads(text)
        except ValueError:
            return False
    return True
