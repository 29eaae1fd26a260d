"""Finding plugins: real distributions, made here and put on the path."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh import PluginError, hookimpl
from dsh.discovery import load_plugins
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install distributions: ``install("dsh-x", x="dsh_x", code={"dsh_x": "..."})``; nothing else is installed."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if "site-packages" not in path)])

    def install(distribution: str, code: dict[str, str] | None = None, version: str = "1.0", **entries: str) -> None:
        info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[dsh]", *lines, ""]))
        for module, text in (code or {}).items():
            (tmp_path / f"{module}.py").write_text("from dsh import hookimpl, hookspec\n" + text)
        importlib.invalidate_caches()

    yield install
    for name in {name for name in sys.modules if name.startswith("p_")} - before:
        del sys.modules[name]


def load(**options: Any) -> tuple[PluginManager, list[str]]:
    """A manager with what is found, and what was warned of."""
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    warnings: list[str] = []
    load_plugins(manager, warn=warnings.append, **options)
    return manager, warnings


def names(manager: PluginManager) -> list[str]:
    return [info.name for info in manager.loaded()]


STATUS = """
@hookimpl
def agent_status(agent):
    agent.append(__name__)
"""


def test_registered_in_the_order_of_their_names(install: Install) -> None:
    install("dsh-third", c="p_c", code={"p_c": STATUS})
    install("dsh-first", a="p_a", code={"p_a": STATUS})
    install("dsh-second", b="p_b", code={"p_b": STATUS})
    manager, warnings = load()
    heard: list[str] = []

    manager.relay.agent_status(agent=heard, status="idle")

    assert heard == ["p_c", "p_b", "p_a"]  # the last registered first
    assert warnings == []
    assert [(info.name, info.distribution, info.version) for info in manager.loaded()] == [
        ("a", "dsh-first", "1.0"),
        ("b", "dsh-second", "1.0"),
        ("c", "dsh-third", "1.0"),
    ]


def test_a_plugin_may_implement_the_hooks_of_one_that_comes_after_it(install: Install) -> None:
    install("dsh-a", a="p_a", code={"p_a": "@hookimpl\ndef of_z(log): log.append('a')\n"})
    install(
        "dsh-z",
        z="p_z",
        code={
            "p_z": """
class Specs:
    @hookspec
    def of_z(self, log): ...

@hookimpl
def dsh_add_hookspecs(manager):
    manager.add_hookspecs(Specs)
"""
        },
    )
    manager, warnings = load()
    heard: list[str] = []
    manager.relay.of_z(log=heard)

    assert heard == ["a"]
    assert warnings == []


def test_a_class_as_entry_point_is_made_an_object(install: Install) -> None:
    code = """
class Plugin:
    @hookimpl
    def agent_status(self, agent): agent.append(type(self).__name__)
