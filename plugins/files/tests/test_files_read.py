"""What ``read`` shows, what it refuses, and that it neither hangs nor fills the memory."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from dsh_files.config import FilesConfig
from dsh_files.errors import FsError
from dsh_files.window import NotText, take
from hypothesis import example, given
from hypothesis import strategies as st

from dsh import ToolArgsError

RECORDED = Path(__file__).parents[3] / "../shared/recorded"


def lines_of(text: str) -> list[str]:
    return text.split("\n")[3:-3]


def footer(text: str) -> str:
    return text.split("\n")[-2]


def code_of(caught: pytest.ExceptionInfo[FsError]) -> str:
    return caught.value.code


async def test_a_file_comes_with_its_path_numbered_lines_and_a_footer(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  three\tx\n")

    assert await desk.read("a.txt") == (
        f"<path>{tmp_path}/a.txt</path>\n<type>file</type>\n<content>\n"
        "1: one\n2: \n3:   three\tx\n\n(end of file, 3 lines)\n</content>"
    )


async def test_a_final_line_without_end_counts_and_the_end_makes_no_line(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo")
    (tmp_path / "b").write_text("one\n\n")

    assert lines_of(await desk.read("a")) == ["1: one", "2: two"]
    assert lines_of(await desk.read("b")) == ["1: one", "2: "]


async def test_an_empty_file_has_no_lines(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    assert (await desk.read("a")).endswith("<content>\n\n(end of file, 0 lines)\n</content>")


async def test_a_window_says_how_to_go_on(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"l{n}\n" for n in range(1, 11)))

    part = await desk.read("a", offset=5, limit=4)
    assert lines_of(part) == ["5: l5", "6: l6", "7: l7", "8: l8"]
    assert footer(part) == "(lines 5-8 of 10; continue with offset=9)"
    rest = await desk.read("a", offset=9)
    assert (lines_of(rest), footer(rest)) == (["9: l9", "10: l10"], "(end of file, 10 lines)")
    assert footer(await desk.read("a", offset=9, limit=2)) == "(end of file, 10 lines)"


async def test_an_offset_behind_the_end_names_the_number_of_lines(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").touch()

    with pytest.raises(FsError, match="has 1 line, none at offset 2") as caught:
        await desk.read("a", offset=2)
    assert code_of(caught) == "FS_NOT_FOUND"
    with pytest.raises(FsError, match="has 0 lines"):
        await desk.read("b", offset=2)
    # It was not found missing: creating it would be refused as before.
    with pytest.raises(FsError, match="exists and was not read"):
        await desk.write("a", "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "a"}, r'"file_path" is required and missing \(there is no "path"\)'),
        ({"file_path": "a", "offset": 0}, '"offset" must be at least 1'),
        ({"file_path": "a", "limit": 2001}, '"limit" must be at most 2000, got 2001'),
        ({"file_path": "a", "limit": "5"}, '"limit" must be an integer'),
    ],
)
async def test_arguments_out_of_bounds_are_refused(desk: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ToolArgsError, match=message):
        await desk.call("read", **arguments)


async def test_the_bytes_shown_are_limited(desk: Any, tmp_path: Path) -> None:
    desk.config = FilesConfig(read_max_bytes=10)
    (tmp_path / "a").write_text("äää\nbbb\nccc\n")

    first = await desk.read("a")
    assert lines_of(first) == ["1: äää", "2: bbb"]
    assert footer(first) == "(lines 1-2, as much as 10 bytes hold; continue with offset=3)"
    assert footer(await desk.read("a", offset=3)) == "(end of file, 3 lines)"


async def test_a_line_longer_than_all_bytes_is_cut_between_characters_and_passed(desk: Any, tmp_path: Path) -> None:
    desk.config = FilesConfig(read_max_bytes=10)
    (tmp_path / "a").write_text("🙂" * 20 + "\nnext\n")

    first = await desk.read("a")
    assert lines_of(first) == ["1: 🙂🙂... (cut: the line is too long)"]
    assert footer(first) == "(lines 1-1, as much as 10 bytes hold; continue with offset=2)"
    assert lines_of(await desk.read("a", offset=2)) == ["2: next"]


@pytest.mark.parametrize("stream", [1, 10**6])
async def test_a_long_line_is_cut_and_says_so(desk: Any, tmp_path: Path, stream: int) -> None:
    desk.config = FilesConfig(read_max_line_length=4, read_stream_min_size=stream)
    (tmp_path / "a").write_text("🙂🙂🙂🙂🙂\nabcd\r\nabcde\n" + "x" * 100 + "\n")

    assert lines_of(await desk.read("a")) == [
        "1: 🙂🙂🙂🙂... (cut after 4 characters)",
        "2: abcd",
        "3: abcd... (cut after 4 characters)",
        "4: xxxx... (cut after 4 characters)",
    ]


async def test_line_ends_and_the_byte_order_mark_are_not_shown(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0b\x0c\xe2\x80\xa8x\rstill two\r\n")

    assert lines_of(await desk.read("a")) == ["1: one", "2: two\x0b\x0c\u2028x\rstill two"]


async def test_binary_files_are_refused_with_their_size(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF\0\0" + b"x" * 94)
    (tmp_path / "b").write_bytes(b"ok\ncolor=\xba\xec\r\n")

    with pytest.raises(FsError, match=r"is a binary file of 100 bytes \(it holds NUL bytes\)") as caught:
        await desk.read("a")
    assert code_of(caught) == "FS_NOT_TEXT"
    for stream in (1, 10**6):
        desk.config = FilesConfig(read_stream_min_size=stream)
        with pytest.raises(FsError, match=r"is not UTF-8 text of 13 bytes \(line 2 holds the byte 0xba\)") as caught:
            await desk.read("b")
        assert code_of(caught) == "FS_NOT_TEXT"


async def test_what_is_no_regular_file_is_refused_at_once(desk: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server, trio.fail_after(20):
        server.bind(str(tmp_path / "sock"))
        for path, words in (
            ("pipe", "is a named pipe"),
            ("sock", "is a socket"),
            ("/dev/zero", "is a device"),
            (".", "is a directory; list it with ls"),
        ):
            with pytest.raises(FsError, match=words) as caught:
                await desk.read(path)
            assert code_of(caught) == "FS_NOT_REGULAR_FILE"


async def test_missing_files_and_empty_paths_are_not_found(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    for path, words in (
        ("nowhere/a", "nowhere/a does not exist"),
        ("file/inner", "a part of it is a file"),
        ("  ", "the path is empty"),
        ("a\0b", "NUL"),
    ):
        with pytest.raises(FsError, match=words) as caught:
            await desk.read(path)
        assert code_of(caught) == "FS_NOT_FOUND"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_an_unreadable_file_is_a_matter_of_permission(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0)

    with pytest.raises(FsError, match="no permission") as caught:
        await desk.read("a")
    assert code_of(caught) == "FS_PERMISSION_DENIED"


async def test_a_circle_of_links_is_an_error_of_the_disk(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(FsError) as caught:
        await desk.read("a")
    assert code_of(caught) == "FS_IO_ERROR"


async def test_paths_start_at_the_working_directory_or_at_home(
    desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a").write_text("x\n")
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert (await desk.read("~/a")).startswith(f"<path>{tmp_path}/home/a</path>")
    assert (await desk.read("./link/a")).startswith(f"<path>{tmp_path}/link/a</path>")
    assert (await desk.read("link/../home/a")).startswith(f"<path>{tmp_path}/home/a</path>")
    monkeypatch.chdir(tmp_path / "home")
    desk.agent = None
    assert lines_of(await desk.read("a")) == ["1: x"]
    (tmp_path / "home" / "~").mkdir()
    (tmp_path / "home" / "~" / "a").write_text("tilde\n")
    assert lines_of(await desk.read("./~/a")) == ["1: tilde"]


async def test_dots_behind_a_linked_directory_show_the_real_path(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "deep" / "inner").mkdir(parents=True)
    (tmp_path / "deep" / "a").write_text("x\n")
    (tmp_path / "link").symlink_to("deep/inner")

    assert (await desk.read("link/../a")).startswith(f"<path>{tmp_path}/deep/a</path>")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
async def test_files_that_do_not_know_their_size_are_read(desk: Any) -> None:
    assert lines_of(await desk.read("/proc/self/status", limit=1))[0].startswith("1: Name:")


async def test_one_giant_line_costs_no_memory(desk: Any, tmp_path: Path) -> None:
    size = 60_000_000
    with (tmp_path / "a").open("wb") as file:
        for _ in range(60):
            file.write(b"x" * (size // 60))
        file.write(b"\nend\n")
    tracemalloc.start()
    try:
        text = await desk.read("a")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [len(line) for line in lines_of(text)] == [2000 + len("1: ... (cut after 2000 characters)"), len("2: end")]
    assert peak < 4_000_000


async def test_a_big_file_is_read_beside_other_tasks_and_can_be_cancelled(desk: Any, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 38)
        file.write(b"start\n" * 2000)
    with trio.move_on_after(0.05) as scope, trio.fail_after(60):
        await desk.read("a", limit=5)

    assert scope.cancelled_caught


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded sessions are not here")
@pytest.mark.parametrize("name", ["fs-read", "fs-read-window"])
async def test_recorded_calls_show_the_lines_that_they_showed(desk: Any, tmp_path: Path, name: str) -> None:
    events = [json.loads(line) for line in (RECORDED / name / "session.jsonl").read_text().splitlines()]
    call = next(event["data"] for event in events if event.get("type") == "tool/call")
    result = next(event["data"] for event in events if event.get("type") == "tool/result")
    for file in (RECORDED / name / "workspace").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())

    text = await desk.read(**json.loads(call["arguments"]))

    recorded = result["content"][0]["text"].replace("/workspace", str(tmp_path))
    assert text.split("\n")[:-2] == recorded.split("\n")[:-2]


texts = st.text(st.sampled_from("ab\n\r🙂é \ufeff"), max_size=60)


@example("\ufeff\ufeff", 1, 1, [])
@given(texts, st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(1, 9), max_size=30))
def test_the_window_does_not_depend_on_how_the_file_comes_in_pieces(
    text: str, offset: int, limit: int, sizes: list[int]
) -> None:
    config = evolve(FilesConfig(), read_max_line_length=7, read_max_bytes=40)
    data, pieces = text.encode(), []
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    if start:
        pieces.append(data[:3])
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    pieces.append(data[start:])

    assert take([piece for piece in pieces if piece], offset, limit, config) == take([data], offset, limit, config)


@given(texts, st.integers(1, 5))
def test_windows_one_after_another_show_the_whole_file(text: str, limit: int) -> None:
    seen: list[str] = []
    while True:
        window = take([text.encode()], len(seen) + 1, limit, FilesConfig())
        seen.extend(window.lines)
        if window.ending == "end":
            break
        assert len(window.lines) == limit

    lines = text.removeprefix("\ufeff").split("\n")
    expected = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    assert seen == expected
    assert window.total == len(expected)


@given(st.binary(max_size=40))
def test_bytes_are_shown_as_they_are_or_refused(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(NotText):
            take([data], 1, 1000, FilesConfig())
    else:
        window = take([data], 1, 1000, FilesConfig())
        assert window.total == len(window.lines)
        assert "".join(window.lines) == "".join(
            line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")
        )
