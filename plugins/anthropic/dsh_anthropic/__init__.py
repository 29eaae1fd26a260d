"""Models behind Anthropic's Messages API, and behind services that speak as it does.

``anthropic`` needs only its key, in ``ANTHROPIC_API_KEY``; any other service is a table::

    [anthropic.services.house]
    base_url = "https://models.house"
    key_env = "HOUSE_KEY"
    models = ["claude-like-1"]
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh.harness import Harness
    from dsh.llm.adapter import Adapters
    from dsh.llm.http.settings import NetworkConfig
    from dsh.secrets import Secrets
    from dsh_anthropic.settings import AnthropicConfig

__all__: list[str] = []


@hookimpl
def dsh_configure(harness: Harness) -> None:
    from dsh_anthropic.settings import secret_values

    # The hook for secrets does not know the tables, in which further variables are named.
    for name, value in secret_values(_config(harness), harness.credentials.environ).items():
        harness.secrets.add(value, name)


@hookimpl
def secrets_register(secrets: Secrets) -> None:
    from dsh_anthropic.settings import AnthropicConfig, secret_values

    for name, value in secret_values(AnthropicConfig(), os.environ).items():
        secrets.add(value, name)


@hookimpl
def llm_adapters(harness: Harness, adapters: Adapters) -> None:
    from dsh_anthropic.adapter import AnthropicAdapter
    from dsh_anthropic.settings import providers

    environ = harness.credentials.environ
    for provider in providers(_config(harness), environ, ca_bundle=_network(harness).ca_bundle):
        adapters.add(provider.name, AnthropicAdapter(provider))


def _config(harness: Harness) -> AnthropicConfig:
    from dsh_anthropic.settings import AnthropicConfig

    return harness.config.section("anthropic", AnthropicConfig)


def _network(harness: Harness) -> NetworkConfig:
    from dsh.llm.http.settings import NetworkConfig

    return harness.config.section("network", NetworkConfig)
