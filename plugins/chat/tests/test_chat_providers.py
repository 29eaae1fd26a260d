"""Services: built in, from tables, from plugins; their keys, and who may see them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

import dsh_chat
import pytest
from attrs import evolve
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.profiles import PROFILES
from dsh_chat.providers import ProviderSettings, built_in, configured, offered, secret_values

from dsh import Config, ConfigError, Harness, LlmError, Message, Request, hookimpl, open_harness

KEY = "sk-abcdefgh12345678"


@pytest.fixture(autouse=True)
def _no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no service."""
    variables = [variable for profile in PROFILES.values() for variable in (*profile.key_envs, profile.url_env)]
    for name in (*variables, "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def adapters(tables: Mapping[str, Any] | None = None, **plugins: object) -> tuple[Mapping[str, Any], Harness]:
    config = Config(tables={} if tables is None else {"providers": dict(tables)})
    async with open_harness(config, plugins={"chat": dsh_chat, **plugins}, discover=False) as harness:
        return harness.llm.adapters, harness


def test_deepseek_needs_only_its_key() -> None:
    provider = built_in("deepseek", {"DEEPSEEK_API_KEY": f" {KEY}\n"})
    assert (provider.base_url, provider.api_key) == ("https://api.deepseek.com", KEY)
    assert provider.models == ("deepseek-v4-flash", "deepseek-v4-pro")
    assert provider.dialect.send_reasoning == "always"
    assert provider.configured


@pytest.mark.parametrize("name", ["deepseek", "openai"])
async def test_missing_key_is_told_when_it_is_needed(name: str) -> None:
    adapter = ChatAdapter(built_in(name, {f"{name.upper()}_API_KEY": "  "}))
    assert not adapter.configured
    with pytest.raises(LlmError, match=f"{name.upper()}_API_KEY") as caught:
        await anext(adapter.stream(Request(f"{name}/m", (Message("user", "hi"),)), "m"))
    assert caught.value.code == "AUTH"


@pytest.mark.parametrize("name", ["deepseek", "openai"])
def test_service_that_was_moved_needs_no_key(name: str) -> None:
    moved = {f"{name.upper()}_BASE_URL": "http://127.0.0.1:8808/v1/"}
    provider = built_in(name, moved)
    assert (provider.base_url, provider.api_key, provider.configured) == ("http://127.0.0.1:8808/v1", None, True)
    assert built_in(name, {**moved, f"{name.upper()}_API_KEY": KEY}).api_key == KEY


def test_copies_of_openai_are_spoken_to_in_the_old_way() -> None:
    assert built_in("openai", {"OPENAI_API_KEY": KEY}).dialect.max_tokens_field == "max_completion_tokens"
    assert built_in("openai", {"OPENAI_BASE_URL": "http://x/v1"}).dialect.max_tokens_field == "max_tokens"


def test_address_may_be_copied_with_its_path() -> None:
    moved = built_in("openai", {"OPENAI_BASE_URL": "https://host/v1/chat/completions"})
    assert moved.base_url == "https://host/v1"


def test_table_of_a_service() -> None:
    settings = ProviderSettings(
        base_url="https://host/v1", key_env="HOUSE_KEY", models=("a", "b"), send_reasoning="tool-calls", first_byte=5.0
    )
    provider = configured("house", settings, {"HOUSE_KEY": KEY})
    assert (provider.api_key, provider.models) == (KEY, ("a", "b"))
    assert provider.dialect == Dialect(send_reasoning="tool-calls", first_byte=5.0)
    assert ChatAdapter(provider).default_model == "a"
    unset = configured("house", settings, {})
    assert not unset.configured
    assert "HOUSE_KEY" in (unset.problem or "")


def test_table_changes_a_service_that_is_built_in() -> None:
    settings = ProviderSettings(models=("new",), thinking="disabled")
    provider = configured("deepseek", settings, {"DEEPSEEK_API_KEY": KEY})
    assert provider.base_url == "https://api.deepseek.com"
    assert provider.models == ("new",)
    assert provider.dialect == evolve(PROFILES["deepseek"].dialect, thinking="disabled")


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("house", {}, "base_url"),
        ("a/b", {"base_url": "http://x"}, "slash"),
        ("house", {"base_url": "nowhere"}, "providers.house.base_url"),
        ("house", {"base_url": "http://x", "headers": {"X Y": "z"}}, "X Y"),
        ("house", {"base_url": "http://x", "headers": {"X": "a\nb"}}, "providers.house.headers.X"),
        ("house", {"base_url": "http://x", "headers": {"Host": "y"}}, "Host"),
        ("house", {"base_url": "http://x", "extra_body": {"messages": []}}, "messages"),
        ("house", {"base_url": "http://x", "between": 0.0}, "between"),
    ],
)
def test_tables_that_are_wrong(name: str, settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(name, ProviderSettings(**settings), {})
    assert word in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    settings = ProviderSettings(base_url="http://x", key_env="K", headers={"authorization": "Bearer other-secret"})
    provider = configured("house", settings, {"K": KEY})
    for thing in (settings, provider, ChatAdapter(provider)):
        assert KEY not in repr(thing)
        assert "other-secret" not in repr(thing)


def test_secret_values_are_keys_and_headers_like_them() -> None:
    tables = {"house": ProviderSettings(key_env="K", headers={"X-Api-Key": "abc-123-def", "X-Team": "blue"})}
    assert secret_values(tables, {"K": KEY, "OPENAI_API_KEY": "sk-open"}) == {
        "K": KEY,
        "OPENAI_API_KEY": "sk-open",
        "providers.house.headers.X-Api-Key": "abc-123-def",
    }


async def test_plugin_registers_adapters_and_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    monkeypatch.setenv("GROQ_KEY", "gsk-0123456789")
    table = {"base_url": "https://api.groq.example/openai/v1", "key_env": "GROQ_KEY", "models": ["oss"]}

    found, harness = await adapters({"groq": table})

    assert set(found) == set(PROFILES)
    assert [name for name, adapter in found.items() if adapter.configured] == ["deepseek", "groq"]
    assert found["groq"].models == ("oss",)
    shown = harness.secrets.mask(f"{KEY} gsk-0123456789")
    assert KEY not in shown
    assert "gsk" not in shown


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"base_ulr": "http://x"}, ["providers.house", "base_ulr", "base_url"]),
        ({"base_url": 7}, ["providers.house.base_url"]),
        ({"base_url": "http://x", "send_reasoning": "sometimes"}, ["providers.house.send_reasoning"]),
        ({"base_url": "http://x", "connect_timeout": 0}, ["providers.house", "connect_timeout"]),
        ({"base_url": "http://x", "models": "one"}, ["providers.house.models"]),
    ],
)
async def test_wrong_table_keeps_the_harness_from_opening(table: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        await adapters({"house": table})
    for word in words:
        assert word in str(caught.value)


async def test_plugin_may_bring_a_service_and_a_table_wins_over_it() -> None:
    class House:
        @hookimpl
        def chat_providers(self, harness: Harness, providers: dsh_chat.Providers) -> None:
            providers.add("house", base_url="http://house/v1", models=["m"], dialect={"send_reasoning": "always"})
            providers.add("cellar", base_url="http://cellar/v1", configured=False)

    found, _ = await adapters(None, house=House())
    assert found["house"].provider.base_url == "http://house/v1"
    assert found["house"].provider.dialect.send_reasoning == "always"
    assert (found["house"].configured, found["cellar"].configured) == (True, False)

    found, _ = await adapters({"house": {"base_url": "http://other/v1"}}, house=House())
    assert found["house"].provider.base_url == "http://other/v1"


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "house"},
        {"name": "a b", "base_url": "http://x"},
        {"name": "house", "base_url": "http://x", "dialect": {"sned_reasoning": "never"}},
        {"name": "house", "base_url": "http://x", "dialect": {"send_reasoning": "often"}},
        {"name": "house", "base_url": "http://x", "api_key": "two words"},
    ],
)
def test_services_that_plugins_cannot_bring(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        dsh_chat.Providers().add(**arguments)


async def test_key_is_in_no_log_and_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    adapter = ChatAdapter(offered("house", "http://no-such-host.invalid", KEY, {}, {}, (), None, True))
    with pytest.raises(LlmError) as caught:
        await anext(adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"))
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in caplog.text


def test_a_key_that_cannot_be_sent_is_told_from_none_at_all() -> None:
    broken = ChatAdapter(built_in("deepseek", {"DEEPSEEK_API_KEY": "two words"}))
    missing = ChatAdapter(built_in("deepseek", {}))

    assert not broken.configured
    assert broken.broken is not None
    assert "DEEPSEEK_API_KEY" in broken.broken
    assert "two words" not in broken.broken
    assert not missing.configured
    assert missing.broken is None
