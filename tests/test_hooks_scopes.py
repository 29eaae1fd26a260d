"""Scopes: what is registered for one agent is heard for that agent, and by guards' children."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Generator
from typing import Any, Protocol

import pytest

from dsh import Agent, AgentOptions, Allow, Deny, gate, hookimpl, hookspec
from dsh.hooks import Collector, PluginManager, Settings
from dsh.testing import memory_agent, memory_harness, text

Log = list[str]


class Names(Collector[str]):
    pass


class Hooks(Protocol):
    @hookspec
    def told(self, log: Log) -> None: ...

    @hookspec(settle=True)
    async def ended(self, log: Log) -> None: ...

    @hookspec(collect="names")
    def offered(self, names: Names) -> None: ...

    @hookspec(firstresult=True)
    async def chosen(self, log: Log) -> Any: ...

    @gate
    async def may_run(self, log: Log) -> Any: ...


def managed(specs: type, settings: Settings | None = None) -> PluginManager:
    manager = PluginManager(settings=settings)
    manager.add_hookspecs(specs)
    return manager


def add(
    manager: PluginManager, name: str, /, inherit: Any = False, **functions: Callable[..., Any]
) -> types.ModuleType:
    """Register a module of that name with these implementations."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    manager.register(module, name, inherit=inherit)
    return module


def hearing(name: str, **options: Any) -> dict[str, Callable[..., Any]]:
    """Implementations of all hooks that note their name."""

    def offered(names: Names) -> None:
        names.collect(name)

    def chosen(log: Log) -> None:
        log.append(name)

    mark: Any = hookimpl(**options)
    functions = {hook: mark(lambda log: log.append(name)) for hook in ("told", "ended", "may_run")}
    return {**functions, "chosen": mark(chosen), "offered": mark(offered)}


async def heard(manager: PluginManager, hook: str) -> Log:
    """Who hears a call of the hook made in this scope."""
    log: Log = []
    relay = manager.relay
    if hook == "told":
        relay.told(log=log)
    elif hook == "offered":
        names = Names()
        relay.offered(names=names)
        log.extend(names)
    else:
        await getattr(relay, hook)(log=log)
    return log


ALL = ("told", "ended", "offered", "chosen", "may_run")
DECIDING = ("chosen", "may_run")
OTHERS = ("told", "ended", "offered")


@pytest.mark.parametrize("hook", ALL)
async def test_a_scope_hears_its_own_and_the_program_does_not_hear_them(hook: str) -> None:
    manager = managed(Hooks)
    one, other = manager.scope(), manager.scope()
    add(manager, "installed", **hearing("installed"))
    add(one, "own", **hearing("own"))

    assert await heard(manager, hook) == ["installed"]
    assert await heard(other, hook) == ["installed"]
    assert sorted(await heard(one, hook)) == ["installed", "own"]


@pytest.mark.parametrize("hook", ["told", "ended", "chosen", "may_run"])
async def test_own_ones_come_first_within_their_band(hook: str) -> None:
    manager = managed(Hooks)
    scope = manager.scope()
    add(scope, "own", **hearing("own"))
    add(scope, "own last", **hearing("own last", trylast=True))
    add(scope, "own first", **hearing("own first", tryfirst=True))
    add(manager, "first", **hearing("first", tryfirst=True))
    add(manager, "last", **hearing("last", trylast=True))
    add(manager, "plain", **hearing("plain"))

    assert await heard(scope, hook) == ["own first", "first", "own", "plain", "own last", "last"]


async def test_a_wrapper_of_a_scope_is_outside_the_installed_ones() -> None:
    manager = managed(Hooks)
    scope = manager.scope()

    def around(name: str) -> Callable[..., Any]:
        @hookimpl(wrapper=True)
        def chosen(log: Log) -> Generator[None, Any, Any]:
            log.append(f"{name}>")
            result = yield
            log.append(f"<{name}")
            return result

        return chosen

    add(scope, "own", chosen=around("own"))
    add(manager, "installed", chosen=around("installed"))
    add(manager, "x", chosen=hookimpl(lambda: "x"))
    log: Log = []

    assert await scope.relay.chosen(log=log) == "x"
    assert log == ["own>", "installed>", "<installed", "<own"]


@pytest.mark.parametrize("hook", DECIDING)
async def test_children_hear_the_guards_of_their_parents(hook: str) -> None:
    manager = managed(Hooks)
    parent = manager.scope()
    child = parent.scope()
    grandchild = child.scope()
    add(parent, "parent", **hearing("parent"))
    add(child, "child", **hearing("child"))

    assert await heard(child, hook) == ["child", "parent"]
    assert await heard(grandchild, hook) == ["child", "parent"]
    assert await heard(parent, hook) == ["parent"]


