"""From files to scripts: logs, overrides, settings, and what is wrong with them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dsh_replay.config import ReplayConfig, settle
from dsh_replay.script import derive_script, load_scripts, read_override, read_recording

from dsh import ConfigError, LlmError
from dsh.llm.chunks import BlockStart, Finish, TextDelta
from dsh.messages import FinishReason
from dsh.session import SessionHeader
from dsh.session.codec import default_codec
from dsh.session.events import AssistantChunk, Event
from dsh.structure import KeyPath

STOP = Finish(FinishReason("stop"))


def write_log(path: Path, *chunks: AssistantChunk, **header: Any) -> str:
    codec = default_codec()
    lines = [codec.encode_header(SessionHeader(**{"id": path.stem, "created_at": 0, **header}))]
    lines += [codec.encode(Event(seq, 0, chunk)) for seq, chunk in enumerate(chunks)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def said(turn: int, step: int, *words: str) -> list[AssistantChunk]:
    chunks = [TextDelta(0, word) for word in words]
    return [*(AssistantChunk(turn, step, chunk) for chunk in chunks), AssistantChunk(turn, step, STOP)]


def test_an_answer_is_what_was_streamed_in_a_step(tmp_path: Path) -> None:
    """K08."""
    name = write_log(tmp_path / "a.jsonl", *said(1, 1, "a", "b"), *said(1, 2, "c"), *said(2, 1))
    replies = derive_script(read_recording(name)).replies
    assert [reply.chunks for reply in replies] == [
        (TextDelta(0, "a"), TextDelta(0, "b"), STOP),
        (TextDelta(0, "c"), STOP),
        (STOP,),
    ]


def test_a_request_that_was_sent_again_has_two_answers(tmp_path: Path) -> None:
    failed = AssistantChunk(1, 1, Finish(FinishReason("error", "busy")))
    name = write_log(tmp_path / "a.jsonl", failed, *said(1, 1, "a"))
    assert [reply.chunks[-1] for reply in derive_script(read_recording(name)).replies] == [failed.chunk, STOP]


def test_an_answer_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    name = write_log(tmp_path / "a.jsonl", *said(1, 1, "a"), AssistantChunk(1, 2, TextDelta(0, "b")))
    with pytest.raises(ConfigError, match="step 2 of turn 1 ends without a finish; give an override"):
        derive_script(read_recording(name))
    override = tmp_path / "o.json"
    override.write_text("[]")
    assert load_scripts(ReplayConfig(name, str(override)))[0].replies == ()


def test_children_come_by_their_age_and_play_what_is_their_own(tmp_path: Path) -> None:
    """K08."""
    first = write_log(tmp_path / "first.jsonl", *said(1, 1, "first"), created_at=9)
    old = write_log(tmp_path / "old.jsonl", *said(1, 1, "old"), created_at=1)
    b = write_log(tmp_path / "b.jsonl", *said(1, 1, "b"), created_at=2)
    a = write_log(tmp_path / "a.jsonl", *said(1, 1, "parent's"), *said(2, 1, "a"), created_at=2, seed_length=2)
    scripts = load_scripts(ReplayConfig(first, children=(b, a, old)))
    assert [script.name for script in scripts] == [first, old, a, b]
    assert [reply.chunks[0] for reply in scripts[2].replies] == [TextDelta(0, "a")]


def test_an_override_says_all_three_things(tmp_path: Path) -> None:
    """K08."""
    path = tmp_path / "o.json"
    start = {"type": "block-start", "index": 0, "blockType": "text"}
    entries = [
        {"kind": "chunks", "chunks": [start]},
        {"kind": "throw", "chunks": [start], "message": "no", "code": "AUTH", "status": 401},
        {"kind": "throw", "chunks": [], "message": "no"},
        {"kind": "hang"},
    ]
    path.write_text(json.dumps(entries))
    chunks, thrown, plain, hanging = read_override(str(path)).replies
    assert chunks.chunks == (BlockStart(0, "text"),)
    assert isinstance(thrown.error, LlmError)
    assert (thrown.chunks, str(thrown.error), thrown.error.code, thrown.error.status) == (
        (BlockStart(0, "text"),),
        "no",
        "AUTH",
        401,
    )
    assert isinstance(plain.error, LlmError)
    assert plain.error.code == "LLM"
    assert hanging.hangs
    assert len(hanging.chunks) == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("{}", "an override is an array"),
        ("[1]", "entry 1: an entry is an object whose kind is chunks, throw, hang"),
        ('[{"kind": "hang"}, {"kind": "wait"}]', "entry 2: an entry is an object"),
        ('[{"kind": "hang", "chunks": []}]', "entry 1: hang has no chunks"),
        ('[{"kind": "throw", "message": "m"}]', "entry 1: throw needs chunks"),
        ('[{"kind": "throw", "chunks": [], "message": 1}]', "entry 1: message and code are text"),
        ('[{"kind": "throw", "chunks": [], "message": "m", "status": "x"}]', "status is an integer"),
        ('[{"kind": "chunks", "chunks": 1}]', "entry 1: chunks is an array"),
        ('[{"kind": "chunks", "chunks": [{"type": "text-delta", "index": 0}]}]', "entry 1: chunk 1: "),
    ],
)
def test_a_wrong_override_is_told_with_its_place(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_override(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "has no complete header line"),
        (b'{"type": "session", "version": 9, "id": "a", "createdAt": 0}\n', "log format 9"),
        (
            b'{"type":"session","version":0,"id":"a","createdAt":0}\n'
            b'{"type":"assistant/chunk","seq":0,"time":0,"data":{"turn":1,"step":1,"chunk":{"type":"finish"}}}\n',
            "assistant/chunk",
        ),
    ],
)
def test_a_damaged_recording_is_told_with_its_name(data: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_recording(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_recording_is_told_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the recording .*none\.jsonl cannot be read: No such file"):
        read_recording(str(tmp_path / "none.jsonl"))


ENV = {
    "DSH_SNAPSHOT_FILE": "f",
    "DSH_SNAPSHOT_OVERRIDE": "o",
    "DSH_SNAPSHOT_CHILD_FILES": os.pathsep.join(["a", "", "b"]),
}
TABLE = ReplayConfig("table", "override", ("child",))


@pytest.mark.parametrize(
    ("table", "environ", "flag", "settled"),
    [
        (ReplayConfig(), {}, False, ReplayConfig()),
        (TABLE, {}, False, TABLE),
        (TABLE, ENV, False, ReplayConfig("f", "o", ("a", "b"))),
        (TABLE, {"DSH_SNAPSHOT_FILE": "f"}, False, ReplayConfig("f")),
        (TABLE, ENV, True, TABLE),
    ],
)
def test_the_environment_takes_the_place_of_the_table(
    table: ReplayConfig, environ: Mapping[str, str], flag: bool, settled: ReplayConfig
) -> None:
    origins: dict[KeyPath, str] = {("replay", "file"): "--config replay.file" if flag else "config.toml"}
    assert settle(table, origins, environ) == settled


@pytest.mark.parametrize("name", ["DSH_SNAPSHOT_OVERRIDE", "DSH_SNAPSHOT_CHILD_FILES"])
def test_what_belongs_to_a_recording_needs_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is set without DSH_SNAPSHOT_FILE"):
        settle(ReplayConfig(), {}, {name: "x"})
    with pytest.raises(ConfigError, match="no file"):
        settle(ReplayConfig(override="x"), {}, {})
