"""docs/hooks.md: every hook is there, as it is, with a plugin that works."""

from __future__ import annotations

import ast
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from dsh import AgentOptions, hookimpl, tool
from dsh.discovery import load_plugins
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.testing import ScriptedModel, call, memory_harness, shape, text

TEXT = (Path(__file__).parents[1] / "docs" / "hooks.md").read_text(encoding="utf-8")


def specs() -> PluginManager:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    return manager


SPECS = specs().specs
SECTIONS = {
    match[1]: match[2] for match in re.finditer(r"^## (\w+)\n(.*?)(?=^##? |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def examples(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def plugin_of(code: str) -> types.ModuleType:
    """The example as a module."""
    module = types.ModuleType("example")
    exec(compile(code, "docs/hooks.md", "exec"), vars(module))
    return module


def registered(module: types.ModuleType) -> PluginManager:
    manager = specs()
    load_plugins(manager, given={"example": module}, discover=False, warn=pytest.fail)
    return manager


def test_every_hook_has_a_section_and_no_other_does() -> None:
    assert {name for name in SECTIONS if "_" in name} == set(SPECS)
    order = [name for name in SECTIONS if name in SPECS]
    declared = [name for name in vars(Hooks) if name in SPECS]
    assert sorted(order) == sorted(declared)


@pytest.mark.parametrize("name", SPECS)
def test_a_section_shows_signature_kind_and_the_way_back(name: str) -> None:
    spec, section = SPECS[name], SECTIONS[name]

    assert f"```\n{name}({', '.join(spec.arguments)})\n```" in section
    assert f"*{spec.kind}, {'awaited' if spec.awaited else 'called'}*" in section
    assert ("→" in section.split("[all hooks]")[0]) == spec.decides
    assert "[all hooks](#all-hooks)" in section
    assert "Raising" in section
    assert "None" in section or "Nothing is expected back" in section
    assert f"| [{name}](#{name}) | {spec.kind} |" in TEXT


@pytest.mark.parametrize("name", SPECS)
def test_its_example_is_a_whole_plugin_of_ten_lines(name: str) -> None:
    (code,) = examples(SECTIONS[name])

    assert len(code.splitlines()) <= 10
    assert all(len(line) <= 100 for line in code.splitlines())
    ast.parse(code)
    manager = registered(plugin_of(code))
    (info,) = manager.loaded()
    assert name in info.hooks


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_registers(number: int) -> None:
    manager = registered(plugin_of(EXAMPLES[number]))
    assert manager.loaded()[0].hooks


@pytest.mark.parametrize("name", SPECS)
def test_the_docstring_of_a_spec_is_complete(name: str) -> None:
    doc = inspect.getdoc(getattr(Hooks, name)) or ""
    described = re.findall(r":param (\w+):", doc)

    assert tuple(described) == SPECS[name].arguments
    assert (":returns:" in doc) == SPECS[name].decides
    assert re.search(r"\bRaising|\braises?\b|\berrors?\b|\bErrors?\b", doc)
    assert re.search(r"[Cc]ancel", doc)
    assert "None" in doc.splitlines()[-1] or "None" in doc.split("\n\n")[-1]


def test_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", TEXT, re.M)
    }
    for target in re.findall(r"\]\(#([\w-]+)\)", TEXT):
        assert target in anchors
    for file in re.findall(r"\]\(([\w-]+\.md)\)", TEXT):
        assert (Path(__file__).parents[1] / "docs" / file).is_file()


def test_the_retrying_example_retries() -> None:
    from dsh import LlmError, Retry

    module: Any = plugin_of(examples(SECTIONS["agent_request_error"])[0])
    assert module.agent_request_error(LlmError("x", retryable=True, retry_after=7), 1) == Retry(7)
    assert module.agent_request_error(LlmError("x", retryable=True), 3) == Retry(8.0)
    assert module.agent_request_error(LlmError("x", retryable=True), 4) is None
    assert module.agent_request_error(ValueError("x"), 1) is None


@pytest.mark.parametrize("name", SPECS)
async def test_an_agent_runs_with_the_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "NOTES.md").write_text("Mind the gap.")
    module = plugin_of(examples(SECTIONS[name])[0])
    noop = types.ModuleType("noop")
    vars(noop)["tools_register"] = hookimpl(lambda tools: tools.add(tool(nothing)))
    warnings: list[str] = []
    model = ScriptedModel(call("nothing"), text("ok"), text("ok"))
    async with memory_harness(model=model, plugins={"example": module, "noop": noop}, warnings=warnings) as harness:
        handle = harness.create_agent(options=AgentOptions(model="scripted/model"))
        result = await handle.agent.run("go")
        await harness.sessions.flush(handle.agent.session)

    assert result.reason is not None
    assert result.reason.kind == "completed", result.reason
    assert result.text == "ok"
    assert "TR(c1)" in shape(handle.agent.session.events)
    assert warnings == (["agents are made by Loop"] if name == "agent_factory" else [])


def nothing() -> str:
    """Do nothing."""
    return "nothing"
