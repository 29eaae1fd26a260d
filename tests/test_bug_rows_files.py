"""Files and output in every encoding and shape: the rows E of the shared material, through the whole command.

Scripts name their argument ``path``; the tools here call it ``file_path``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SCRIPTS = SHARED / "bugs/scripts"

pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="the scripted server and the scripts are not here")

UNASKED = ("--permission-mode", "bypass")


@pytest.fixture
def edited(play: Any, tmp_path: Path) -> Any:
    """Play a row with files there before; each is read first, as an agent does."""

    def run(row: str, **files: bytes) -> Any:
        played = json.loads((SCRIPTS / f"{row}.json").read_text(encoding="utf-8"))
        replies = [{"calls": [["@read", {"file_path": name.replace("_", ".")}]]} for name in files]
        for reply in played["replies"]:
            for call in reply.get("calls", ()):
                if "path" in call[1]:
                    call[1]["file_path"] = call[1].pop("path")
            replies.append(reply)
        script = tmp_path / f"{row}.json"
        script.write_text(json.dumps(replies))
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        for name, content in files.items():
            (work / name.replace("_", ".")).write_bytes(content)
        ran = play(script, arguments=UNASKED)
        assert (ran.code, ran.out) == (0, "done\n")
        return ran, lambda name: (work / name).read_bytes()

    return run


def test_e01_output_that_is_no_text(play: Any) -> None:
    ran = play("E01", arguments=UNASKED)
    assert (ran.code, ran.out) == (0, "done\n")
    (result,) = ran.results

    assert "ok" in result
    assert "ELF" in result
    assert "\ufffd" in result


def test_e02_a_bad_byte_and_a_megabyte_behind_it(play: Any) -> None:
    ran = play("E02", arguments=UNASKED)
    assert (ran.code, ran.out) == (0, "done\n")
    (result,) = ran.results
    assert "aaaa" in result
    assert len(result) < 200_000


def test_e03_a_file_in_another_encoding(edited: Any) -> None:
    """Refused or done right: all other bytes are as they were."""
    before = b"color=\xba\xec\xc9\xab\r\nname=\xc4\xe3\r\n"
    _ran, left = edited("E03", gbk_txt=before)
    assert left("gbk.txt") in (before, before.replace(b"color", b"colour"))


def test_e04_a_byte_order_mark_and_crlf(edited: Any) -> None:
    _ran, left = edited("E04", crlf_txt=b"\xef\xbb\xbffirst\r\nsecond\r\nthird\r\n")
    assert left("crlf.txt") == b"\xef\xbb\xbfFIRST\r\nSECOND\r\nthird\r\n"


def test_e05_crlf_in_what_the_model_sends(edited: Any) -> None:
    _ran, left = edited("E05", crlf_txt=b"first\r\nsecond\r\n", lf_txt=b"first\nsecond\n")
    assert (left("crlf.txt"), left("lf.txt")) == (b"1\r\n2\r\n", b"1\n2\n")


def test_e06_line_ends_of_every_kind(edited: Any) -> None:
    _ran, left = edited("E06", mixed_txt=b"one\ntwo\nthree\r\nfour\n")
    assert left("mixed.txt") == b"ONE\ntwo\nthree\r\nfour\n"


def test_e07_the_text_is_nearly_there(edited: Any) -> None:
    """Either the edit is made by a stated rule, or the error shows what stands there."""
    before = "it’s here  \nnext\n".encode()
    ran, left = edited("E07", q_txt=before)
    if left("q.txt") == before:
        assert all("it’s here" in result for result in ran.results[1:])


def test_e08_the_new_text_is_taken_as_it_is(edited: Any) -> None:
    _ran, left = edited("E08", r_txt=b"a OLD b\n")
    assert left("r.txt") == rb"a $& $1 \1 \g<0> \n {x} %s b" + b"\n"


def test_e10_tabs_that_the_model_wrote_as_blanks(edited: Any) -> None:
    before = b"all:\n\techo hi\n"
    ran, left = edited("E10", Makefile=before)
    assert any("\techo hi" in result for result in ran.results)
    if left("Makefile") == before:
        assert "tab" in ran.results[-1].lower() or "\\t" in ran.results[-1]
    else:
        assert left("Makefile") == b"all:\n\techo ho\n"


def test_e11_several_matches_and_an_empty_text(edited: Any) -> None:
    before = b"x = 1\ny\nx = 1\n"
    ran, left = edited("E11", m_txt=before)
    assert left("m.txt") == before
    several, empty = ran.data("tool/result")[-2:]
    assert (several["isError"], empty["isError"]) == (True, True)
    text = several["content"][0]["text"]
    assert "1" in text
    assert "3" in text
    assert "replace_all" in text


def test_e12_every_character_survives(edited: Any) -> None:
    ran, left = edited("E12")
    assert left("e.txt") == "🙂 é 你\n".encode()
    assert "🙂 é 你" in ran.results[-1]
    assert "🙂 é 你" in json.dumps(ran.requests[-1], ensure_ascii=False)
