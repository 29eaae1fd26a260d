"""``dsh models``: which models there are, and what is known of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from ..errors import ConfigError, DshError
from ..jsonvalue import dumps
from ..structure import did_you_mean
from . import EXIT_OK, code_of, complain
from .models import NO_MODEL
from .start import Start, opened, settle
from .tables import print_table

if TYPE_CHECKING:
    from ..harness import Harness
    from ..models import ModelFacts, Price

__all__ = ["NOT_IN_TIME", "SECONDS", "connects", "named_provider", "problem_of", "run"]

SECONDS = 15.0
"""How long a service may take to say what models it has."""
NOT_IN_TIME = "did not say in time which models it has"
UNKNOWN = "unknown"


@define
class _Listing:
    """What was found out about one provider.

    Attributes:
        names: of its models, with who names them: ``server``, ``dsh``, ``config``.
        note: why the server was not asked, or did not answer.
        error: what it answered with.
    """

    provider: str
    names: dict[str, list[str]] = field(factory=dict)
    note: str = ""
    error: DshError | None = None


def run(args: argparse.Namespace) -> int:
    """Print a line a model."""
    start = settle(args)
    return trio.run(_main, args, start)


async def _main(args: argparse.Namespace, start: Start) -> int:
    async with opened(start) as harness:
        provider, _, part = (args.provider or "").partition("/")
        listings = [_Listing(name) for name in _providers(harness, provider)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.models.load)
            for listing in listings:
                nursery.start_soon(_fill, harness, listing)
        rows = [row for listing in listings for row in _rows(harness, listing, part.lower())]
        for listing in listings:
            if listing.note and not args.quiet:
                complain(f"{harness.secrets.mask(listing.note)}")
    if args.json:
        print(dumps(rows).decode())
    else:
        _print(rows, args.quiet)
    if not rows and provider and listings[0].error is not None:
        return code_of(listings[0].error)
    return EXIT_OK


def _providers(harness: Harness, wanted: str) -> list[str]:
    """The provider that was named, or all that can be asked."""
    adapters = harness.llm.adapters
    if wanted:
        return [named_provider(harness, wanted)]
    usable = [name for name, adapter in adapters.items() if getattr(adapter, "configured", False)]
    if not usable:
        known = ", ".join(sorted(adapters)) or "none"
        hint = f"{NO_MODEL}\n  `dsh models PROVIDER` lists what dsh knows of one: {known}"
        raise ConfigError(hint, code="NO_MODEL")
    return usable


def named_provider(harness: Harness, wanted: str) -> str:
    """`wanted`, if there is such a provider.

    Raises:
        ConfigError: there is none.
    """
    if wanted not in harness.llm.adapters:
        raise ConfigError(
            f"there is no provider {wanted!r}{did_you_mean(wanted, harness.llm.adapters)}; "
            f"the providers are: {', '.join(sorted(harness.llm.adapters)) or 'none'}",
            code="NO_ADAPTER",
        )
    return wanted


def problem_of(adapter: object) -> str | None:
    """Why an adapter cannot ask its service, in words, as far as it says; None if it can."""
    provider = getattr(adapter, "provider", None)
    for owner, name in ((adapter, "broken"), (provider, "problem"), (getattr(provider, "place", None), "problem")):
        problem = getattr(owner, name, None)
        if isinstance(problem, str) and problem:
            return problem
    return None


def connects(adapter: object) -> bool:
    """Whether asking would start a server first."""
    return getattr(getattr(adapter, "provider", None), "connect", None) is not None


async def _fill(harness: Harness, listing: _Listing) -> None:
    """Find out which models a provider has."""
    provider = listing.provider
    adapter = harness.llm.adapters[provider]
    problem = problem_of(adapter)
    if problem is not None:
        listing.note = f"{provider} is not asked: {problem}"
    elif not connects(adapter):
        try:
            with trio.move_on_after(SECONDS) as scope:
                for model in await harness.models.listed(provider) or ():
                    listing.names.setdefault(model.name, []).append("server")
        except DshError as error:
            listing.note, listing.error = error.message, error
        if scope.cancelled_caught:
            listing.error = DshError(f"{provider} {NOT_IN_TIME}", code="TIMEOUT")
            listing.note = listing.error.message
    for name in adapter.models:
        listing.names.setdefault(name, []).append("dsh")
    for full in harness.models.named():
        owner, _, name = full.partition("/")
        if owner == provider:
            listing.names.setdefault(name, []).append("config")


def _rows(harness: Harness, listing: _Listing, part: str) -> list[dict[str, Any]]:
    found = []
    for name, listed_by in listing.names.items():
        if part in name.lower():
            facts = harness.models.facts(f"{listing.provider}/{name}")
            found.append(_row(listing.provider, name, listed_by, facts))
    return found


def _row(provider: str, name: str, listed_by: Sequence[str], facts: ModelFacts) -> dict[str, Any]:
    price = facts.price
    return {
        "id": f"{provider}/{name}",
        "provider": provider,
        "model": name,
        "context_window": facts.context_window,
        "max_output": facts.max_output,
        "price": None if price is None else _dollars(price),
        "listed_by": list(listed_by),
        "sources": dict(facts.sources),
    }


def _dollars(price: Price) -> dict[str, float | None]:
    return {name: getattr(price, name) for name in ("input", "output", "cache_read", "cache_write")}


def _print(rows: Sequence[dict[str, Any]], quiet: bool) -> None:
    head = ["model", "context", "max output", "$/M in", "$/M out", "source"]
    shown = []
    for row in rows:
        price = row["price"] or {"input": None, "output": None}
        numbers = (row["context_window"], row["max_output"], price["input"], price["output"])
        sources = dict.fromkeys([*row["listed_by"], *row["sources"].values()])
        shown.append([row["id"], *(_shown(number) for number in numbers), ", ".join(sources)])
    print_table(head, shown)
    if rows and not quiet and find_spec("genai_prices") is None and any(row["price"] is None for row in rows):
        complain("prices and context windows of common models come with pip install 'dsh-harness[prices]'")


def _shown(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:g}" if isinstance(number, float) else str(number)
