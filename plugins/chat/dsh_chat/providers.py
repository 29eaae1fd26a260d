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
from dsh.structure import did_you_mean
from dsh_chat.dialect import Dialect, Protocol, SendReasoning, dialect_of
from dsh_chat.profiles import PROFILES, Profile

__all__ = [
    "Provider",
    "ProviderSettings",
    "Switches",
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
        title: for people.
        key_envs: variables in which a key is looked for.
        needs_key: whether nothing can be asked without one.
        keys_at: the page on which a person makes a key; empty where that is not known.
        models_path: where the service lists its models, behind the base URL.
        absent: what to do when nothing listens there; None for services that are not the person's to start.
        ca_bundle: whose certificates are trusted besides the usual.
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
    title: str = ""
    key_envs: tuple[str, ...] = ()
    needs_key: bool = False
    keys_at: str = ""
    models_path: str = "/models"
    absent: str | None = None
    ca_bundle: str | None = None


@frozen(kw_only=True)
class Switches:
    """What a table may say of how a service, or one of its models, is spoken to; `Dialect` says what it means."""

    dialect: Protocol | None = None
    max_tokens_field: str | None = None
    send_reasoning: SendReasoning | None = None
    reasoning_field: str | None = None
    empty_reasoning: bool | None = None
    reasoning_fields: tuple[str, ...] | None = None
    sealed_field: str | None = None
    system_role: Literal["system", "developer", "user"] | None = None
    stream_usage: bool | None = None
    parallel_tool_calls: bool | None = None
    tool_id_length: int | None = None
    after_results: str | None = None
    unsupported: tuple[Literal["temperature", "stop", "max_tokens"], ...] | None = None
    thinking: Literal["enabled", "disabled"] | None = None
    reasoning_effort: str | None = None
    effort_field: str | None = None
    efforts: dict[str, Any] | None = None
    cached_fields: tuple[str, ...] | None = None
    cache_write_fields: tuple[str, ...] | None = None
    reasoning_token_fields: tuple[str, ...] | None = None
    reasoning_apart: bool | None = None
    extra_body: dict[str, Any] | None = None
    first_byte: float | None = None
    between: float | None = None
    max_answer_bytes: int | None = None

    def given(self) -> dict[str, Any]:
        """Those that are set."""
        found = {name: getattr(self, name) for name in fields_dict(Switches)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value is not None
        }


@frozen(kw_only=True)
class ProviderSettings(Switches):
    """A table ``[providers.NAME]``; what is left out is the built-in service's own, or `Dialect`'s default.

    Attributes:
        base_url: up to and without ``/chat/completions``.
        key_env: the variable that holds the key, which `dsh auth set` keeps under that name.
        headers: further headers of every request.
        models: names that are known to work.
        default_model: what to ask when nobody names a model; the first of `models`, if not given.
        models_path: where the service lists its models, behind the base URL.
        connect_timeout: seconds until a connection stands.
        variants: switches of some models only, by a pattern of their names, such as ``gpt-5*``; the first one counts.
    """

    base_url: str | None = None
    key_env: str | None = None
    headers: dict[str, str] = field(factory=dict, repr=False)
    models: tuple[str, ...] = ()
    default_model: str | None = None
    models_path: str | None = None
    connect_timeout: float = field(default=20.0, validator=gt(0))
    variants: dict[str, Switches] | None = None

    def switches(self, provider: str, base: Dialect) -> Dialect:
        """`base` with the switches that this table sets."""
        values = self.given()
        if self.variants is not None:
            values["variants"] = {pattern: own.given() for pattern, own in self.variants.items()}
        return dialect_of(provider, values, base)


def built_in(name: str, environ: Mapping[str, str], settings: ProviderSettings | None = None) -> Provider:
    """The service that has the profile `name`, as the environment and its table have it.

    Raises:
        ConfigError: the table or the variable for the base URL is wrong.
    """
    profile = PROFILES[name]
    table = settings or ProviderSettings()
    moved = environ.get(profile.url_env, "").strip()
    if table.base_url:
        url = check_url(f"providers.{name}.base_url", table.base_url, *_ENDINGS)
    elif moved:
        url = check_url(profile.url_env, moved, *_ENDINGS)
    else:
        url = profile.base_url
    elsewhere = url != profile.base_url
    variables = (table.key_env,) if table.key_env else profile.key_envs
    variable = next((each for each in variables if environ.get(each, "").strip()), variables[0])
    given = bool(environ.get(variable, "").strip())
    key, problem = check_key(variable, environ.get(variable))
    needs_key = bool(table.key_env) or (profile.needs_key and not elsewhere)
    if not given and not needs_key:
        problem = None
    dialect = profile.elsewhere if elsewhere and profile.elsewhere is not None else profile.dialect
    return Provider(
        name,
        url,
        key,
        variable,
        check_headers(f"providers.{name}", table.headers),
        table.models or profile.models,
        table.default_model,
        table.switches(name, dialect),
        connect_timeout=table.connect_timeout,
        # A server on this machine may run or not: it is asked when somebody names it.
        configured=problem is None and (profile.start is None or bool(table.default_model or table.models)),
        problem=problem,
        broken=problem is not None and given and profile.start is None,
        title=profile.title,
        key_envs=variables,
        needs_key=needs_key,
        keys_at="" if elsewhere else profile.keys_at,
        models_path=table.models_path or profile.models_path,
        absent=_absent(name, profile),
    )


def _absent(name: str, profile: Profile) -> str | None:
    if profile.start is None:
        return None
    return f"start it ({profile.start}), or say where it is with {profile.url_env} or providers.{name}.base_url"


def configured(name: str, settings: ProviderSettings, environ: Mapping[str, str]) -> Provider:
    """The service of a table ``[providers.NAME]``.

    Raises:
        ConfigError: the table is wrong; the message names the key.
    """
    if name in PROFILES:
        return built_in(name, environ, settings)
    check_name(name)
    if not settings.base_url:
        raise ConfigError(
            f"[providers.{name}] has no base_url; add one, such as https://host/v1{did_you_mean(name, PROFILES)}"
        )
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
        key_envs=(settings.key_env,) if settings.key_env else (),
        needs_key=bool(settings.key_env),
        models_path=settings.models_path or "/models",
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
    variables = {name for profile in PROFILES.values() for name in profile.key_envs} | {
        table.key_env for table in tables.values() if table.key_env
    }
    found = {name: environ[name].strip() for name in sorted(variables) if environ.get(name, "").strip()}
    for provider, table in tables.items():
        found.update(secret_headers(f"providers.{provider}", table.headers))
    return found
