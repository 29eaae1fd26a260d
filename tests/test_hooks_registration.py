"""Registration: what does not fit is refused, with a hint, before anything changes."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import pluggy
import pytest

from dsh import Deny, PluginError, gate, hookimpl, hookspec
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec
    def told(self, thing: int) -> None: ...

    @hookspec(historic=True)
    def remembered(self, thing: int) -> None: ...

    @hookspec(firstresult=True)
    async def chosen(self, thing: int, other: int, *, default: Any = None) -> Any: ...

    @gate
    async def may_run(self, thing: int) -> Any: ...


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


def refused(said: str, **functions: Callable[..., Any]) -> None:
    """Assert that these implementations are refused, and that nothing is left of the attempt."""
    manager = managed(Hooks)
    module = types.ModuleType("odd")
    # A good one among them, which must not stay behind either.
    vars(module).update({"told": hookimpl(lambda: pytest.fail("it was registered")), **functions})

    with pytest.raises(PluginError, match=said) as caught:
        manager.register(module)

    assert str(caught.value).startswith("plugin odd: ")
    assert manager.get_plugins() == set()
    assert manager.loaded() == []
    manager.relay.told(thing=1)


def test_a_misspelt_hook() -> None:
    refused("tolt: there is no such hook; did you mean told", tolt=hookimpl(lambda: None))
    refused("xyzzy: there is no such hook$", xyzzy=hookimpl(lambda: None))
    refused("tolt: there is no such hook; did you mean told", other=hookimpl(specname="tolt")(lambda: None))


def test_an_unknown_argument() -> None:
    refused("chosen: there is no argument thin; did you mean thing", chosen=hookimpl(lambda thin: None))
    refused("chosen: there is no argument xyzzy; there are thing, other$", chosen=hookimpl(lambda xyzzy=None: None))


def test_the_callers_own_arguments_are_not_for_implementations() -> None:
    refused("there is no argument default", chosen=hookimpl(lambda default: None))


def test_arguments_are_named_one_by_one() -> None:
    def catches(**rest: Any) -> None: ...
    def swallows(*rest: Any) -> None: ...
    def behind(*, thing: int) -> None: ...

    refused(r"name the arguments you want instead of \*\*rest", chosen=hookimpl(catches))
    refused(r"name the arguments you want instead of \*rest", chosen=hookimpl(swallows))
    refused(r"thing stands behind a \*", chosen=hookimpl(behind))


def test_async_implementations_of_a_called_hook() -> None:
    async def told(thing: int) -> None: ...

    async def around() -> AsyncGenerator[Any, Any]:
        yield

    refused("told is called, not awaited: write `def`", told=hookimpl(told))
    refused("told is called, not awaited: write `def`", told=hookimpl(wrapper=True)(around))


def test_wrappers_that_are_none_and_generators_that_should_be() -> None:
    def around() -> Generator[None, Any, Any]:
        return (yield)

    def plain() -> None: ...

    old = pluggy.HookimplMarker("dsh")
    refused("write wrapper=True, not hookwrapper=True", chosen=old(hookwrapper=True)(around))
    refused("a wrapper is a generator", chosen=hookimpl(wrapper=True)(plain))
    refused(r"the function yields; write @hookimpl\(wrapper=True\)", chosen=hookimpl(around))
    refused("remembered is historic: it cannot be wrapped", remembered=hookimpl(wrapper=True)(around))


def test_a_forgotten_mark() -> None:
    def chosen(thing: int) -> None: ...

    chosen.__module__ = "odd"
    refused("chosen has a hook's name but is not marked with @hookimpl", chosen=chosen)


def test_a_forgotten_mark_on_a_method() -> None:
    class Plugin:
        def told(self, thing: int) -> None: ...

    with pytest.raises(PluginError, match="told has a hook's name"):
        managed(Hooks).register(Plugin(), "odd")


def test_a_function_imported_from_elsewhere_is_no_forgotten_mark() -> None:
    module = types.ModuleType("fine")
    module.chosen = test_a_misspelt_hook  # type: ignore[attr-defined]  # a module is made of attributes

    managed(Hooks).register(module)


def test_a_class_in_place_of_an_object_of_it() -> None:
    class Plugin:
        @hookimpl
        def told(self, thing: int) -> None: ...

    with pytest.raises(PluginError, match="register an object of the class, not the class"):
        managed(Hooks).register(Plugin, "odd")
    managed(Hooks).register(Plugin(), "fine")


def test_a_deadline_where_none_holds() -> None:
    refused("chosen is no gate: no deadline holds for it", chosen=hookimpl(deadline=3)(lambda: None))


def test_a_hook_of_an_absent_plugin_is_optional() -> None:
    manager = managed(Hooks)
    optional = hookimpl(optionalhook=True)(lambda anything, at_all: None)
    add(manager, "early", of_another=optional)

    class Others(Protocol):
        @hookspec
        def of_another(self, thing: int) -> None: ...

    other = managed(Hooks)
    other.add_hookspecs(Others)
    heard: list[int] = []
    add(other, "late", of_another=hookimpl(optionalhook=True)(lambda thing: heard.append(thing)))
    other.relay.of_another(thing=3)
    assert heard == [3]
    with pytest.raises(PluginError, match="there is no argument"):
        add(other, "misfit", of_another=optional)


def test_pluggys_own_marker_works_as_well() -> None:
    manager = managed(Hooks)
    heard: list[int] = []
    add(manager, "a", told=pluggy.HookimplMarker("dsh")(lambda thing: heard.append(thing)))

    manager.relay.told(thing=1)
    assert heard == [1]


async def test_a_specname_gives_the_hook() -> None:
    manager = managed(Hooks)
    add(manager, "a", anything=hookimpl(specname="may_run")(lambda: Deny("no")))

    assert await manager.relay.may_run(thing=1) == Deny("no")


def test_a_name_is_given_once() -> None:
    manager = managed(Hooks)
    add(manager, "a")

    with pytest.raises(ValueError, match="already registered"):
        add(manager, "a")


def test_using_leaves_nothing_behind() -> None:
    manager = managed(Hooks)
    heard: list[int] = []
    module = types.ModuleType("p")
    module.told = hookimpl(lambda thing: heard.append(thing))  # type: ignore[attr-defined]  # as above

    def use() -> None:
        with manager.using(module):
            manager.relay.told(thing=1)
            raise KeyError

    with pytest.raises(KeyError):
        use()
    manager.relay.told(thing=2)

    assert heard == [1]
    assert manager.get_plugins() == set()


def test_registering_while_a_call_runs_does_not_change_it() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl
    def told() -> None:
        heard.append("registers")
        if not manager.has_plugin("new"):
            add(manager, "new", told=hookimpl(lambda: heard.append("new")))

    add(manager, "registers", told=told)
    manager.relay.told(thing=1)
    assert heard == ["registers"]

    heard.clear()
    manager.relay.told(thing=1)
    assert heard == ["new", "registers"]


def test_unregistering_while_a_call_runs_does_not_change_it() -> None:
    manager = managed(Hooks)
    heard: list[str] = []
    add(manager, "old", told=hookimpl(lambda: heard.append("old")))
    add(manager, "removes", told=hookimpl(lambda: manager.unregister(name="old")))

    manager.relay.told(thing=1)
    assert heard == ["old"]


async def test_a_call_without_some_plugins() -> None:
    manager = managed(Hooks)
    one = add(manager, "one", chosen=hookimpl(lambda: "one"))
    two = add(manager, "two", chosen=hookimpl(lambda: "two"))
    arguments = {"thing": 1, "other": 2}

    assert await manager.relay.chosen(**arguments) == "two"
    assert await manager.relay.without("chosen", two)(**arguments) == "one"
    assert await manager.relay.without("chosen", two, one)(**arguments, default=lambda: "d") == "d"


def test_an_unknown_hook_has_a_hint() -> None:
    manager = managed(Hooks)
    with pytest.raises(AttributeError, match="there is no hook 'tolt'; did you mean told"):
        manager.relay.tolt  # noqa: B018
    with pytest.raises(AttributeError, match="_private"):
        manager.relay._private  # noqa: B018


def test_what_is_loaded_is_listed_by_name() -> None:
    manager = managed(Hooks)
    add(manager, "b", told=hookimpl(lambda: None), chosen=hookimpl(lambda: None))
    add(manager, "a")
    manager.distributions["b"] = ("dsh-b", "1.2")

    assert [(info.name, info.distribution, info.version, info.hooks) for info in manager.loaded()] == [
        ("a", None, "", ()),
        ("b", "dsh-b", "1.2", ("chosen", "told")),
    ]
    assert manager.scope().version_of("b") == "1.2"
    assert manager.version_of("a") == ""


# -- specs


def namespace(name: str, function: Callable[..., Any]) -> Any:
    module = types.ModuleType("specs")
    setattr(module, name, function)
    return module


@pytest.mark.parametrize(
    ("mark", "awaited", "said"),
    [
        (hookspec(historic=True), True, "an awaited hook cannot be historic"),
        (hookspec(firstresult=True), False, "is written `async def`"),
        (hookspec(settle=True), False, "is written `async def`"),
        (gate, False, "is written `async def`"),
        (hookspec(collect="y"), False, "no argument 'y' to collect in"),
        (hookspec(collect="x", settle=True), True, "either decides, settles or collects"),
        (hookspec(collect="x", firstresult=True), True, "either decides, settles or collects"),
    ],
)
def test_specs_that_contradict_themselves(mark: Callable[..., Any], awaited: bool, said: str) -> None:
    async def awaited_hook(x: int) -> None: ...
    def called_hook(x: int) -> None: ...

    manager = PluginManager()
    with pytest.raises(ValueError, match=said):
        manager.add_hookspecs(namespace("odd", mark(awaited_hook if awaited else called_hook)))
    assert manager.specs == {}


@pytest.mark.parametrize("name", ["told", "without", "_hidden"])
def test_names_that_a_hook_cannot_have(name: str) -> None:
    manager = managed(Hooks)
    known = dict(manager.specs)

    with pytest.raises(ValueError, match=name):
        manager.add_hookspecs(namespace(name, hookspec(lambda: None)))
    assert manager.specs == known


def test_a_namespace_without_specs() -> None:
    with pytest.raises(ValueError, match="did not find any"):
        PluginManager().add_hookspecs(types.ModuleType("empty"))
