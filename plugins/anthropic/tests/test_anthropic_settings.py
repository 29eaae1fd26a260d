"""Services: the built-in one, those of tables, their keys, and who may see them."""

from __future__ import annotations

from typing import Any

import dsh_anthropic
import pytest
from dsh_anthropic.adapter import AnthropicAdapter
from dsh_anthropic.settings import BASE_URL, KEY_ENV, AnthropicConfig, ServiceSettings, providers, secret_values

from dsh import Config, ConfigError, LlmError, Message, Request, open_harness

KEY = "sk-ant-abcdefgh12345678"


@pytest.fixture(autouse=True)
def _no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no service."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def only(environ: dict[str, str], **settings: Any) -> AnthropicAdapter:
    (provider,) = providers(AnthropicConfig(**settings), environ)
    return AnthropicAdapter(provider)


def test_key_is_all_that_is_needed() -> None:
    adapter = only({"ANTHROPIC_API_KEY": f" {KEY}\n"})
    assert (adapter.configured, adapter.broken) == (True, None)
    assert adapter.provider.place.base_url == "https://api.anthropic.com"
    assert adapter.provider.place.api_key == KEY
    assert adapter.default_model == adapter.models[0]


def test_without_a_key_it_is_not_configured() -> None:
    adapter = only({})
    assert (adapter.configured, adapter.broken) == (False, None)
    assert "ANTHROPIC_API_KEY" in (adapter.provider.place.problem or "")


def test_key_that_cannot_be_sent_is_broken() -> None:
    adapter = only({"ANTHROPIC_API_KEY": "two words"})
    assert not adapter.configured
    assert "ANTHROPIC_API_KEY" in (adapter.broken or "")
    assert "two words" not in (adapter.broken or "")


@pytest.mark.parametrize("url", ["http://host", "http://host/", "http://host/v1", "http://host/v1/messages"])
def test_moved_elsewhere_it_needs_no_key(url: str) -> None:
    adapter = only({"ANTHROPIC_BASE_URL": url})
    assert adapter.configured
    assert (adapter.provider.place.base_url, adapter.provider.place.api_key) == ("http://host", None)


def test_table_wins_over_the_environment() -> None:
    settings = {"base_url": "http://table", "key_env": "K", "models": ("a", "b"), "default_model": "b"}
    adapter = only({"ANTHROPIC_BASE_URL": "http://moved", "K": KEY, "ANTHROPIC_API_KEY": "other-key"}, **settings)
    assert adapter.provider.place.base_url == "http://table"
    assert adapter.provider.place.api_key == KEY
    assert (adapter.models, adapter.default_model) == (("a", "b"), "b")


def test_further_services() -> None:
    house = ServiceSettings(base_url="http://house/anthropic", models=("small",), beta=("one-1", "two-2"))
    _, found = providers(AnthropicConfig(services={"house": house}), {})
    assert (found.name, found.configured, found.models) == ("house", True, ("small",))
    assert found.place.own_headers["anthropic-beta"] == "one-1,two-2"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("house", {}, r"\[anthropic.services.house\] has no base_url"),
        ("a/b", {"base_url": "http://x"}, "cannot name a provider"),
        ("anthropic", {"base_url": "http://x"}, r"write its settings there"),
        ("house", {"base_url": "house"}, "anthropic.services.house.base_url"),
        ("house", {"base_url": "http://x", "headers": {"Host": "a"}}, "anthropic.services.house.headers"),
        ("house", {"base_url": "http://x", "beta": ("a\nb",)}, "anthropic.services.house.headers"),
    ],
)
def test_table_that_is_wrong(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        providers(AnthropicConfig(services={name: ServiceSettings(**settings)}), {})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"thinking": "much"}, "anthropic.thinking"),
        ({"thinking_budget": 10}, "thinking_budget"),
        ({"extra_body": {"model": "x"}}, "extra_body cannot set 'model'"),
        ({"modells": ["x"]}, "did you mean models"),
        ({"services": {"house": {"cache": "2h"}}}, "anthropic.services.house.cache"),
    ],
)
async def test_setting_that_is_wrong_is_named(table: dict[str, Any], words: str) -> None:
    config = Config(tables={"anthropic": table})
    with pytest.raises(ConfigError, match=words):
        async with open_harness(config, plugins={"anthropic": dsh_anthropic}, discover=False):
            pass


async def test_plugin_serves_all_of_them_and_hides_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("HOUSE_KEY", "house-key-123456")
    house = {"base_url": "http://house", "key_env": "HOUSE_KEY", "models": ["small"]}
    config = Config(tables={"anthropic": {"max_tokens": 100, "services": {"house": house}}})
    async with open_harness(config, plugins={"anthropic": dsh_anthropic}, discover=False) as harness:
        assert list(harness.llm.adapters) == ["anthropic", "house"]
        assert "house/small" in harness.llm.models()
        assert harness.secrets.mask(f"{KEY} house-key-123456").isascii()
        assert KEY not in harness.secrets.mask(KEY)
        assert "house-key" not in harness.secrets.mask("house-key-123456")


def test_secret_values_are_keys_and_headers_like_them() -> None:
    house = ServiceSettings(base_url="http://x", key_env="K", headers={"X-Token": "t", "X-Team": "b"})
    assert secret_values(AnthropicConfig(services={"house": house}), {"K": KEY}) == {
        "K": KEY,
        "anthropic.services.house.headers.X-Token": "t",
    }


async def test_without_a_key_a_request_says_what_to_do() -> None:
    with pytest.raises(LlmError, match="set ANTHROPIC_API_KEY") as caught:
        await anext(only({}).stream(Request("anthropic/m", (Message("user", "hi"),)), "m"))
    assert caught.value.code == "AUTH"


def test_services_can_be_read_as_data() -> None:
    config = AnthropicConfig(services={"house": ServiceSettings(base_url="http://house", key_env="HOUSE_KEY")})
    known, house = providers(config, {}, ca_bundle="/ca.pem")
    assert (known.title, known.base_url, known.key_envs) == ("Anthropic", BASE_URL, (KEY_ENV,))
    assert known.needs_key
    assert (house.title, house.base_url, house.key_envs) == ("house", "http://house", ("HOUSE_KEY",))
    assert {known.models_path, house.models_path} == {"/v1/models?limit=1000"}
    assert {known.place.ca_bundle, house.place.ca_bundle} == {"/ca.pem"}
    (moved,) = providers(AnthropicConfig(base_url="http://elsewhere"), {})
    assert not moved.needs_key
