"""Everybody's settings, read as a harness opens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .credentials import read_credentials
from .errors import ConfigError, all_mistakes
from .llm.http.settings import NetworkConfig
from .secrets import CleanEnvironment, SecretsConfig

if TYPE_CHECKING:
    from .harness import Harness

__all__ = ["configure"]


def configure(harness: Harness) -> None:
    """Have everybody read their settings; of mistakes in them, all are told at once.

    Raises:
        ConfigError: settings are wrong, or nobody reads them.
        BaseException: what else plugins raised.
    """
    mistakes: list[ConfigError] = []
    harness.plugins.register(CleanEnvironment(harness.secrets), "dsh.secrets")
    for step in (_read_secrets, _read_credentials, _read_network, _ask_plugins, _refuse_unclaimed):
        try:
            step(harness)
        except ConfigError as error:
            mistakes.append(error)
        except ExceptionGroup as group:
            wrong, other = group.split(ConfigError)
            if wrong is None or other is not None:
                raise
            mistakes += _leaves(wrong)
    if mistakes:
        raise all_mistakes(mistakes)


def _read_secrets(harness: Harness) -> None:
    harness.secrets.config = harness.config.section("secrets", SecretsConfig)


def _read_credentials(harness: Harness) -> None:
    harness.credentials = kept = read_credentials(harness.home)
    for name, value in kept.keys.items():
        harness.secrets.add(value, name)
    if kept.open_to:
        harness.warn(f"{kept.open_to} may read the keys in {kept.path}; chmod 600 {kept.path}")


def _read_network(harness: Harness) -> None:
    """Not of one plugin: all that ask services over HTTP read it."""
    harness.config.section("network", NetworkConfig)


def _ask_plugins(harness: Harness) -> None:
    harness.hook.dsh_configure(harness=harness)


def _refuse_unclaimed(harness: Harness) -> None:
    harness.config.refuse_unclaimed({*harness.plugins.blocked, *harness.plugins.failed})


def _leaves(group: ExceptionGroup[ConfigError]) -> Iterator[ConfigError]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