"""
    install("dsh-a", a="p_a:Plugin", code={"p_a": code})
    manager, _ = load()
    heard: list[str] = []
    manager.relay.agent_status(agent=heard, status="idle")

    assert heard == ["Plugin"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "wants to end the program"),
        ("@hookimpl\ndef agent_statu(): ...", "there is no such hook; did you mean agent_status"),
        ("@hookimpl\ndef dsh_add_hookspecs(manager): raise ValueError('in the specs')", "ValueError: in the specs"),
        ("@hookimpl\nasync def dsh_add_hookspecs(manager): ...", "called, not awaited"),
        ("def dsh_add_hookspecs(manager): raise ValueError", "not marked with @hookimpl"),
    ],
)
def test_what_cannot_be_loaded_is_skipped_and_listed(install: Install, code: str, said: str) -> None:
    install("dsh-bad", bad="p_bad", code={"p_bad": code})
    install("dsh-good", good="p_good", code={"p_good": STATUS})
    manager, warnings = load()

    assert names(manager) == ["good"]
    (warning,) = warnings
    assert warning.startswith("the plugin bad of dsh-bad is skipped")
    assert said in warning
    assert manager.failed["bad"].distribution == "dsh-bad"
    assert "bad" not in manager.distributions


def test_a_missing_attribute_of_a_module_is_reported(install: Install) -> None:
    install("dsh-bad", bad="p_bad:Nothing", code={"p_bad": ""})
    manager, warnings = load()

    assert list(manager.failed) == ["bad"]
    assert "Nothing" in warnings[0]


@pytest.mark.parametrize("code", ["1 / 0", "@hookimpl\ndef agent_statu(): ..."])
def test_a_required_plugin_that_fails_stops_the_program(install: Install, code: str) -> None:
    install("dsh-guard", guard="p_guard", code={"p_guard": code})

    with pytest.raises(PluginError, match="the plugin guard of dsh-guard cannot be loaded"):
        load(required=["guard"])


def test_a_required_plugin_that_is_not_installed_stops_the_program(install: Install) -> None:
    install("dsh-guard", guard="p_guard", code={"p_guard": STATUS})

    with pytest.raises(PluginError, match="required plugin 'gaurd' is not installed; did you mean guard"):
        load(required=["gaurd"])


def test_a_blocked_plugin_is_not_even_imported(install: Install) -> None:
    install("dsh-bad", bad="p_bad", code={"p_bad": "1 / 0"})
    manager, warnings = load(disabled=["bad"])

    assert names(manager) == []
    assert warnings == []
    assert manager.blocked == {"bad"}
    assert "p_bad" not in sys.modules


def test_leaving_out_a_required_plugin_is_said_aloud(install: Install) -> None:
    install("dsh-guard", guard="p_guard", code={"p_guard": "1 / 0"})
    _, warnings = load(required=["guard", "absent"], disabled=["guard", "absent"])

    assert warnings == ["the required plugin absent is left out", "the required plugin guard is left out"]


def test_two_distributions_with_one_name_are_an_error_that_names_both(install: Install) -> None:
    install("dsh-guard", guard="p_guard", code={"p_guard": STATUS})
    install("evil-twin", guard="p_twin", code={"p_twin": STATUS}, version="6.6")

    with pytest.raises(PluginError, match="called 'guard'") as caught:
        load()
    assert "dsh-guard 1.0" in str(caught.value)
    assert "evil-twin 6.6" in str(caught.value)


def test_only_what_comes_with_dsh(install: Install) -> None:
    install("dsh-harness", ours="p_ours", code={"p_ours": STATUS})
    install("dsh-other", theirs="p_theirs", code={"p_theirs": "1 / 0"})
    install("dsh-twin", ours="p_twin", code={"p_twin": "1 / 0"})
    manager, warnings = load(bundled_only=True)

    assert names(manager) == ["ours"]
    assert warnings == []


def test_a_given_plugin_does_not_replace_an_installed_one(install: Install) -> None:
    """Not even one that is required: an empty file must not stand in for a guard."""
    install("dsh-a", a="p_a", code={"p_a": STATUS})
    given = types.ModuleType("mine")
    with pytest.raises(PluginError, match=r"two plugins called 'a'.*dsh-a 1\.0.*--no-plugin a"):
        load(given={"a": given})
    with pytest.raises(PluginError, match="two plugins called 'a'"):
        load(given={"a": given}, required=["a"])


def test_a_given_plugin_takes_the_place_of_a_disabled_one(install: Install) -> None:
    install("dsh-a", a="p_a", code={"p_a": "1 / 0"})
    given = types.ModuleType("mine")
    heard: list[str] = []
    given.agent_status = hookimpl(lambda: heard.append("mine"))  # type: ignore[attr-defined]  # made of attributes
    manager, warnings = load(given={"a": given}, disabled=["a"])
    manager.relay.agent_status(agent=None, status="idle")

    assert heard == ["mine"]
    assert warnings == []
    assert manager.loaded()[0].distribution is None


def test_given_and_installed_ones_are_in_one_order(install: Install) -> None:
    install("dsh-m", m="p_m", code={"p_m": STATUS})
    heard: list[str] = []

    def mine(name: str) -> types.ModuleType:
        module = types.ModuleType(name)
        module.agent_status = hookimpl(lambda: heard.append(name))  # type: ignore[attr-defined]  # made of attributes
        return module

    manager, _ = load(given={"z": mine("z"), "a": mine("a")})
    manager.relay.agent_status(agent=heard, status="idle")

    assert heard == ["z", "p_m", "a"]


def test_a_given_plugin_that_does_not_fit_is_an_error() -> None:
    given = types.ModuleType("mine")
    given.agent_statu = hookimpl(lambda: None)  # type: ignore[attr-defined]  # made of attributes

    with pytest.raises(PluginError, match=r"the plugin mine cannot be loaded: .*did you mean agent_status"):
        load(given={"mine": given}, discover=False)


def test_nothing_is_looked_for_unless_wanted(install: Install) -> None:
    install("dsh-a", a="p_a", code={"p_a": "1 / 0"})
    manager, warnings = load(discover=False)

    assert names(manager) == []
    assert warnings == []
