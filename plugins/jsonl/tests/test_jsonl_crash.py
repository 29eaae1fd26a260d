"""What a killed program, a damaged file and a full disk leave behind."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dsh_jsonl.files import load as load_file
from dsh_jsonl.files import read

from dsh import CorruptSession, SessionError
from dsh.messages import USER, Text
from dsh.session import Session, interrupted_turn_closers
from dsh.session.events import Trigger, TurnEnd, TurnStart, UserMessage


@pytest.fixture
def text(store: Any, converse: Callable[..., None]) -> bytes:
    """A file with a whole turn and an open one."""
    session = store.create("a")
    converse(session)
    session.append(TurnStart(2, Trigger("message", USER)))
    session.append(UserMessage((Text("more"),), USER))
    store.leave(session)
    content: bytes = store.path("a").read_bytes()
    return content


def load(path: Path, session: Session) -> Any:
    file, stored = load_file(path, "a", session.codec)
    file.close()
    return stored


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where syncing costs nothing, if there is one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_file_cut_anywhere_loads_balanced(memory: Path, text: bytes) -> None:
    session = Session("a")
    path = memory / "cut.jsonl"
    header = text.index(b"\n") + 1
    lines = text.split(b"\n")[1:-1]
    for size in range(len(text) + 1):
        path.write_bytes(text[:size])
        if size < header:
            with pytest.raises(CorruptSession, match="no complete header line"):
                load(path, session)
            assert path.read_bytes() == text[:size]
            continue

        stored = load(path, session)

        whole = text[:size].count(b"\n") - 1
        assert list(stored.events.lines())[:whole] == lines[:whole]
        assert interrupted_turn_closers(stored.events) == []
        assert Session("a", stored.events).open_turn is None
        after = path.read_bytes()
        assert after.endswith(b"\n")
        assert list(read(path).events) == list(stored.events)
        load(path, session)
        assert path.read_bytes() == after


async def test_a_cut_session_goes_on(stores: Any, text: bytes, converse: Callable[..., None]) -> None:
    store = stores()
    path = store.path("a")
    path.write_bytes(text[:-20])

    session = await store.resume("a")
    converse(session, 3)
    await store.close()

    again = await stores().resume("a")
    assert list(again.events) == list(session.events)
    assert again.last_turn == 3
    assert [event.data.reason.kind for event in again.events if isinstance(event.data, TurnEnd)] == [
        "completed",
        "interrupted",
        "completed",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:4], b"broken", *lines[5:]],
        lambda lines: [*lines[:4], *lines[5:]],
        lambda lines: [*lines[:4], b"\0" * 4096 + lines[4], *lines[5:]],
        lambda lines: [*lines[:4], b"", *lines[4:]],
        lambda lines: [*lines[:4], lines[3], *lines[4:]],
    ],
    ids=["broken", "missing", "zeros", "blank", "twice"],
)
async def test_damage_before_the_end_of_a_turn_is_refused(
    stores: Any, text: bytes, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    store = stores()
    damaged = b"\n".join(damage(text.split(b"\n")))
    store.path("a").write_bytes(damaged)

    with pytest.raises(CorruptSession, match=r"a\.jsonl, line 5: "):
        await store.resume("a")

    assert store.path("a").read_bytes() == damaged


async def test_data_that_do_not_fit_are_named(stores: Any, text: bytes) -> None:
    store = stores()
    store.path("a").write_bytes(text.replace(b'"data":{"turn":1,"step":1}', b'"data":{"turn":1,"step":"x"}', 1))

    with pytest.raises(CorruptSession, match=r"a\.jsonl, line 4: step/start: .*data\.step"):
        await store.resume("a")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (b"1", "log format 1 is newer than this dsh, which knows 0"),
        (b"-1", "log format -1 is older than this dsh, which knows 0"),
        (b'"x"', "the header's version is 'x', which is no log format"),
        (b"false", "the header's version is False, which is no log format"),
    ],
)
async def test_another_format_is_refused_and_says_which_is_newer(
    stores: Any, text: bytes, version: bytes, said: str
) -> None:
    store = stores()
    other = text.replace(b'"version":0', b'"version":' + version, 1)
    store.path("a").write_bytes(other)

    with pytest.raises(CorruptSession, match=f"line 1: {said}"):
        await store.resume("a")
    assert store.path("a").read_bytes() == other


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file can grow beyond `size`: writes are cut short there and then refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


async def test_a_file_that_could_not_begin_is_not_there(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    with room(10), pytest.raises(SessionError, match="cannot write"):
        session.append(say("hi"))
    assert [path for path in store.root.rglob("*") if path.is_file()] == []

    converse(session)

    assert store.path("a").read_bytes().count(b"\n") == len(session.events) + 1
    await store.close()


async def test_no_permission_is_an_error(store: Any, converse: Callable[..., None]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    store.root.mkdir(mode=0o500)

    with pytest.raises(SessionError, match="cannot write"):
        converse(store.create("a"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: os.truncate(path, 200), "was changed by another program: it has 200 bytes instead of"),
        (lambda path: path.write_bytes(path.read_bytes() + b"{}\n"), "was changed by another program"),
        (lambda path: path.unlink(), "was deleted while the session was open"),
    ],
    ids=["cut", "longer", "gone"],
)
async def test_nothing_is_written_to_a_file_that_was_changed(
    store: Any, converse: Callable[..., None], change: Callable[[Path], object], said: str
) -> None:
    session = store.create("a")
    converse(session)
    path = store.path("a")
    change(path)
    before = path.read_bytes() if path.exists() else None

    for n in range(2):
        with pytest.raises(SessionError, match=said):
            session.append(say(f"lost {n}"))
    with pytest.raises(SessionError, match=said):
        await store.sessions.flush(session)
    with pytest.raises(SessionError, match=said) as caught:
        await store.close()

    assert any("the last 2 events of the session 'a'" in note for note in caught.value.__notes__)
    assert (path.read_bytes() if path.exists() else None) == before


def test_whole_lines_that_are_no_events_are_kept_beside_the_file(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.jsonl"
    codec = Session("a").codec
    line = text.count(b"\n") + 1
    for number, rest in enumerate((b"garbage line\n", b'garbage\n{"type":"no'), 1):
        path.write_bytes(text + rest)
        warnings: list[str] = []

        file, _ = load_file(path, "a", codec, warnings.append)
        file.close()

        kept = path.with_name("a.jsonl.cut" if number == 1 else f"a.jsonl.cut-{number}")
        assert kept.read_bytes() == rest
        assert path.read_bytes().startswith(text)
        assert b"garbage" not in path.read_bytes()
        assert len(warnings) == 1
        assert str(kept) in warnings[0]
        assert f"from line {line} on" in warnings[0]


def test_a_torn_line_is_cut_off_without_a_word(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(text + b'{"type":"no')
    warnings: list[str] = []

    file, _ = load_file(path, "a", Session("a").codec, warnings.append)
    file.close()

    assert warnings == []
    assert list(tmp_path.glob("a.jsonl*")) == [path]
