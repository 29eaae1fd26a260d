"""The order of calls: pluggy's, the same whenever the same plugins are registered in the same order."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from typing import Any, Protocol

import pluggy
from hypothesis import given
from hypothesis import strategies as st

from dsh import hookimpl, hookspec
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec
    def told(self, log: list[str]) -> None: ...

    @hookspec
    async def before(self, log: list[str]) -> None: ...


def managed(specs: type, settings: Settings | None = None) -> PluginManager:
    manager = PluginManager(settings=settings)
    manager.add_hookspecs(specs)
    return manager


def add(manager: PluginManager, name: str, **functions: Callable[..., Any]) -> types.ModuleType:
    """Register a module of that name with these implementations."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    manager.register(module, name)
    return module


MARKS: list[dict[str, bool]] = [{}, {"tryfirst": True}, {"trylast": True}]
plans = st.lists(st.tuples(st.sampled_from(MARKS), st.booleans()), max_size=8)


def implementation(name: str, marks: dict[str, bool], wraps: bool, marker: Any) -> Callable[..., Any]:
    def plain(log: list[str]) -> None:
        log.append(name)

    def around(log: list[str]) -> Generator[None, Any, Any]:
        log.append(f"{name}>")
        result = yield
        log.append(f"<{name}")
        return result

    marked: Callable[..., Any] = marker(wrapper=wraps, **marks)(around if wraps else plain)
    return marked


@given(plan=plans)
def test_it_is_pluggys(plan: list[tuple[dict[str, bool], bool]]) -> None:
    ours = managed(Hooks)
    theirs = pluggy.PluginManager("dsh")
    theirs.add_hookspecs(Hooks)
    for number, (marks, wraps) in enumerate(plan):
        add(ours, str(number), told=implementation(str(number), marks, wraps, hookimpl))
        module = types.ModuleType(str(number))
        vars(module)["told"] = implementation(str(number), marks, wraps, pluggy.HookimplMarker("dsh"))
        theirs.register(module)
    log: list[str] = []
    expected: list[str] = []

    ours.relay.told(log=log)
    theirs.hook.told(log=expected)

    assert log == expected
    assert [impl.plugin_name for impl in ours.implementations("told")] == [
        name.strip(">") for name in expected if not name.startswith("<")
    ]


def test_two_implementations_of_one_plugin() -> None:
    manager = managed(Hooks)
    log: list[str] = []
    one, two = hookimpl(specname="told"), hookimpl(specname="told")
    add(manager, "p", two=two(lambda log: log.append("two")), one=one(lambda log: log.append("one")))

    manager.relay.told(log=log)
    assert log == ["two", "one"]  # as pluggy has it: by name, the last first


def test_taking_a_plugin_out_and_in_again_puts_it_first() -> None:
    manager = managed(Hooks)
    one = add(manager, "one", told=implementation("one", {}, False, hookimpl))
    add(manager, "two", told=implementation("two", {}, False, hookimpl))
    log: list[str] = []
    manager.relay.told(log=log)
    manager.unregister(one)
    manager.register(one, "one")
    manager.relay.told(log=log)

    assert log == ["two", "one", "one", "two"]
