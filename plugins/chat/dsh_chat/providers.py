"""Services as data: where they are, how they want to be spoken to, which key they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, fields_dict, frozen
from attrs.validators import gt

from dsh.errors import ConfigError
from dsh.jsonvalue import Json
from dsh.llm.http.keys import check_headers, check_key, check_name, check_url, secret_headers
from dsh.llm.http.service import Connect
from dsh_chat.dialect import Dialect, Protocol, SendReasoning, dialect_of

__all__ = [
    "BUILT_IN",
    "BuiltIn",
    "Provider",
    "ProviderSettings",
    "built_in",
    "configured",
    "offered",
    "secret_values",
]

_ENDINGS = ("/chat/completions", "/responses")


@frozen
class Provider:
    """A service that can be asked.

    Attributes:
        base_url: up to and without ``/chat/completions``; None if `connect` tells it.
        key_env: the variable that holds the key, for messages.
        headers: further headers; like the key, they are never shown.
        models: names that are known to work; the first is the default unless `default_model` is given.
        connect: gives base URL and key of a service that has to be started first.
        connect_timeout: seconds.
        configured: whether there is reason to believe that it can be asked.
        problem: why it cannot be, in words for the person; None when it can.
        broken: a key is there and cannot be used, which is a mistake and no choice.
    """

    name: str
    base_url: str | None
    api_key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    models: tuple[str, ...] = ()
    default_model: str | None = None
    dialect: Dialect = field(factory=Dialect)
    connect: Connect | None = field(default=None, repr=False)
    connect_timeout: float = 20.0
    configured: bool = True
    problem: str | None = None
    broken: bool = False


@frozen
class BuiltIn:
    """A service that needs no table in the configuration.

    Attributes:
        url_env: the variable that moves it elsewhere.
        elsewhere: how to speak to what is there; copies know less than the original.
    """

    base_url: str
    key_env: str
    url_env: str
    models: tuple[str, ...]
    dialect: Dialect
    elsewhere: Dialect


_DEEPSEEK = Dialect(send_reasoning="always")

BUILT_IN: Mapping[str, BuiltIn] = {
    "deepseek": BuiltIn(
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        ("deepseek-v4-flash", "deepseek-v4-pro"),
        _DEEPSEEK,
        _DEEPSEEK,
    ),
    "openai": BuiltIn(
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        ("gpt-5-mini", "gpt-5.4", "gpt-5-nano", "gpt-4.1-nano", "gpt-4o-mini"),
        Dialect(max_tokens_field="max_completion_tokens"),
        Dialect(),
    ),
}


@frozen(kw_only=True)
class ProviderSettings:
    """A table ``[providers.NAME]``; what is left out is the built-in service's own, or `Dialect`'s default."""

    base_url: str | None = None
    key_env: str | None = None
    headers: dict[str, str] = field(factory=dict, repr=False)
    models: tuple[str, ...] = ()
    default_model: str | None = None
    connect_timeout: float = field(default=20.0, validator=gt(0))
    dialect: Protocol | None = None
    max_tokens_field: str | None = None
    send_reasoning: SendReasoning | None = None
    reasoning_field: str | None = None
    system_role: str | None = None
    stream_usage: bool | None = None
    thinking: Literal["enabled", "disabled"] | None = None
    reasoning_effort: str | None = None
    extra_body: dict[str, Any] | None = None
    first_byte: float | None = None
    between: float | None = None
    max_answer_bytes: int | None = None

    def switches(self, provider: str, base: Dialect) -> Dialect:
        """`base` with the switches that this table sets."""
        given = {name: getattr(self, name) for name in fields_dict(Dialect)}
        return dialect_of(provider, {name: value for name, value in given.items() if value is not None}, base)


def built_in(name: str, environ: Mapping[str, str], settings: ProviderSettings | None = None) -> Provider:
    """The built-in service `name`, as the environment and its table have it.

    Raises:
        ConfigError: the table or the variable for the base URL is wrong.
    """
    own = BUILT_IN[name]
    table = settings or ProviderSettings()
    moved = environ.get(own.url_env, "").strip()
    if table.base_url:
        url = check_url(f"providers.{name}.base_url", table.base_url, *_ENDINGS)
    elif moved:
        url = check_url(own.url_env, moved, *_ENDINGS)
    else:
        url = own.base_url
    elsewhere = url != own.base_url
    variable = table.key_env or own.key_env
    key, problem = check_key(variable, environ.get(variable))
    if elsewhere and not table.key_env and not environ.get(variable, "").strip():
        problem = None
    return Provider(
        name,
        url,
        key,
        variable,
        check_headers(f"providers.{name}", table.headers),
        table.models or own.models,
        table.default_model,
        table.switches(name, own.elsewhere if elsewhere else own.dialect),
        connect_timeout=table.connect_timeout,
        configured=problem is None,
        problem=problem,
        broken=problem is not None and bool(environ.get(variable, "").strip()),
    )


def configured(name: str, settings: ProviderSettings, environ: Mapping[str, str]) -> Provider:
    """The service of a table ``[providers.NAME]``.

    Raises:
        ConfigError: the table is wrong; the message names the key.
    """
    if name in BUILT_IN:
        return built_in(name, environ, settings)
    check_name(name)
    if not settings.base_url:
        raise ConfigError(f"[providers.{name}] has no base_url; add one, such as https://host/v1")
    key: str | None = None
    problem: str | None = None
    if settings.key_env:
        key, problem = check_key(settings.key_env, environ.get(settings.key_env))
    return Provider(
        name,
        check_url(f"providers.{name}.base_url", settings.base_url, *_ENDINGS),
        key,
        settings.key_env,
        check_headers(f"providers.{name}", settings.headers),
        settings.models,
        settings.default_model,
        settings.switches(name, Dialect()),
        connect_timeout=settings.connect_timeout,
        configured=problem is None,
        problem=problem,
    )


def offered(
    name: str,
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str],
    dialect: Mapping[str, Json],
    models: tuple[str, ...],
    connect: Connect | None,
    is_configured: bool,
) -> Provider:
    """The service that a plugin brings.

    Raises:
        ConfigError: an argument is wrong.
    """
    check_name(name)
    if base_url is None and connect is None:
        raise ConfigError(f"the provider {name!r} has neither base_url nor connect; give one of them")
    key, problem = (None, None) if api_key is None else check_key(f"the api_key of {name}", api_key)
    if problem is not None:
        raise ConfigError(problem)
    return Provider(
        name,
        None if base_url is None else check_url(f"the base_url of {name}", base_url, *_ENDINGS),
        key,
        None,
        check_headers(f"providers.{name}", headers),
        models,
        dialect=dialect_of(name, dialect, Dialect()),
        connect=connect,
        configured=is_configured,
    )


def secret_values(tables: Mapping[str, ProviderSettings], environ: Mapping[str, str]) -> dict[str, str]:
    """Everything that must not be shown, by where it stands: keys, and headers that sound like them."""
    variables = {own.key_env for own in BUILT_IN.values()} | {
        table.key_env for table in tables.values() if table.key_env
    }
    found = {name: environ[name].strip() for name in sorted(variables) if environ.get(name, "").strip()}
    for provider, table in tables.items():
        found.update(secret_headers(f"providers.{provider}", table.headers))
    return found
