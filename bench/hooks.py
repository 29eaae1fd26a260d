"""What a hook call costs: plain pluggy beside the relay, in one process.

    python bench/hooks.py [--rounds N]

CPU time, the least of many rounds, in microseconds a call.  The ratios compare with plain pluggy in the
same run and for the same number of plugins; they mean the same on any machine, the times do not.  Every
implementation answers None, so all of them are called.
"""

from __future__ import annotations

import argparse
import gc
import types
from collections.abc import Callable, Coroutine, Iterator
from time import process_time
from typing import Any, Protocol

import pluggy
import trio

from dsh import gate, hookimpl, hookspec
from dsh.hooks import PluginManager, Settings

CALLS = 2000
COUNTS = (0, 1, 5, 20)


class Hooks(Protocol):
    @hookspec
    def told(self, a: int, b: int) -> None: ...
    @hookspec(firstresult=True)
    async def decided(self, a: int, b: int) -> int | None: ...
    @hookspec
    async def awaited(self, a: int, b: int) -> None: ...
    @gate
    async def guarded(self, a: int, b: int) -> Any: ...


def plain(a: int, b: int) -> None:
    """An implementation without an opinion."""


def wrapper(a: int, b: int) -> Iterator[None]:
    result = yield
    return result


def module(**functions: Callable[..., Any]) -> types.ModuleType:
    """A plugin of these implementations."""
    made = types.ModuleType("plugin")
    for name, function in functions.items():
        setattr(made, name, function)
    return made


def copy_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own, so that marks do not meet."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__)


def manager(count: int, *, wrappers: int = 0, trace: bool = True) -> PluginManager:
    """A manager with `count` plugins, each with every hook, and `wrappers` around them."""
    plugins = PluginManager(settings=Settings(trace=trace))
    plugins.add_hookspecs(Hooks)
    names = ("told", "decided", "awaited", "guarded")
    for number in range(count):
        plugins.register(module(**{name: hookimpl(copy_of(plain)) for name in names}), f"plain{number}")
    for number in range(wrappers):
        marked = {name: hookimpl(wrapper=True)(copy_of(wrapper)) for name in names}
        plugins.register(module(**marked), f"wrapper{number}")
    return plugins


def per_call(loop: Callable[[], None], rounds: int) -> float:
    """Microseconds a call: the least of so many rounds."""
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            started = process_time()
            loop()
            best = min(best, process_time() - started)
    finally:
        gc.enable()
    return best / CALLS * 1e6


def sync_loop(call: Callable[..., Any]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            call(a=1, b=2)

    return loop


def async_loop(call: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[[], None]:
    async def body() -> None:
        for _ in range(CALLS):
            await call(a=1, b=2)

    def loop() -> None:
        # Nothing in it waits, so one step runs it to its end, without a scheduler's share in the time.
        try:
            body().send(None)
        except StopIteration:
            return
        raise RuntimeError("a hook waited")

    return loop


def pluggy_loop(count: int, *, wrappers: int = 0) -> Callable[[], None]:
    spec, impl = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

    class Specs:
        @spec(firstresult=True)
        def told(self, a: int, b: int) -> None: ...

    plugins = pluggy.PluginManager("bench")
    plugins.add_hookspecs(Specs)
    for number in range(count):
        plugins.register(module(told=impl(copy_of(plain))), f"plain{number}")
    for number in range(wrappers):
        plugins.register(module(told=impl(wrapper=True)(copy_of(wrapper))), f"wrapper{number}")
    return sync_loop(plugins.hook.told)


def rows() -> Iterator[tuple[str, list[Callable[[], None]]]]:
    yield "plain pluggy", [pluggy_loop(n) for n in COUNTS]
    for name, attribute, loop in (
        ("notify", "told", sync_loop),
        ("decide", "decided", async_loop),
        ("checkpoint", "awaited", async_loop),
        ("gate", "guarded", async_loop),
    ):
        yield name, [loop(getattr(manager(n).relay, attribute)) for n in COUNTS]
        if name in ("notify", "decide"):
            quiet = [manager(n, trace=False).relay for n in COUNTS]
            yield f"{name}, trace = false", [loop(getattr(relay, attribute)) for relay in quiet]
    yield "plain pluggy, one implementation in N wrappers", [pluggy_loop(1, wrappers=n) for n in COUNTS]
    yield "decide, one implementation in N wrappers", [async_loop(manager(1, wrappers=n).relay.decided) for n in COUNTS]
    yield "gate, one implementation in N wrappers", [async_loop(manager(1, wrappers=n).relay.guarded) for n in COUNTS]


async def main(rounds: int) -> None:
    """Print the table."""
    print("| microseconds a call | " + " | ".join(f"{n}" for n in COUNTS) + " |")
    print("|---|" + "---|" * len(COUNTS))
    base: list[float] = []
    for name, loops in rows():
        times = [per_call(loop, rounds) for loop in loops]
        if name.startswith("plain pluggy"):
            base = times
            cells = [f"{time:.2f}" for time in times]
        else:
            cells = [f"{time:.2f} ({time / own:.2f}×)" for time, own in zip(times, base, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    trio.run(main, parser.parse_args().rounds)
