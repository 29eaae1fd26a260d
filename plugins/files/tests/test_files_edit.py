"""What ``edit`` replaces, what it leaves alone, and what it says when the text is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from dsh_files.edits import replace
from dsh_files.errors import FsError
from dsh_files.local import version_of
from dsh_files.paths import resolve
from dsh_files.tools import seen_by
from hypothesis import given
from hypothesis import strategies as st

from dsh import ToolArgsError


async def edited(desk: Any, content: bytes, old: str, new: str, **more: Any) -> bytes:
    path = trio.Path(desk.cwd / "file")
    await path.write_bytes(content)
    await desk.read("file")
    await desk.edit("file", old, new, **more)
    return await path.read_bytes()


async def refused(code: str, words: str, call: Any) -> None:
    with pytest.raises(FsError, match=words) as caught:
        await call
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"a OLD b\n", "OLD", r"$& $1 \1 \g<0> \n", rb"a $& $1 \1 \g<0> \n b" + b"\n"),
        (b"all:\n\techo hi\n", "\techo hi", "\techo ho", b"all:\n\techo ho\n"),
        ("🙂 x\n".encode(), "🙂", "é🙂", "é🙂 x\n".encode()),
        (b"x", "x", "", b""),
        (b"\xef\xbb\xbffirst\r\nsecond\r\nthird\r\n", "first\nsecond", "1\n2", b"\xef\xbb\xbf1\r\n2\r\nthird\r\n"),
        (b"\xef\xbb\xbffirst\n", "\ufefffirst", "\ufeff1st", b"\xef\xbb\xbf1st\n"),
        (b"first\r\nsecond\r\n", "first\r\nsecond", "a\nb\r\nc", b"a\r\nb\r\nc\r\n"),
        (b"first\nsecond\n", "first\r\nsecond", "a\r\nb", b"a\nb\n"),
        (b"one\ntwo\nthree\r\nfour\n", "one", "ONE", b"ONE\ntwo\nthree\r\nfour\n"),
        (b"one\r\ntwo\r\nthree\nfour\r\n", "two\nthree\nfour", "two\nthree\nFOUR", b"one\r\ntwo\r\nthree\nFOUR\r\n"),
        (b"one\r\ntwo\r\n", "one\n", "", b"two\r\n"),
        (b"one\r\n\r\ntwo\r\n", "one\n\n", "one\n", b"one\r\ntwo\r\n"),
        (b"one\r\ntwo\r\n", "one\n", "one\n\n", b"one\r\n\r\ntwo\r\n"),
    ],
)
async def test_only_what_is_meant_changes(desk: Any, content: bytes, old: str, new: str, after: bytes) -> None:
    assert await edited(desk, content, old, new) == after


async def test_the_result_names_the_file_and_how_often(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\ny\nx = 1\n")
    await desk.read("a")

    assert await desk.edit("a", "y", "z") == f"Edited {tmp_path}/a"
    assert await desk.edit("a", "x", "w", replace_all=True) == f"Edited {tmp_path}/a: replaced 2 places"
    assert await desk.edit("a", "z", "y", replace_all=True) == f"Edited {tmp_path}/a: replaced 1 place"
    assert (tmp_path / "a").read_text() == "w = 1\ny\nw = 1\n"


async def test_a_text_in_several_places_is_refused_with_their_lines(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\ny\nx = 1\n")
    (tmp_path / "b").write_text("aaa\n")
    await desk.read("a")
    await desk.read("b")

    await refused("FS_AMBIGUOUS_EDIT", r"2 times \(lines 1, 3\); add text", desk.edit("a", "x = 1", "x = 2"))
    await refused("FS_AMBIGUOUS_EDIT", r"2 times \(lines 1, 1\)", desk.edit("b", "aa", "b"))
    await desk.edit("b", "aa", "b", replace_all=True)
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("x = 1\ny\nx = 1\n", "ba\n")


@pytest.mark.parametrize(
    ("content", "old", "words"),
    [
        ("all:\n\tfoo()\n", "1: all:\n2: \tfoo()", "leave out the line numbers"),
        ("all:\n\tfoo()\n", "   2\tfoo()", "leave out the line numbers"),
        ("it’s here  \nnext\n", "it's here", 'line 1 is the same but for quotes, .*the file has "it’s here'),
        ("it is here  \nnext\n", "it is here\nnext", "lines 1-2 are the same but for blanks and tabs"),
        ("all:\n\techo hi\n", "all:\n    echo hi", r'there the file has "all:\\n\\techo hi"'),
        ("one\n", "one\n\n", "but for empty lines at its start or end"),
        ("Hello World\n", "hello world", "but for upper and lower case"),
        ("a  “b” C\n", 'a "B" c', "but for blanks, quotes or case"),
        ("x = compute(1)\n", "x = compute(2)", r'the nearest text is line 1, "x = compute\(1\)"'),
        ("something\n", "entirely different", "nothing like it is there"),
        ("", "x", "nothing like it is there"),
        ("x\n" * 6000, "y", "read the place again and copy it exactly"),
        ("x\n", "", "old_string is empty"),
        ("x\n", "\n\n", "nothing like it"),
    ],
)
async def test_a_text_that_is_not_there_is_explained(
    desk: Any, tmp_path: Path, content: str, old: str, words: str
) -> None:
    (tmp_path / "a").write_text(content)
    await desk.read("a")

    await refused("FS_EDIT_NOT_FOUND", words, desk.edit("a", old, "z"))
    assert (tmp_path / "a").read_text() == content


async def test_the_same_text_twice_is_no_edit(desk: Any) -> None:
    with pytest.raises(ToolArgsError, match='"new_string" must differ'):
        await desk.edit("a", "x", "x")


async def test_a_file_must_be_read_and_unchanged_before_its_text_is_looked_at(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")

    await refused("FS_NOT_OBSERVED", "was not read; read it before", desk.edit("a", "nowhere", "y"))
    await desk.read("a")
    path.write_text("changed")
    await refused("FS_STALE_VERSION", "was changed since", desk.edit("a", "nowhere", "y"))
    path.unlink()
    await refused("FS_STALE_VERSION", "does not exist any more", desk.edit("a", "nowhere", "y"))
    assert "Created" in await desk.write("a", "new")


async def test_a_file_found_missing_cannot_be_edited(desk: Any) -> None:
    await refused("FS_NOT_FOUND", "does not exist", desk.read("a"))
    await refused("FS_STALE_VERSION", "does not exist any more; write makes it anew", desk.edit("a", "x", "y"))


@pytest.mark.parametrize("data", [b"color=\xba\xec\r\nname=x\r\n", b"name=x" + b"\n" * 9000 + b"\0"])
async def test_what_is_no_text_is_not_touched(desk: Any, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    observe(desk, tmp_path / "a")

    await refused("FS_NOT_TEXT", "convert it", desk.edit("a", "name=x", "name=y"))
    assert (tmp_path / "a").read_bytes() == data


def observe(desk: Any, path: Path) -> None:
    """As if the agent had read a part of the file that was text."""
    seen_by(desk.agent)[resolve(str(path), "/").key] = version_of(path.stat())


async def test_a_file_too_big_for_memory_is_refused(desk: Any, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    observe(desk, tmp_path / "a")

    await refused("FS_IO_ERROR", "more than the 67108864 that edit takes", desk.edit("a", "x", "y"))


async def test_edits_at_once_with_one_version_let_one_through(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0 1 2 3 4\n")
    await desk.read("a")
    outcomes: list[str] = []

    async def edit(number: int) -> None:
        try:
            await desk.edit("a", str(number), "x")
        except FsError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("done")

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(edit, number)

    assert sorted(outcomes) == [*["FS_STALE_VERSION"] * 4, "done"]
    assert (tmp_path / "a").read_text().count("x") == 1


async def test_a_diff_is_kept_for_people(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"".join(b"%d\r\n" % n for n in range(1, 21)))
    await desk.read("a")
    result = await desk.call("edit", file_path="a", old_string="\n10\n", new_string="\nten\nX\n")

    assert result.meta == {
        "diffs": [
            {"path": f"{tmp_path}/a", "oldText": "7\n8\n9\n10\n11\n12\n13", "newText": "7\n8\n9\nten\nX\n11\n12\n13"}
        ]
    }


async def test_a_change_all_over_a_big_file_has_no_diff(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 5000)
    await desk.read("a")

    assert (await desk.call("edit", file_path="a", old_string="x", new_string="y", replace_all=True)).meta is None


texts = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=30).map("".join)


@given(texts, st.integers(0, 40), st.integers(1, 4), st.lists(st.sampled_from(["a", "c", "\n"]), max_size=4))
def test_an_edit_is_a_replacement_in_the_text_with_plain_line_ends(
    text: str, start: int, size: int, pieces: list[str]
) -> None:
    plain = text.replace("\r\n", "\n")
    old, new = plain[start : start + size] or "absent", "".join(pieces)

    if old not in plain:
        with pytest.raises(FsError):
            replace(text, old, new, every=True, shown="it")
        return
    result = replace(text, old, new, every=True, shown="it")
    assert result.after == plain.replace(old, new)
    assert result.text.replace("\r\n", "\n") == result.after
    assert result.count == plain.count(old)


@given(texts, texts, texts, texts)
def test_what_stands_around_an_edit_keeps_its_bytes(head: str, first: str, last: str, tail: str) -> None:
    old = f"{first}X{last}"

    result = replace(head + old + tail, old, f"<{old}>", every=False, shown="it")

    assert result.text.startswith(f"{head}<")
    assert result.text.endswith(f">{tail}")
