"""A small model on this machine: the provider ``local``.

``dsh -m local`` asks Qwen2.5-Coder-0.5B, which the extra ``dsh-harness[local]`` brings, through a
llama.cpp server that starts with the first request and ends with dsh.  The plugin ``chat`` does the
talking; this one says where to, and keeps prompts small enough for a small model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import evolve

from dsh import StashKey, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, CallConfig, Harness
    from dsh.checks import Checks
    from dsh.models import CollectedFacts
    from dsh.prompt import Assembly

    from .model import LocalModel

__all__ = ["available"]

PROVIDER = "local"
DIALECT: dict[str, Any] = {}

_models: WeakKeyDictionary[Harness, LocalModel] = WeakKeyDictionary()
_FILLED: StashKey[dict[str, Any]] = StashKey("settings that a local model was given")


def available() -> str | None:
    """The name of the packaged model, if its runtime and all of its weights are installed.

    Looks at packages' metadata only.
    """
    from .weights import PACKAGED, missing

    return None if missing() else f"{PROVIDER}/{PACKAGED.name}"


@hookimpl
def dsh_configure(harness: Harness) -> None:
    _model(harness)


@hookimpl
async def dsh_unconfigure(harness: Harness) -> None:
    model = _models.pop(harness, None)
    if model is not None:
        await model.close()


@hookimpl
async def dsh_doctor(harness: Harness, checks: Checks) -> None:
    """Say whether the embedded model is here, and whether its parts are joined."""
    from .doctor import check

    check(_model(harness), checks)


@hookimpl(optionalhook=True)
def chat_providers(harness: Harness, providers: Any) -> None:
    model = _model(harness)
    providers.add(PROVIDER, models=(model.name,), connect=model.connect, dialect=DIALECT, configured=model.configured)


@hookimpl
async def model_facts(harness: Harness, facts: CollectedFacts) -> None:
    """What runs on this machine costs nothing; how much it takes in is known where we serve it ourselves."""
    from dsh.models import ModelFacts, Price

    config = _model(harness).config
    window = config.context if config.server_url is None else None
    known = ModelFacts(context_window=window, price=Price(0.0, 0.0))
    facts.add(PROVIDER, lambda model: known if _is_local(model) else None)


@hookimpl(wrapper=True)
async def agent_request(agent: Agent) -> AsyncGenerator[CallConfig | None, CallConfig]:
    config = yield None
    yield await _local(agent, config) if _is_local(config.model) else _elsewhere(agent, config)


@hookimpl(wrapper=True)
def prompt_assemble(agent: Agent) -> Generator[None, Assembly, Assembly]:
    assembly = yield
    config = _model(agent.harness).config
    if not config.lean or not _is_local(_model_of(agent)):
        return assembly
    from .circles import enough
    from .lean import lean

    shown = lean(assembly, agent.options.tools or config.tools)
    # Without tools the template asks for an answer in plain text, which ends the circle.
    return evolve(shown, tools=()) if enough(reversed(agent.session.events)) else shown


def _model(harness: Harness) -> LocalModel:
    found = _models.get(harness)
    if found is None:
        from .model import LocalModel
        from .settings import LocalConfig

        found = _models[harness] = LocalModel(harness, harness.config.section(PROVIDER, LocalConfig))
    return found


def _is_local(model: str) -> bool:
    return model == PROVIDER or model.startswith(f"{PROVIDER}/")


def _model_of(agent: Agent) -> str:
    header = agent.session.request_header()
    return (header.config.model if header is not None else "") or agent.options.model or agent.harness.config.model


async def _local(agent: Agent, config: CallConfig) -> CallConfig:
    """`config` with the name that the server knows, and with our settings where nobody chose others."""
    model = _model(agent.harness)
    wanted = config.model.partition("/")[2] or model.name
    filled = {
        name: getattr(model.config, name) for name in ("temperature", "max_tokens") if getattr(config, name) is None
    }
    agent.stash.setdefault(_FILLED, {}).update(filled)
    return evolve(config, model=f"{PROVIDER}/{await model.served(wanted)}", **filled)


def _elsewhere(agent: Agent, config: CallConfig) -> CallConfig:
    """A conversation that left the local model takes none of its settings along."""
    filled = agent.stash.get(_FILLED, {})
    if not filled:
        return config
    del agent.stash[_FILLED]
    ours = [name for name, value in filled.items() if getattr(config, name) == value]
    return evolve(config, **{name: getattr(agent.options, name) for name in ours})
