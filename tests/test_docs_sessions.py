"""docs/sessions.md: every event with its fields, and examples that run."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from dsh import USER, Config, SessionError, Text, open_harness
from dsh.config import SessionsConfig
from dsh.session import SessionQuery, SessionsFound
from dsh.session.codec import default_codec
from dsh.session.events import VOCABULARY, UserMessage
from dsh.testing import memory_agent, text

TEXT = (Path(__file__).parents[1] / "docs" / "sessions.md").read_text(encoding="utf-8")
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z-]+/[a-z-]+)` \| (.*) \|$", TEXT, re.MULTILINE)}

PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_every_type_is_there() -> None:
    assert list(ROWS) == [cls.type for cls in VOCABULARY]


@pytest.mark.parametrize("cls", VOCABULARY, ids=lambda cls: cls.type)
def test_every_field_is_there(cls: type[Any]) -> None:
    fields, _, description = ROWS[cls.type].partition(" | ")

    assert re.findall(r"`(\w+)`", fields) == [camel(field.name) for field in attrs.fields(cls)]
    assert description.startswith("*seen.*") == getattr(cls, "surface", False)


def test_the_lines_it_shows_can_be_read() -> None:
    header, event = re.findall(r"^```json\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
    codec = default_codec()

    assert codec.encode_header(codec.decode_header(header.encode())).decode() == header
    assert codec.decode(event.encode()).type == "user/message"


async def test_the_examples_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dsh_jsonl")
    surface, request, _ = PYTHON
    exec(surface, {})
    assert capsys.readouterr().out == "['one and two', 'three']\n"

    path = tmp_path / "session.jsonl"
    async with memory_agent(text("hello")) as agent:
        await agent.run("greet me")
        codec = default_codec()
        lines = [codec.encode_header(agent.session.header), *(codec.encode(event) for event in agent.session.events)]
        path.write_bytes(b"\n".join([*lines, b""]))
    names: dict[str, Any] = {}
    exec(request, names)
    names["show"](path)
    said = capsys.readouterr().out
    assert "scripted/model" in said
    assert "greet me" in said


async def test_the_store_works(tmp_path: Path) -> None:
    store = ModuleType("memory")
    exec(PYTHON[2], store.__dict__)
    config = Config(sessions=SessionsConfig("memory"))
    plugins = {"memory": store}

    async with open_harness(config, plugins=plugins, discover=False, home=tmp_path) as harness:
        session, _ = harness.sessions.create("a")
        session.append(UserMessage((Text("hello"),), USER))
    async with open_harness(config, plugins=plugins, discover=False, home=tmp_path) as harness:
        found = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(), found=found)
        stored = await harness.hook.session_open(session_id="a")
        with pytest.raises(SessionError, match="not the one that is stored"):
            harness.sessions.create("a")

    assert [info.id for info in found] == ["a"]
    assert stored is not None
    assert list(stored.events) == list(session.events)
