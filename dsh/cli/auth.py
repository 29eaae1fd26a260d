"""``dsh auth``: whether a provider can be asked, and keeping its key."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

import trio

from ..config import dsh_home
from ..credentials import read_credentials, write_credentials
from ..errors import ConfigError
from ..jsonvalue import dumps
from ..llm.http.keys import check_key
from . import EXIT_OK, EXIT_USAGE, complain
from .probe import Verdict, check
from .start import Start, opened, settle

if TYPE_CHECKING:
    from ..harness import Harness

__all__ = ["ask_key", "keep_key", "key_variable", "run"]

LONGEST = 1 << 16


def run(args: argparse.Namespace) -> int:
    """Check the provider that was named, or all that are configured; or keep or drop a key."""
    if args.action != "check" and not args.target:
        raise ConfigError(f"dsh auth {args.action}: name a provider, as in dsh auth {args.action} deepseek")
    if args.action == "remove":
        return _remove(args)
    start = settle(args)
    return trio.run(_set if args.action == "set" else _check, args, start)


# -- keeping keys


async def _set(args: argparse.Namespace, start: Start) -> int:
    """Keep the key that a person types, or that comes from stdin."""
    from .catalogue import named_provider

    async with opened(start) as harness:
        name = named_provider(harness, args.target.partition("/")[0])
        variable = key_variable(harness, name)
    if sys.stdin is not None and sys.stdin.isatty():
        given = ask_key(f"The key for {name} (it is not shown while you type or paste): ")
    else:
        given = "" if sys.stdin is None else sys.stdin.read(LONGEST)
    key, problem = check_key("what was given", given)
    if key is None:
        raise ConfigError("no key was given" if not given.strip() else str(problem), code="USAGE")
    keep_key(start, variable, key)
    if not args.quiet:
        complain(f"kept as {variable} in {harness.credentials.path}, for you alone to read")
        if os.environ.get(variable, "").strip():
            complain(f"{variable} is set in the environment, too, and comes first")
        complain(f"`dsh auth check {name}` asks the service whether it is good")
    return EXIT_OK


def ask_key(question: str) -> str:
    """What a person types at the terminal, which does not show it.

    Raises:
        KeyboardInterrupt: instead of an answer.
    """
    import getpass

    try:
        return getpass.getpass(question)
    except EOFError:
        return ""


def keep_key(start: Start, variable: str, key: str) -> None:
    """Write a key into the file.

    Raises:
        ConfigError: the file cannot be read, or not be written.
    """
    write_credentials(start.home, {**read_credentials(start.home).keys, variable: key})


def key_variable(harness: Harness, name: str) -> str:
    """The variable that a provider's key is looked for in.

    Raises:
        ConfigError: none is.
    """
    provider = getattr(harness.llm.adapters[name], "provider", None)
    place = getattr(provider, "place", provider)
    variable = getattr(place, "key_env", None)
    if not isinstance(variable, str) or not variable:
        raise ConfigError(
            f"{name} takes no key; one that does names the variable of its key, with key_env in its table",
            code="USAGE",
        )
    return variable


def _remove(args: argparse.Namespace) -> int:
    """Drop the key of a provider, or of a variable; what is not needed is not opened."""
    home = dsh_home(os.environ)
    keys = dict(read_credentials(home).keys)
    variable = args.target if args.target in keys else trio.run(_variable, args, settle(args))
    if keys.pop(variable, None) is None:
        kept = f"; kept are: {', '.join(sorted(keys))}" if keys else ""
        raise ConfigError(f"no key is kept as {variable}{kept}", code="USAGE")
    path = write_credentials(home, keys)
    if not args.quiet:
        complain(f"{variable} is gone from {path}")
        if os.environ.get(variable, "").strip():
            complain(f"{variable} is set in the environment all the same")
    return EXIT_OK


async def _variable(args: argparse.Namespace, start: Start) -> str:
    from .catalogue import named_provider

    async with opened(start) as harness:
        return key_variable(harness, named_provider(harness, args.target.partition("/")[0]))


# -- checking


async def _check(args: argparse.Namespace, start: Start) -> int:
    from .catalogue import named_provider

    async with opened(start) as harness:
        adapters = harness.llm.adapters
        if args.target:
            provider, _, model = args.target.partition("/")
            named = {named_provider(harness, provider): model}
        else:
            named = {name: "" for name, adapter in adapters.items() if getattr(adapter, "configured", False)}
        found: dict[str, Verdict] = {}

        async def one(provider: str, model: str) -> None:
            found[provider] = await check(harness, provider, model)

        async with trio.open_nursery() as nursery:
            for provider, model in named.items():
                nursery.start_soon(one, provider, model)
        verdicts = [found[name].masked(harness.secrets.mask) for name in named]
    _print(verdicts, as_json=args.json, one=bool(args.target))
    return max((verdict.exit_code for verdict in verdicts), default=EXIT_USAGE)


def _print(verdicts: list[Verdict], *, as_json: bool, one: bool) -> None:
    if as_json:
        records = [verdict.record() for verdict in verdicts]
        print(dumps(records[0] if one else records).decode())
    elif not verdicts:
        print("no provider has a key; name one: dsh auth check PROVIDER, or keep its key: dsh auth set PROVIDER")
    for verdict in verdicts if not as_json else ():
        print(verdict.text())
