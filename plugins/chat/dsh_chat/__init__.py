"""Models behind chat-completions services: DeepSeek, OpenAI and everything that speaks as they do.

Services that have a profile (`dsh_chat.profiles`) need only their key; any other is a table::

    [providers.house]
    base_url = "https://models.house/v1"
    key_env = "HOUSE_API_KEY"
    models = ["small"]

A plugin that brings a service of its own implements ``chat_providers``::

    @hookimpl(optionalhook=True)
    def chat_providers(harness, providers):
        providers.add("house", base_url="http://models.local/v1", models=["small"])
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, cast

from attrs import evolve

from dsh import hookimpl, hookspec
from dsh.hooks.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh.harness import Harness
    from dsh.hooks import PluginManager
    from dsh.jsonvalue import Json
    from dsh.llm.adapter import Adapters
    from dsh.llm.http.service import Connect
    from dsh.llm.http.settings import NetworkConfig
    from dsh.secrets import Secrets
    from dsh_chat.providers import Provider, ProviderSettings

__all__ = ["ChatHooks", "Providers"]


class Providers(Collector[Any]):
    """The collector of ``chat_providers``."""

    def add(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] = {},
        dialect: Mapping[str, Json] = {},
        models: Sequence[str] = (),
        connect: Connect | None = None,
        configured: bool = True,
    ) -> None:
        """Serve all models named ``name/...`` by a chat-completions service.

        A table ``[providers.NAME]`` with a ``base_url`` wins over this.

        Args:
            base_url: up to and without ``/chat/completions``; not needed with `connect`.
            api_key: sent as a bearer token; None sends none.
            headers: further headers.
            dialect: switches, as a table of the configuration has them.
            models: names that are known to work; the first is the default.
            connect: for a server that must be started first: gives base URL and key.  It is awaited
                before a request until it has succeeded, and again when the server has gone.  It
                raises `DshError` or OSError; being cancelled, it leaves nothing half started.
            configured: whether it may be chosen when nobody named a model.

        Raises:
            ConfigError: an argument is wrong.
        """
        from dsh_chat.providers import offered

        self.collect(offered(name, base_url, api_key, headers, dialect, tuple(models), connect, configured))


class ChatHooks(Protocol):
    """The hooks of this plugin."""

    @hookspec(collect="providers")
    def chat_providers(self, harness: Harness, providers: Providers) -> None:
        """Called when a harness opens, for further chat-completions services.

        :param harness: the harness.
        :param providers: add services to it.

        Raising discards the collection and keeps the harness from opening.  Nothing can cancel it.
        Return None.
        """


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    manager.add_hookspecs(ChatHooks)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    from dsh_chat.providers import secret_values

    # The hook for secrets does not know the tables, in which further variables are named.
    for name, value in secret_values(_tables(harness), harness.credentials.environ).items():
        harness.secrets.add(value, name)


@hookimpl
def secrets_register(secrets: Secrets) -> None:
    from dsh_chat.providers import secret_values

    for name, value in secret_values({}, os.environ).items():
        secrets.add(value, name)


@hookimpl
def llm_adapters(harness: Harness, adapters: Adapters) -> None:
    from dsh_chat.adapter import ChatAdapter

    for provider in _providers(harness):
        adapters.add(provider.name, ChatAdapter(provider))


def _tables(harness: Harness) -> dict[str, ProviderSettings]:
    from dsh_chat.providers import ProviderSettings

    return harness.config.section("providers", dict[str, ProviderSettings])


def _providers(harness: Harness) -> list[Provider]:
    """Every service, each name once: tables before plugins before what is built in."""
    from dsh_chat.profiles import PROFILES
    from dsh_chat.providers import built_in, configured

    tables, environ = _tables(harness), harness.credentials.environ
    found = {name: built_in(name, environ) for name in PROFILES}
    providers = Providers()
    cast("ChatHooks", harness.hook).chat_providers(harness=harness, providers=providers)
    found.update({provider.name: provider for provider in providers})
    found.update({name: configured(name, table, environ) for name, table in tables.items()})
    ca_bundle = _network(harness).ca_bundle
    return [evolve(provider, ca_bundle=ca_bundle) for provider in found.values()]


def _network(harness: Harness) -> NetworkConfig:
    from dsh.llm.http.settings import NetworkConfig

    return harness.config.section("network", NetworkConfig)
