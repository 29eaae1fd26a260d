"""The index of the list: it spares reading, and is never believed against a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from dsh_jsonl.index import NAME, Entry
from dsh_jsonl.listing import scan

from dsh.session import SessionInfo, SessionQuery
from dsh.session.codec import Codec, default_codec

COUNT = 1000


def line(id: str, cwd: str | None = None) -> bytes:
    header = {"type": "session", "version": 0, "id": id, "createdAt": 5, **({"cwd": cwd} if cwd else {})}
    message = {"content": [{"type": "text", "text": f"words of {id}"}], "source": {"kind": "user"}}
    event = {"type": "user/message", "seq": 0, "time": 6, "data": message, "surfaceOp": "append"}
    return orjson.dumps(header) + b"\n" + orjson.dumps(event) + b"\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions" / "_no-cwd"
    folder.mkdir(parents=True)
    for n in range(COUNT):
        (folder / f"s{n}.jsonl").write_bytes(line(f"s{n}"))
        os.utime(folder / f"s{n}.jsonl", (n, n))
    (folder / "junk.jsonl").write_bytes(b"junk\n")
    return folder.parent


def listed(root: Path, **query: Any) -> list[SessionInfo]:
    return scan(root, SessionQuery(**query), default_codec())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many files were read for lists since it was asked last."""
    from dsh_jsonl import listing

    paths: list[str] = []
    read = listing._read

    def counted(path: str, codec: Codec) -> Entry:
        paths.append(path)
        return read(path, codec)

    monkeypatch.setattr(listing, "_read", counted)

    def count() -> int:
        found = len(paths)
        paths.clear()
        return found

    return count


def test_the_second_list_reads_little(root: Path, reads: Callable[[], int]) -> None:
    first = listed(root)
    assert reads() == COUNT + 1

    assert listed(root) == first
    assert reads() < COUNT / 2
    assert [info.id for info in first[:2]] == [f"s{COUNT - 1}", f"s{COUNT - 2}"]
    assert (root / NAME).stat().st_mode & 0o077 == 0


def test_a_short_list_needs_no_index(root: Path, reads: Callable[[], int]) -> None:
    assert len(listed(root, limit=5)) == 5
    assert reads() <= 6
    assert not (root / NAME).exists()


def test_a_file_that_changed_is_read_again(root: Path, reads: Callable[[], int]) -> None:
    listed(root)
    folder = root / "_no-cwd"
    (folder / "s3.jsonl").write_bytes(line("s3", "/elsewhere"))  # another size and time
    os.utime(folder / "s4.jsonl", (4, 5))  # another time alone
    (folder / "s5.jsonl").unlink()
    (folder / "new.jsonl").write_bytes(line("new"))

    infos = {info.id: info for info in listed(root)}

    assert infos["s3"].cwd == "/elsewhere"
    assert infos["s4"].updated_at == 5000
    assert "s5" not in infos
    assert "new" in infos
    assert len(infos) == COUNT


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"no json",
        b"[1, 2]",
        b'{"layout":"of another version","files":{"_no-cwd/s1.jsonl":[1,2,null]}}',
        b'{"layout":LAYOUT,"files":{"_no-cwd/s1.jsonl":[1]}}',
        b'{"layout":LAYOUT,"files":{"_no-cwd/s1.jsonl":[1000000000,SIZE,["x"]]}}',
        b'{"layout":LAYOUT,"files":7}',
    ],
)
def test_a_damaged_index_does_not_matter(root: Path, damage: bytes) -> None:
    before = listed(root)
    layout = orjson.dumps(orjson.loads((root / NAME).read_bytes())["layout"])
    size = str((root / "_no-cwd" / "s1.jsonl").stat().st_size).encode()
    (root / NAME).write_bytes(damage.replace(b"LAYOUT", layout).replace(b"SIZE", size))

    assert listed(root) == before
    assert listed(root) == before


def test_an_index_that_cannot_be_written_does_not_matter(root: Path) -> None:
    (root / NAME).mkdir()

    assert len(listed(root)) == COUNT
    assert [path.name for path in root.iterdir() if path.name.startswith(NAME)] == [NAME]


def test_deleted_files_are_forgotten(root: Path) -> None:
    listed(root)
    for n in range(0, COUNT, 2):
        (root / "_no-cwd" / f"s{n}.jsonl").unlink()
    for n in range(1, COUNT, 2):
        os.utime(root / "_no-cwd" / f"s{n}.jsonl", (n, n + 1))

    assert len(listed(root)) == COUNT / 2
    assert len(orjson.loads((root / NAME).read_bytes())["files"]) <= COUNT / 2 + 1
