"""What ``write`` leaves on the disk, and when it refuses."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
from dsh_files.errors import FsError
from dsh_files.local import probe, publish, version_of
from dsh_files.paths import resolve


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def refused(code: str, words: str, call: Any) -> None:
    with pytest.raises(FsError, match=words) as caught:
        await call
    assert caught.value.code == code


async def test_a_new_file_is_made_with_its_directories(desk: Any, tmp_path: Path) -> None:
    result = await desk.call("write", file_path="a/b/c.txt", content="grüß\n")

    assert (tmp_path / "a/b/c.txt").read_bytes() == "grüß\n".encode()
    assert result.content[0].text == (
        f"<path>{tmp_path}/a/b/c.txt</path>\n<type>file</type>\n<content>\nCreated the file\n</content>"
    )
    assert result.meta is None
    umask = os.umask(0)
    os.umask(umask)
    assert mode(tmp_path / "a/b/c.txt") == 0o666 & ~umask
    assert desk.leftovers() == []


async def test_a_file_that_was_not_read_is_not_overwritten(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("theirs")

    await refused("FS_NOT_OBSERVED", "exists and was not read; read it before", desk.write("a", "mine"))
    assert (tmp_path / "a").read_text() == "theirs"
    await desk.read("a")
    assert "Updated the file" in await desk.write("a", "mine")
    assert (tmp_path / "a").read_text() == "mine"


async def test_reading_a_part_is_enough(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    await desk.read("a", offset=2, limit=1)

    assert "Updated" in await desk.write("a", "x")


async def test_what_was_written_need_not_be_read_again(desk: Any, tmp_path: Path) -> None:
    await desk.write("a", "one\n")
    await desk.write("a", "two\n")
    await desk.edit("a", "two", "three")
    await desk.edit("a", "three", "four")

    assert (tmp_path / "a").read_text() == "four\n"


async def test_a_file_that_changed_since_is_not_overwritten(desk: Any, tmp_path: Path) -> None:
    await desk.write("a", "one")
    (tmp_path / "a").write_text("other")

    await refused("FS_STALE_VERSION", "was changed since you read it; read it again", desk.write("a", "two"))
    await desk.read("a")
    await desk.write("a", "two")


async def test_a_change_that_only_nanoseconds_show_is_seen(desk: Any, tmp_path: Path) -> None:
    await desk.write("a", "one")
    found = (tmp_path / "a").stat()
    (tmp_path / "a").write_text("two")
    os.utime(tmp_path / "a", ns=(found.st_atime_ns, found.st_mtime_ns + 1))

    await refused("FS_STALE_VERSION", "was changed", desk.write("a", "mine"))


async def test_a_file_replaced_by_one_of_the_same_size_and_time_is_seen(desk: Any, tmp_path: Path) -> None:
    await desk.write("a", "one")
    found = (tmp_path / "a").stat()
    (tmp_path / "b").write_text("two")
    os.utime(tmp_path / "b", ns=(found.st_atime_ns, found.st_mtime_ns))
    (tmp_path / "b").rename(tmp_path / "a")

    await refused("FS_STALE_VERSION", "was changed", desk.write("a", "mine"))


async def test_a_deleted_file_can_be_made_anew(desk: Any, tmp_path: Path) -> None:
    await desk.write("a", "one")
    (tmp_path / "a").unlink()

    await refused("FS_STALE_VERSION", "does not exist any more; write it again", desk.write("a", "two"))
    assert "Created" in await desk.write("a", "two")

    (tmp_path / "a").unlink()
    await refused("FS_NOT_FOUND", "does not exist", desk.read("a"))
    assert "Created" in await desk.write("a", "three")


async def test_absence_that_was_seen_allows_creating_alone(desk: Any, tmp_path: Path) -> None:
    await refused("FS_NOT_FOUND", "does not exist", desk.read("a"))
    (tmp_path / "a").write_text("theirs")

    await refused("FS_NOT_OBSERVED", "exists and was not read", desk.write("a", "mine"))
    await refused("FS_NOT_OBSERVED", "was made since you looked", desk.edit("a", "theirs", "mine"))
    assert (tmp_path / "a").read_text() == "theirs"


async def test_what_one_agent_read_allows_no_other(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    await desk.read("a")

    await refused("FS_NOT_OBSERVED", "was not read", desk.other().write("a", "y"))
    await refused("FS_NOT_OBSERVED", "was not read", desk.other().edit("a", "x", "y"))


async def test_without_an_agent_files_can_only_be_made(desk: Any, tmp_path: Path) -> None:
    desk.agent = None
    path = tmp_path / "a"

    await desk.write(path, "one")
    await desk.read(path)
    await refused("FS_NOT_OBSERVED", "was not read", desk.write(path, "two"))
    await refused("FS_NOT_OBSERVED", "was not read", desk.edit(path, "one", "two"))


async def test_mode_and_attributes_of_a_replaced_file_are_kept(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("one")
    path.chmod(0o751)
    marked = True
    try:
        os.setxattr(path, "user.note", b"mine")
    except (OSError, AttributeError):
        marked = False
    await desk.read("run.sh")
    await desk.write("run.sh", "two")
    await desk.edit("run.sh", "two", "three")

    assert (path.read_text(), mode(path)) == ("three", 0o751)
    assert not marked or os.getxattr(path, "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_owner_of_a_replaced_file_is_kept(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    os.chown(path, 1234, 1235)
    path.chmod(0o4755)
    await desk.read("a")
    await desk.write("a", "two")

    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (1234, 1235, 0o4755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_read_only_file_stays(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "a").chmod(0o444)
    await desk.read("a")

    await refused("FS_PERMISSION_DENIED", "read-only", desk.write("a", "two"))
    assert desk.leftovers() == []


async def test_a_link_is_kept_and_its_target_written(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("one")
    (tmp_path / "link").symlink_to("real/a")
    await desk.read("link")
    await desk.write("link", "two")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/a").read_text() == "two"


async def test_a_file_is_one_by_whichever_path(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    await desk.write("link/new", "one")
    await desk.write(tmp_path / "real/../real/new", "two")

    assert (tmp_path / "real/new").read_text() == "two"


async def test_a_dangling_link_gets_its_target(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later/new")
    await desk.write("link", "one")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "later/new").read_text() == "one"


async def test_places_where_no_file_can_be(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")

    await refused("FS_NOT_FOUND", "a part of it is a file", desk.write("file/a", "x"))
    await refused("FS_NOT_FOUND", "a part of it is a file", desk.write("file/a/b", "x"))
    await refused("FS_NOT_REGULAR_FILE", "is a directory", desk.write(".", "x"))
    await refused("FS_NOT_REGULAR_FILE", "is a named pipe", desk.write("pipe", "x"))
    await refused("FS_IO_ERROR", "too long", desk.write("x" * 300, "x"))
    assert desk.leftovers() == []


def test_a_file_that_appears_while_another_is_made_is_not_replaced(tmp_path: Path) -> None:
    target = resolve("a", str(tmp_path))

    def somebody_else() -> None:
        (tmp_path / "a").write_text("theirs")

    with pytest.raises(FsError) as caught:
        publish(target, b"mine", None, somebody_else)
    assert caught.value.code == "FS_NOT_OBSERVED"
    assert (tmp_path / "a").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_a_disk_without_hard_links_does_not_replace_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*paths: str, **folders: int) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", unsupported)
    target = resolve("a", str(tmp_path))

    version = publish(target, b"one", None, lambda: None)
    found = probe(target)
    assert found is not None
    assert version_of(found) == version
    with pytest.raises(FsError) as caught:
        publish(target, b"two", None, lambda: None)
    assert caught.value.code == "FS_NOT_OBSERVED"
    assert ((tmp_path / "a").read_text(), os.listdir(tmp_path)) == ("one", ["a"])


def test_being_stopped_before_the_file_appears_leaves_nothing(tmp_path: Path) -> None:
    def stop() -> None:
        assert len(os.listdir(tmp_path)) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(resolve("a", str(tmp_path)), b"x", None, stop)
    assert os.listdir(tmp_path) == []


async def test_a_cancelled_write_changes_nothing(desk: Any, tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.write("a", "x")

    assert scope.cancelled_caught
    assert os.listdir(tmp_path) == []
    assert "Created" in await desk.write("a", "x")


async def test_of_two_writers_at_once_one_is_stale(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("zero")
    desks = [desk.other(str(n)) for n in range(5)]
    for each in desks:
        await each.read("a")
    outcomes: list[str] = []

    async def write(each: Any, text: str) -> None:
        try:
            await each.write("a", text)
        except FsError as error:
            outcomes.append(error.code)
        else:
            outcomes.append(text)

    async with trio.open_nursery() as nursery:
        for number, each in enumerate(desks):
            nursery.start_soon(write, each, f"text {number}")

    winner = (tmp_path / "a").read_text()
    assert sorted(outcomes) == sorted([winner, *["FS_STALE_VERSION"] * 4])


async def test_of_two_makers_at_once_one_is_refused(desk: Any, tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def write(each: Any, text: str) -> None:
        try:
            await each.write("new", text)
        except FsError as error:
            outcomes.append(error.code)
        else:
            outcomes.append(text)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(write, desk.other(str(number)), f"text {number}")

    assert sorted(outcomes) == sorted([(tmp_path / "new").read_text(), *["FS_NOT_OBSERVED"] * 4])


async def test_content_is_written_as_given_and_changed_line_ends_are_told(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    await desk.read("a")

    assert "Updated the file; its line ends are now LF, they were CRLF" in await desk.write("a", "one\n2\n")
    assert (tmp_path / "a").read_bytes() == b"one\n2\n"


async def test_a_diff_is_kept_for_people(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{n}\n" for n in range(1, 31)))
    await desk.read("a")
    result = await desk.call(
        "write", file_path="a", content="".join(f"{n}\n" for n in range(1, 31) if n != 10) + "end\n"
    )

    assert result.meta["diffs"] == [
        {"path": f"{tmp_path}/a", "oldText": "7\n8\n9\n10\n11\n12\n13", "newText": "7\n8\n9\n11\n12\n13"},
        {"path": f"{tmp_path}/a", "oldText": "28\n29\n30\n", "newText": "28\n29\n30\nend\n"},
    ]


async def test_what_was_no_text_or_is_too_big_has_no_diff(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x\n" * 600_000)
    await desk.read("big")
    assert (await desk.call("write", file_path="big", content="y")).meta is None

    (tmp_path / "same").write_text("x\n")
    await desk.read("same")
    assert (await desk.call("write", file_path="same", content="x\n")).meta == {"diffs": []}
