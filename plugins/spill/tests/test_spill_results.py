"""Long and dirty results: what the model reads, what is kept, what is left alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import dsh_spill
import pytest
import trio
from dsh_spill.clean import cleaned, is_binary
from dsh_spill.config import SpillConfig, ToolLimits
from dsh_spill.cut import cut, lines_in
from dsh_spill.keep import Keeper
from hypothesis import given
from hypothesis import strategies as st

from dsh import Tool, ToolCall, ToolResult
from dsh.config import Config
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.session.folder import session_folder
from dsh.testing import call, memory_agent, plugin_of, text

SMALL: dict[str, Any] = {"max_bytes": 1000, "max_lines": 50, "head_bytes": 100, "tail_bytes": 100}


def tool(output: Any, name: str = "do", effect: Any = None) -> object:
    made = Tool(name, "Does it.", {"type": "object"}, lambda arguments, call: output, effect=effect)
    return plugin_of(tools_register=lambda tools: tools.add(made))


async def told(
    output: Any, *, name: str = "do", effect: Any = None, **table: Any
) -> tuple[str, ev.ToolResult, bytes | None]:
    """What the model reads, the event, and what was kept in a file."""
    config = Config(tables={"spill": {**SMALL, **table}})
    plugins = {"spill": dsh_spill, "doing": tool(output, name, effect), "store": plugin_of(session_open=lambda: None)}
    async with memory_agent(call(name, {}), text("ok"), plugins=plugins, config=config) as agent:
        await agent.run("go")
        (event,) = (event for event in agent.session.events if isinstance(event.data, ev.ToolResult))
        folder = session_folder(agent.harness.home, agent.session.id) / "results"
        kept = list(folder.iterdir()) if folder.exists() else []
        assert len(kept) <= 1
        for path in kept:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert str(path) in text_of(event.data.content)
        return text_of(event.data.content), event.data, kept[0].read_bytes() if kept else None


async def test_a_long_result_is_kept_and_shown_in_part() -> None:
    whole = "".join(f"line {n}\n" for n in range(1, 501))
    shown, event, kept = await told(whole)
    assert kept == whole.encode()
    assert shown.startswith("line 1\nline 2\n")
    assert "line 500\n[the result has 4392 bytes in 500 lines; all of it is in " in shown
    assert len(shown) < 600
    head, _, rest = shown.partition("\n[")
    size, _, _ = rest.partition("]")
    assert size.endswith("lines are left out here")
    assert not event.is_error
    left = int(size.split()[0])
    tail = rest.partition("]\n")[2].partition("[the result")[0]
    assert left == len(whole) - len(head + "\n") - len(tail)


@pytest.mark.parametrize("whole", ["x" * 1000, "a\n" * 50, "", "ä" * 500])
async def test_what_fits_is_left_alone(whole: str) -> None:
    assert (await told(whole))[::2] == (whole, None)


@pytest.mark.parametrize("whole", ["x" * 1001, "a\n" * 51, "ä" * 501])
async def test_one_more_is_too_much(whole: str) -> None:
    shown, _, kept = await told(whole)
    assert kept == whole.encode()
    assert "left out here" in shown


async def test_one_endless_line() -> None:
    """Row C09: what has no line ends is cut all the same, between characters."""
    shown, _, kept = await told("é" * 1_900_000)
    assert kept is not None
    assert len(kept) == 3_800_000
    assert len(shown) < 700
    assert "\ufffd" not in shown


async def test_errors_and_other_blocks_count_and_stay() -> None:
    from dsh.messages import OtherBlock, Text

    image = OtherBlock({"type": "image", "data": "…"})
    result = ToolResult((Text("y" * 5000), image), is_error=True, meta={"a": 1})
    _, event, kept = await told(result)
    assert event.is_error
    assert event.content[1] == image
    assert event.meta == {"a": 1}
    assert kept == b"y" * 5000


async def test_what_reads_files_has_no_limit_and_is_not_cleaned() -> None:
    raw = "\x1b[31m\r\n" * 2000
    assert (await told(raw, name="read", effect="read"))[::2] == (raw, None)


async def test_a_tool_has_limits_of_its_own() -> None:
    shown, _, kept = await told("z" * 5000, tools={"do": {"max_bytes": 0}})
    assert (shown, kept) == ("z" * 5000, None)
    _, _, kept = await told("z" * 50, tools={"do": {"max_bytes": 10}})
    assert kept == b"z" * 50


async def test_huge_facts_for_interfaces_do_not_fill_the_log() -> None:
    _, event, _ = await told(ToolResult("ok", meta={"diff": "d" * 300_000}))
    assert event.meta == {"omittedBytes": 300_011}


async def test_secrets_are_not_kept() -> None:
    plugins = {
        "spill": dsh_spill,
        "doing": tool("key sk-very-secret-0123456789\n" * 100),
        "store": plugin_of(session_open=lambda: None),
        "secret": plugin_of(secrets_register=lambda secrets: secrets.add("sk-very-secret-0123456789", "KEY")),
    }
    config = Config(tables={"spill": SMALL})
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins, config=config) as agent:
        await agent.run("go")
        (path,) = (session_folder(agent.harness.home, agent.session.id) / "results").iterdir()
        assert "very-secret" not in path.read_text()


SECRET = "sk-vxyz-qwertz-0123456789"


@pytest.mark.parametrize("secret", [SECRET, "ghp_" + "a1B2" * 9])
@pytest.mark.parametrize("before", range(60, 105, 4))
async def test_a_secret_that_a_cut_would_tear_is_not_shown_in_parts(before: int, secret: str) -> None:
    """Neither part would be known: not of one that was registered, and not of one that only looks like a key."""
    whole = "-" * before + secret + " " + "y" * 5000 + "-" + secret + "-" * before
    plugins = {
        "spill": dsh_spill,
        "doing": tool(whole),
        "store": plugin_of(session_open=lambda: None),
        "secret": plugin_of(secrets_register=lambda secrets: secrets.add(SECRET, "KEY")),
    }
    config = Config(tables={"spill": SMALL})
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins, config=config) as agent:
        await agent.run("go")
        (event,) = (event for event in agent.session.events if isinstance(event.data, ev.ToolResult))
        (path,) = (session_folder(agent.harness.home, agent.session.id) / "results").iterdir()
        for text_shown in (text_of(event.data.content), path.read_text()):
            assert not any(secret[place : place + 6] in text_shown for place in range(len(secret) - 6))


async def test_where_nothing_is_stored_nothing_is_left() -> None:
    plugins = {"spill": dsh_spill, "doing": tool("x" * 5000)}
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins) as agent:
        await agent.run("go")
        home, session = agent.harness.home, agent.session.id
    assert not session_folder(home, session).exists()


async def test_two_results_of_one_name_do_not_meet() -> None:
    plugins = {"spill": dsh_spill, "doing": tool("x" * 5000), "store": plugin_of(session_open=lambda: None)}
    config = Config(tables={"spill": SMALL})
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins, config=config) as agent:
        folder = session_folder(agent.harness.home, agent.session.id) / "results"
        folder.mkdir(parents=True)
        (folder / "1-1-c1.txt").write_text("somebody else's")
        await agent.run("go")
        assert sorted(path.name for path in folder.iterdir()) == ["1-1-c1-2.txt", "1-1-c1.txt"]
        assert (folder / "1-1-c1.txt").read_text() == "somebody else's"


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs a folder that cannot be written"
)
async def test_a_result_that_cannot_be_saved_is_cut_and_says_so() -> None:
    plugins = {"spill": dsh_spill, "doing": tool("x" * 5000), "store": plugin_of(session_open=lambda: None)}
    config = Config(tables={"spill": SMALL})
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins, config=config) as agent:
        (agent.harness.home / "session-data").write_text("no folder")
        result = await agent.run("go")
        (event,) = (event for event in agent.session.events if isinstance(event.data, ev.ToolResult))
    assert result.text == "ok"
    shown = text_of(event.data.content)
    assert "the rest is lost, as it could not be saved: " in shown
    assert len(shown) < 600


LIMITED = """
import resource, sys, pathlib
sys.dont_write_bytecode = True  # the limit would hold for that, too
from dsh import ToolCall, ToolResult
from dsh.messages import text_of
from dsh_spill.config import SpillConfig, ToolLimits
from dsh_spill.keep import Keeper
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
home = pathlib.Path(sys.argv[1])
keeper = Keeper(SpillConfig(), home, lambda text: text)
result = keeper.kept(ToolCall("c", "do", {}, None, 1, 1), ToolResult("x" * 100_000), "one")
print(text_of(result.content)[-100:])
print([path for path in home.rglob("*") if path.is_file()])
"""


def test_a_disk_that_is_full_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("the rest is lost, as it could not be saved: File too large]\n[]\n")


async def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    plugins = {"spill": dsh_spill, "doing": tool("x" * 5000), "store": plugin_of(session_open=lambda: None)}
    config = Config(tables={"spill": SMALL})
    async with memory_agent(call("do", {}), text("ok"), plugins=plugins, config=config) as agent:
        folder = session_folder(agent.harness.home, agent.session.id)
        folder.mkdir(parents=True)
        (folder / "results").symlink_to(tmp_path)
        await agent.run("go")
        (event,) = (event for event in agent.session.events if isinstance(event.data, ev.ToolResult))
    assert "could not be saved: " in text_of(event.data.content)
    assert os.listdir(tmp_path) == []


def _read(folder: Path) -> dict[str, str]:
    return {path.read_text(): str(path) for path in folder.rglob("*.txt")}


async def test_many_at_once_with_one_name_keep_their_own(tmp_path: Path) -> None:
    keeper = Keeper(SpillConfig(**SMALL), tmp_path, lambda text: text)
    call = ToolCall("same", "do", {}, None, 1, 1)
    shown: dict[int, str] = {}

    async def keep(number: int) -> None:
        result = ToolResult(f"{number:04}" * 1000)
        kept = await trio.to_thread.run_sync(keeper.kept, call, result, "one" if number % 2 else "two")
        shown[number] = text_of(kept.content)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(keep, number)
    files = _read(tmp_path)
    assert len(files) == 40
    for number, said in shown.items():
        assert files[f"{number:04}" * 1000] in said


# -- cleaning


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b]0;pwn\x07\x1b[?1049hx", "x"),  # row O04
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\\x1b(B\x1b=\x1b7z", "z"),
        ("\x9b31mred", "red"),
        ("an \x1b]open title\nnext", "an open title\nnext"),
        ("cut \x1b[", "cut "),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10 %\r50 %\r100 %\ndone", "100 %\ndone"),
        ("long line\rshort\n", "shortline\n"),
        ("bar\r", "bar"),
        ("counting 100\rdone\x1b[K\n", "done\n"),
        ("counting 100\r\x1b[Kdone\n", "done\n"),
        ("counting 100\r\x1b[2Kdone\n", "done\n"),
        ("counting 100\x1b[2K\rdone\n", "done\n"),
        ("counting 100\x1b[0K\n\x9bKnext\x1b[K", "counting 100\nnext"),
        ("abc\x1b[2Kdef\x1b[K", "   def"),
        ("abcdef\rab\x1b[Kx\x1b[1Ky", "abxy"),
        ("\x1e\x1f stay\x1b[K", "\u241e\u241f stay"),
        ("ab\b\bcd", "cd"),
        ("x\by", "y"),
        ("bell\a nul\0 del\x7f", "bell\u2407 nul\u2400 del\u2421"),
        ("日本語 ⚠️ \u2028", "日本語 ⚠️ \u2028"),
    ],
)
def test_what_steers_terminals_is_taken_out(dirty: str, clean: str) -> None:
    assert cleaned(dirty) == clean


async def test_ten_thousand_frames_are_one_line() -> None:
    """Row O04: a progress bar."""
    frames = "".join(f"\r{n / 100:6.2f} %" for n in range(10_001)) + "\n"
    shown, _, kept = await told(frames, effect="execute")
    assert (shown, kept) == ("100.00 %\n", None)


async def test_very_many_erasures_take_no_time() -> None:
    frames = "x\x1b[K\x1b[2K" * 200_000 + "\rend\x1b[K\n"
    assert cleaned(frames) == "end\n"


async def test_a_little_binary_data_is_shown_as_far_as_it_can_be() -> None:
    """Row E01: `head -c 300 /bin/ls`, and what the shell says behind it."""
    shown, _, kept = await told("\ufffd\0\1\2" * 75 + "\n[exit code: 1]", effect="execute")
    assert shown == "\ufffd␀␁␂" * 75 + "\n[exit code: 1]"
    assert kept is None


async def test_what_is_no_text_writes_nothing_over() -> None:
    shown, _, _ = await told("\x7fELF\0\0\0\r\x1b[2J\b\0\0", effect="execute")
    assert shown == "␡ELF␀␀␀␍␛[2J␈␀␀"


@pytest.mark.parametrize("unseen", ["\r" * 99, "\x1b[2J\x1b[0m", "ab\b\b"])
async def test_what_shows_nothing_is_not_nothing(unseen: str) -> None:
    assert (await told(unseen, effect="execute"))[0] == "(nothing that can be seen)"


async def test_overstruck_text_as_in_manuals_is_text() -> None:
    shown, _, _ = await told("".join(f"{char}\b{char}" for char in "NAME") + "\n    ls\n", effect="execute")
    assert shown == "NAME\n    ls\n"


async def test_much_binary_data_is_named_and_its_end_is_not_lost() -> None:
    shown, _, kept = await told("\ufffd\0\1\2" * 900 + "\n[exit code: 1]", effect="execute", max_bytes=50_000)
    assert kept is not None
    assert kept.decode() == "\ufffd␀␁␂" * 900 + "\n[exit code: 1]"
    assert "\n[exit code: 1]\n[the result has 10815 bytes in 2 lines; it is no text for the most part;" in shown
    assert len(shown) < 700


async def test_what_a_tool_has_kept_itself_is_cleaned_and_not_cut_again() -> None:
    whole = ToolResult("\x1b[1mline\x1b[0m\n" * 500, meta={"kept": ["/somewhere"]})
    shown, event, kept = await told(whole, effect="execute")
    assert (shown, kept) == ("line\n" * 500, None)
    assert event.meta == {"kept": ["/somewhere"]}


async def test_halves_of_characters_do_not_fail_a_call() -> None:
    shown, event, kept = await told("caf\udce9 " * 400)
    assert not event.is_error
    assert kept is not None
    assert kept.decode() == "caf\ufffd " * 400
    assert shown.startswith("caf\ufffd ")


async def test_the_parts_of_a_small_limit_are_smaller() -> None:
    shown, _, kept = await told("word " * 100, tools={"do": {"max_bytes": 60}})
    assert kept == b"word " * 100
    assert shown.startswith("word word word word \n[460 bytes in 1 lines are left out here]\n")


async def test_cleaning_can_be_turned_off() -> None:
    assert (await told("\x1b[1mx", clean=False))[0] == "\x1b[1mx"


@given(st.text())
def test_nothing_that_steers_is_left(dirty: str) -> None:
    clean = cleaned(dirty)
    assert not any(ord(char) < 0x20 and char not in "\t\n" for char in clean)
    assert "\x7f" not in clean
    assert cleaned(clean) == clean


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "Zs"))))
def test_text_is_left_alone(plain: str) -> None:
    assert cleaned(plain) == plain
    assert not is_binary(plain.replace("\ufffd", ""))


@given(
    st.text(alphabet="a\nä日😀", max_size=300),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_the_parts_add_up(whole: str, head: int, tail: int, head_lines: int, tail_lines: int) -> None:
    parts = cut(whole, head, tail, head_lines, tail_lines)
    assert whole.startswith(parts.head)
    assert whole[len(parts.head) :].endswith(parts.tail)
    assert len(parts.head.encode()) <= head
    assert len(parts.tail.encode()) <= tail
    assert lines_in(parts.head) <= head_lines
    assert lines_in(parts.tail) <= tail_lines
    assert parts.left_bytes == len(whole.encode()) - len(parts.head.encode()) - len(parts.tail.encode())


def limits(name: str, value: int) -> Any:
    return {name: value}


@pytest.mark.parametrize("name", ["max_bytes", "max_lines", "head_bytes", "tail_bytes"])
def test_no_limit_is_less_than_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SpillConfig(**limits(name, -1))
    with pytest.raises(ValueError, match="max_lines"):
        ToolLimits(max_lines=-1)
    assert getattr(SpillConfig(**limits(name, 0)), name) == 0
