"""Notifications: everyone hears them, in the frame of the caller."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from typing import Any, Protocol

import pytest
from pluggy import HookCallError

from dsh import HookError, hookimpl, hookspec
from dsh.errors import error_code, error_message
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec
    def told(self, x: int, y: int) -> None: ...

    @hookspec(historic=True)
    def remembered(self, x: int) -> None: ...


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


def raising(error: Exception) -> Callable[..., None]:
    @hookimpl
    def told() -> None:
        raise error

    return told


def test_a_hook_without_implementations_does_nothing() -> None:
    manager = managed(Hooks)

    assert manager.relay.told(x=1, y=2) is None


def test_everyone_hears_it_last_registered_first() -> None:
    manager = managed(Hooks)
    heard: list[Any] = []
    add(manager, "a", told=hookimpl(lambda x: heard.append(("a", x))))
    add(manager, "b", told=hookimpl(lambda y, x: heard.append(("b", x, y))))
    add(manager, "c", told=hookimpl(lambda: heard.append("c")))

    assert manager.relay.told(x=1, y=2) is None

    assert heard == ["c", ("b", 1, 2), ("a", 1)]


def test_an_implementation_may_have_optional_arguments() -> None:
    manager = managed(Hooks)
    heard: list[Any] = []
    add(manager, "a", told=hookimpl(lambda y, x=None: heard.append((x, y))))

    manager.relay.told(x=1, y=2)

    assert heard == [(1, 2)]


def test_one_error_comes_out_as_itself_and_names_the_plugin() -> None:
    manager = managed(Hooks)
    heard: list[str] = []
    add(manager, "last", told=hookimpl(lambda: heard.append("last")))
    add(manager, "bad", told=raising(ValueError("no")))
    add(manager, "first", told=hookimpl(lambda: heard.append("first")))

    with pytest.raises(ValueError, match="no") as caught:
        manager.relay.told(x=1, y=2)

    assert heard == ["first", "last"]
    assert caught.value.__notes__ == ["raised by told of the plugin 'bad'"]


def test_several_errors_come_out_together_and_the_first_speaks() -> None:
    manager = managed(Hooks)
    add(manager, "second", told=raising(KeyError("other")))
    add(manager, "first", told=raising(HookError("the message", code="THE_CODE")))

    with pytest.raises(ExceptionGroup) as caught:
        manager.relay.told(x=1, y=2)

    assert [type(error) for error in caught.value.exceptions] == [HookError, KeyError]
    assert error_message(caught.value) == "the message"
    assert error_code(caught.value) == "THE_CODE"


def test_what_ends_the_program_ends_the_notification() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl
    def told() -> None:
        raise KeyboardInterrupt

    add(manager, "last", told=hookimpl(lambda: heard.append("last")))
    add(manager, "interrupted", told=told)

    with pytest.raises(KeyboardInterrupt):
        manager.relay.told(x=1, y=2)

    assert heard == []


@pytest.mark.parametrize("arguments", [{}, {"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "Y": 2}])
@pytest.mark.parametrize("implemented", [False, True])
def test_wrong_arguments_are_an_error(arguments: dict[str, int], implemented: bool) -> None:
    manager = managed(Hooks)
    if implemented:
        add(manager, "a", told=hookimpl(lambda: None))

    with pytest.raises(HookCallError, match=r"told takes \['x', 'y'\]"):
        manager.relay.told(**arguments)


def test_what_is_not_awaited_cannot_return_an_awaitable() -> None:
    manager = managed(Hooks)

    async def work() -> None: ...

    add(manager, "hidden", told=hookimpl(lambda: work()))

    with pytest.raises(HookError, match="called, not awaited"):
        manager.relay.told(x=1, y=2)


def test_a_wrapper_stands_around_all_and_may_end_an_error() -> None:
    manager = managed(Hooks)
    heard: list[Any] = []

    @hookimpl(wrapper=True)
    def told(x: int) -> Generator[None, Any, Any]:
        heard.append("before")
        try:
            yield
        except ValueError as error:
            heard.append(str(error))

    add(manager, "around", told=told)
    add(manager, "bad", told=raising(ValueError("no")))
    add(manager, "good", told=hookimpl(lambda x: heard.append(x)))

    assert manager.relay.told(x=1, y=2) is None
    assert heard == ["before", 1, "no"]


def test_a_notification_may_nest() -> None:
    manager = managed(Hooks)
    heard: list[int] = []

    @hookimpl
    def told(x: int) -> None:
        heard.append(x)
        if x < 3:
            manager.relay.told(x=x + 1, y=0)

    add(manager, "a", told=told)
    manager.relay.told(x=1, y=0)

    assert heard == [1, 2, 3]


def test_a_historic_hook_tells_late_comers_of_the_past() -> None:
    manager = managed(Hooks)
    heard: list[Any] = []
    add(manager, "early", remembered=hookimpl(lambda x: heard.append(("early", x))))
    manager.hook.remembered.call_historic(kwargs={"x": 1})

    add(manager, "late", remembered=hookimpl(lambda x: heard.append(("late", x))))

    assert heard == [("early", 1), ("late", 1)]


def test_a_wrapper_that_raises_before_its_yield_keeps_it_from_nobody() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl(wrapper=True)
    def outside() -> Generator[None, None, None]:
        try:
            yield
        except ValueError as error:
            heard.append(f"outside: {error}")
            raise

    @hookimpl(wrapper=True)
    def early() -> Generator[None, None, None]:
        raise ValueError("early")
        yield

    @hookimpl(wrapper=True)
    def inside() -> Generator[None, None, None]:
        yield
        heard.append("inside")

    add(manager, "told", told=hookimpl(lambda: heard.append("told")))
    for name, told in (("inside", inside), ("early", early), ("outside", outside)):
        add(manager, name, told=told)

    with pytest.raises(ValueError, match="early") as caught:
        manager.relay.told(x=1, y=2)

    assert heard == ["told", "inside", "outside: early"]
    assert caught.value.__notes__[0] == "raised by told of the plugin 'early'"


def test_such_an_error_comes_out_beside_those_of_others() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def early() -> Generator[None, None, None]:
        raise ValueError("early")
        yield

    add(manager, "late", told=raising(KeyError("late")))
    add(manager, "early", told=early)

    with pytest.raises(ExceptionGroup, match="told failed in several plugins") as caught:
        manager.relay.told(x=1, y=2)

    assert [str(error) for error in caught.value.exceptions] == ["early", "'late'"]


def test_an_iterator_that_was_empty_is_an_error_that_names_the_plugin() -> None:
    """`StopIteration` cannot leave a coroutine, which most callers are."""
    manager = managed(Hooks)
    add(manager, "empty", told=hookimpl(lambda: next(iter(()))))

    with pytest.raises(HookError, match=r"it raised StopIteration\(\)") as caught:
        manager.relay.told(x=1, y=2)

    assert caught.value.__notes__ == ["raised by told of the plugin 'empty'"]
