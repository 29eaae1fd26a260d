"""Services as data: where they are, which key they take, what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen
from attrs.validators import ge, gt, optional

from dsh.errors import ConfigError
from dsh.llm.http.keys import check_headers, check_key, check_name, check_url, secret_headers
from dsh.llm.http.limits import MAX_ANSWER
from dsh.llm.http.service import Place

__all__ = ["AnthropicConfig", "Provider", "ServiceSettings", "providers", "secret_values"]

NAME = "anthropic"
BASE_URL = "https://api.anthropic.com"
KEY_ENV = "ANTHROPIC_API_KEY"
KEYS_AT = "https://console.anthropic.com/settings/keys"
URL_ENV = "ANTHROPIC_BASE_URL"
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-haiku-4-5")
_VERSION = "2023-06-01"
_RESERVED = ("max_tokens", "messages", "model", "stream", "system", "tools")
_MOST_OUTPUT = (
    (re.compile(r"claude-3-5-"), 8_192),
    (re.compile(r"claude-3-(haiku|opus|sonnet)"), 4_096),
    (re.compile(r"claude-opus-4(-0|-1|-20\d{6})?(-20\d{6})?$"), 32_000),
    (re.compile(r"claude-"), 64_000),
)
_MOST_OUTPUT_ELSEWHERE = 32_000


def _extra_body(value: dict[str, Any]) -> dict[str, Any]:
    for name in _RESERVED:
        if name in value:
            raise ConfigError(f"extra_body cannot set {name!r}, which dsh writes itself; remove it")
    return value


@frozen(kw_only=True)
class ServiceSettings:
    """A table ``[anthropic.services.NAME]``.

    Attributes:
        base_url: up to and without ``/v1/messages``.
        key_env: the variable that holds the key.
        headers: further headers of every request.
        models: names that are known to work.
        default_model: what to ask when nobody names a model; the first of `models`, if not given.
        max_tokens: the limit of an answer where a request sets none; else what the model can do.
        thinking: how the model thinks; its own way, if not set.
        thinking_budget: tokens for thoughts, on models that take a budget.
        effort: how much the model does for an answer.
        cache: how long the service keeps what was sent.
        beta: names of features that are not for everybody yet.
        server_tools: tools that the service runs itself, as it describes them.
        pauses: how often an answer that the service pauses is taken up again.
        extra_body: more fields for the body of every request.
        connect_timeout: seconds until a connection stands.
        first_byte: seconds until an answer begins.
        between: seconds until more of it comes.
        max_answer_bytes: how much the service may send for one answer.
    """

    base_url: str | None = None
    key_env: str | None = None
    headers: dict[str, str] = field(factory=dict, repr=False)
    models: tuple[str, ...] = ()
    default_model: str | None = None
    max_tokens: int | None = field(default=None, validator=optional(gt(0)))
    thinking: Literal["adaptive", "disabled"] | None = None
    thinking_budget: int | None = field(default=None, validator=optional(ge(1024)))
    effort: str | None = None
    cache: Literal["5m", "1h", "off"] = "5m"
    beta: tuple[str, ...] = ()
    server_tools: tuple[dict[str, Any], ...] = ()
    pauses: int = field(default=10, validator=ge(0))
    extra_body: dict[str, Any] = field(factory=dict, converter=_extra_body)
    connect_timeout: float = field(default=20.0, validator=gt(0))
    first_byte: float = field(default=600.0, validator=gt(0))
    between: float = field(default=300.0, validator=gt(0))
    max_answer_bytes: int = field(default=MAX_ANSWER, validator=gt(0))

    def limit(self, model: str) -> int:
        """The limit of an answer of `model`, in tokens: the service demands one."""
        if self.max_tokens is not None:
            return self.max_tokens
        return next((most for name, most in _MOST_OUTPUT if name.search(model)), _MOST_OUTPUT_ELSEWHERE)


@frozen(kw_only=True)
class AnthropicConfig(ServiceSettings):
    """The table ``[anthropic]``: the settings of ``anthropic`` itself, and further services by name.

    Attributes:
        services: further services that speak as it does.
    """

    services: dict[str, ServiceSettings] = field(factory=dict)


@frozen
class Provider:
    """A service that can be asked.

    Attributes:
        models: names that are known to work; the first is the default, unless the settings name one.
        configured: whether there is reason to believe that it can be asked.
        broken: what is wrong with the key that it was given.
    """

    place: Place
    settings: ServiceSettings = field(factory=ServiceSettings)
    models: tuple[str, ...] = ()
    configured: bool = True
    broken: str | None = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def title(self) -> str:
        """For people."""
        return "Anthropic" if self.name == NAME else self.name

    @property
    def base_url(self) -> str | None:
        return self.place.base_url

    @property
    def key_envs(self) -> tuple[str, ...]:
        """Variables in which a key is looked for."""
        return (self.place.key_env,) if self.place.key_env else ()

    @property
    def needs_key(self) -> bool:
        """Whether nothing can be asked without a key."""
        return self.base_url == BASE_URL or bool(self.settings.key_env)

    @property
    def keys_at(self) -> str:
        """The page on which a person makes a key; empty where that is not known."""
        return KEYS_AT if self.base_url == BASE_URL else ""

    @property
    def models_path(self) -> str:
        """Where the service lists its models, behind the base URL."""
        return "/v1/models?limit=1000"


def providers(config: AnthropicConfig, environ: Mapping[str, str], *, ca_bundle: str | None = None) -> list[Provider]:
    """``anthropic`` and the services of the configuration.

    Args:
        ca_bundle: whose certificates are trusted besides the usual, as in `NetworkConfig`.

    Raises:
        ConfigError: a table or the variable for the base URL is wrong; the message names it.
    """
    found = _providers(config, environ)
    return [evolve(each, place=evolve(each.place, ca_bundle=ca_bundle)) for each in found] if ca_bundle else found


def _providers(config: AnthropicConfig, environ: Mapping[str, str]) -> list[Provider]:
    found = [_anthropic(config, environ)]
    for name, settings in config.services.items():
        check_name(name)
        if name == NAME:
            raise ConfigError(f"[anthropic.services.{NAME}] is [{NAME}] itself; write its settings there")
        table = f"anthropic.services.{name}"
        if not settings.base_url:
            raise ConfigError(f"[{table}] has no base_url; add one, such as https://host")
        url = _url(f"{table}.base_url", settings.base_url)
        key, problem = check_key(settings.key_env, environ.get(settings.key_env)) if settings.key_env else (None, None)
        place = _place(name, table, url, key, settings.key_env, settings, problem)
        found.append(Provider(place, settings, settings.models, problem is None))
    return found


def _anthropic(config: AnthropicConfig, environ: Mapping[str, str]) -> Provider:
    moved = environ.get(URL_ENV, "").strip()
    if config.base_url:
        url = _url(f"{NAME}.base_url", config.base_url)
    elif moved:
        url = _url(URL_ENV, moved)
    else:
        url = BASE_URL
    variable = config.key_env or KEY_ENV
    given = environ.get(variable, "").strip()
    key, problem = check_key(variable, given)
    if url != BASE_URL and not config.key_env and not given:
        # Who moved the service elsewhere may have no key for it.
        problem = None
    place = _place(NAME, NAME, url, key, variable, config, problem)
    return Provider(place, config, config.models or MODELS, problem is None, problem if given else None)


def _url(what: str, url: str) -> str:
    return check_url(what, url, "/messages", "/v1")


def _place(
    name: str,
    table: str,
    url: str,
    key: str | None,
    key_env: str | None,
    settings: ServiceSettings,
    problem: str | None,
) -> Place:
    own = {"anthropic-version": _VERSION}
    if settings.beta:
        own["anthropic-beta"] = ",".join(check_headers(table, {"beta": name})["beta"] for name in settings.beta)
    return Place(
        name,
        "/v1/messages",
        url,
        key,
        key_env,
        key_header="x-api-key",
        headers=check_headers(table, settings.headers),
        own_headers=own,
        connect_timeout=settings.connect_timeout,
        first_byte=settings.first_byte,
        between=settings.between,
        max_answer_bytes=settings.max_answer_bytes,
        problem=problem,
    )


def secret_values(config: AnthropicConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Everything that must not be shown, by where it stands: keys, and headers that sound like them."""
    tables: dict[str, ServiceSettings] = {NAME: config}
    tables |= {f"{NAME}.services.{name}": settings for name, settings in config.services.items()}
    variables = {KEY_ENV} | {table.key_env for table in tables.values() if table.key_env}
    found = {name: environ[name].strip() for name in sorted(variables) if environ.get(name, "").strip()}
    for table, settings in tables.items():
        found.update(secret_headers(table, settings.headers))
    return found