async def test_a_guard_on_a_parent_guards_its_children() -> None:
    manager = managed(Hooks)
    parent = manager.scope()
    child = parent.scope()
    add(parent, "guard", may_run=hookimpl(lambda: Deny("not in this family")))
    add(child, "own", may_run=hookimpl(lambda: Allow()))

    assert await child.relay.may_run(log=[]) == Deny("not in this family")


@pytest.mark.parametrize("hook", OTHERS)
@pytest.mark.parametrize("inherit", [False, True])
@pytest.mark.parametrize("busy", [False, True])
async def test_other_hooks_stay_with_the_parent_unless_inherited(hook: str, inherit: bool, busy: bool) -> None:
    manager = managed(Hooks)
    add(manager, "installed", **hearing("installed"))
    parent = manager.scope()
    child = parent.scope()
    grandchild = child.scope()
    if busy:
        add(grandchild, "grandchild", **hearing("grandchild"))
    add(parent, "parent", inherit, **hearing("parent"))
    add(child, "child", **hearing("child"))

    expected = {"installed"} | ({"parent"} if inherit else set()) | ({"grandchild"} if busy else set())
    assert set(await heard(grandchild, hook)) == expected
    assert set(await heard(parent, hook)) == {"installed", "parent"}


@pytest.mark.parametrize("hook", ALL)
def test_a_scope_without_plugins_shares_the_compiled_call(hook: str) -> None:
    manager = managed(Hooks)
    add(manager, "installed", **hearing("installed"))
    scope = manager.scope()
    deep = scope.scope().scope()

    assert getattr(scope.relay, hook) is getattr(manager.relay, hook)
    assert getattr(deep.relay, hook) is getattr(manager.relay, hook)

    add(scope, "own", **hearing("own"))
    assert getattr(scope.relay, hook) is not getattr(manager.relay, hook)
    assert (getattr(deep.relay, hook) is getattr(scope.relay, hook)) == (hook in DECIDING)
    assert (getattr(deep.relay, hook) is getattr(manager.relay, hook)) == (hook in OTHERS)


@pytest.mark.parametrize("hook", ALL)
async def test_plugins_that_come_and_go_are_heard_in_all_layers(hook: str) -> None:
    manager = managed(Hooks)
    scope = manager.scope()
    child = scope.scope()
    assert await heard(child, hook) == []

    module = add(manager, "installed", **hearing("installed"))
    assert await heard(child, hook) == ["installed"]

    manager.unregister(module)
    assert await heard(child, hook) == []

    add(scope, "own", True, **hearing("own"))
    assert await heard(child, hook) == ["own"]
    scope.clear()
    assert await heard(child, hook) == []
    assert scope.get_plugins() == set()


def test_a_scope_is_collected() -> None:
    manager = managed(Hooks)
    add(manager, "installed", **hearing("installed"))
    scope = manager.scope()
    add(scope, "own", **hearing("own"))
    scope.relay.told(log=[])
    references: list[Callable[[], object]] = [weakref.ref(scope), weakref.ref(scope.relay)]

    del scope
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    manager.unregister(name="installed")  # and nobody stumbles over what is gone


def test_the_same_plugin_may_be_in_several_scopes() -> None:
    manager = managed(Hooks)
    module = add(manager.scope(), "p", **hearing("p"))
    other = manager.scope()
    other.register(module, "p")
    log: Log = []

    other.relay.told(log=log)
    assert log == ["p"]


# -- agents


def counting(log: list[str], name: str) -> types.ModuleType:
    @hookimpl
    def agent_status(status: str) -> None:
        log.append(f"{name} {status}")

    module = types.ModuleType(name)
    module.agent_status = agent_status  # type: ignore[attr-defined]  # a module is made of attributes
    return module


async def test_what_an_agent_registers_is_heard_for_it_alone_and_gone_with_it() -> None:
    log: list[str] = []
    async with memory_harness(text("a"), text("b")) as harness:
        options = AgentOptions(model="scripted/model")

        def register(agent: Agent) -> None:
            agent.plugins.register(counting(log, "one"))

        one = harness.create_agent(setup=register, options=options)
        other = harness.create_agent(options=options)
        await one.agent.run("hi")
        await other.agent.run("hi")
        await one.dispose()
        assert log == ["one running", "one idle", "one disposed"]
        assert one.agent.plugins.get_plugins() == set()


async def test_a_session_uses_the_relay_of_the_agent_that_entered_it() -> None:
    types_seen: list[str] = []

    class Listener:
        @hookimpl
        def session_event(self, event: Any) -> None:
            types_seen.append(event.type)

    async with memory_agent(text("a"), setup=lambda agent: agent.plugins.register(Listener())) as agent:
        await agent.run("hi")

    assert types_seen[0] == "turn/start"
    assert types_seen[-1] == "turn/end"
