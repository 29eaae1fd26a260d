"""The provider ``local`` in a harness."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dsh_local
import pytest
import trio
from attrs import evolve
from dsh_local.model import LocalModel
from dsh_local.settings import LocalConfig
from dsh_local.weights import Weights

from dsh import AgentOptions, CallConfig, Config, ConfigError, LlmError, ToolSchema, hookimpl, tool
from dsh.llm.scripted import ScriptedModel, text
from dsh.testing import memory_agent, memory_harness

NOTHING = Weights("fake", ("no-such-distribution",), 1, "0" * 64)


@tool
def read(file_path: str, offset: int = 1) -> str:
    """Read a text file, of which there is very much to say."""
    return "abc"


@tool
def tidy(file_path: str) -> str:
    """Tidy up a file."""
    return "done"


class Tools:
    @hookimpl
    def tools_register(self, tools: Any) -> None:
        tools.add(read, tidy)


class Switch:
    """Has every later request go to another model."""

    def __init__(self) -> None:
        self.model: str | None = None

    @hookimpl
    def agent_request(self, config: CallConfig) -> CallConfig | None:
        return None if self.model is None else evolve(config, model=self.model)


def local(**table: Any) -> Config:
    return Config(tables={"local": {"detect": False, **table}})


def plugins(**more: object) -> dict[str, object]:
    return {"local": dsh_local, "tools": Tools(), **more}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(*(text("ok") for _ in range(4)), provider="local")


def names(tools: tuple[ToolSchema, ...] | None) -> list[str]:
    return [schema.name for schema in tools or ()]


async def test_a_local_agent_gets_a_lean_request(model: ScriptedModel) -> None:
    options = AgentOptions(model="local/m")
    async with memory_agent(model=model, plugins=plugins(), config=local(), options=options, cwd="/tmp") as agent:
        await agent.run("hello")

    (request,) = model.requests
    assert request.system is not None
    assert request.system.startswith("You are dsh, a coding agent in the folder /tmp.")
    assert names(request.tools) == ["read"]
    assert request.tools is not None
    assert list(request.tools[0].parameters["properties"]) == ["file_path"]
    assert (request.model, request.temperature, request.max_tokens) == ("local/m", 0.2, 512)


async def test_the_bare_provider_means_the_embedded_model(model: ScriptedModel) -> None:
    async with memory_agent(
        model=model, plugins=plugins(), config=local(), options=AgentOptions(model="local")
    ) as agent:
        await agent.run("hello")

    assert model.requests[0].model == "local/qwen2.5-coder-0.5b"


async def test_what_a_person_chose_stays(model: ScriptedModel) -> None:
    options = AgentOptions(
        model="local/m", temperature=0.9, max_tokens=64, tools=("tidy",), system_prompt="You are a pirate."
    )
    async with memory_agent(model=model, plugins=plugins(), config=local(), options=options) as agent:
        await agent.run("hello")

    (request,) = model.requests
    assert (request.temperature, request.max_tokens) == (0.9, 64)
    assert names(request.tools) == ["tidy"]
    assert "pirate" in (request.system or "")


async def test_lean_prompts_can_be_turned_off(model: ScriptedModel) -> None:
    options = AgentOptions(model="local/m")
    async with memory_agent(model=model, plugins=plugins(), config=local(lean=False), options=options) as agent:
        await agent.run("hello")

    assert names(model.requests[0].tools) == ["read", "tidy"]
    assert "You cannot see files" not in (model.requests[0].system or "")


async def test_other_models_are_left_alone() -> None:
    model = ScriptedModel(text("ok"))
    async with memory_agent(model=model, plugins=plugins(), config=local()) as agent:
        await agent.run("hello")

    (request,) = model.requests
    assert (request.temperature, request.max_tokens) == (None, None)
    assert names(request.tools) == ["read", "tidy"]


async def test_a_conversation_that_moves_on_takes_no_settings_along(model: ScriptedModel) -> None:
    other, switch = ScriptedModel(text("ok"), provider="other"), Switch()
    options = AgentOptions(model="local/m", max_tokens=100)
    more = plugins(switch=switch, other=other)
    async with memory_agent(model=model, plugins=more, config=local(), options=options) as agent:
        await agent.run("hello")
        switch.model = "other/m"
        await agent.run("hello")

    assert model.requests[0].temperature == 0.2
    assert (other.requests[0].temperature, other.requests[0].max_tokens) == (None, 100)


async def test_the_chat_plugin_serves_the_provider() -> None:
    (chat,) = entry_points(group="dsh", name="chat")
    more = {"chat": chat.load(), "local": dsh_local}
    async with memory_harness(plugins=more, config=local(model="~/models/mine.gguf")) as harness:
        assert "local/mine" in harness.llm.models()


async def test_a_wrong_setting_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="context"):
        async with memory_harness(plugins={"local": dsh_local}, config=local(context=3)):
            pass


def test_available_names_the_model_or_nothing() -> None:
    assert dsh_local.available() in (None, "local/qwen2.5-coder-0.5b")


# -- which server is asked


@pytest.fixture
def warnings() -> list[str]:
    return []


async def connect(
    warnings: list[str], use: Callable[[LocalModel], Any] | None = None, weights: Weights = NOTHING, **table: Any
) -> Any:
    async with memory_harness(warnings=warnings) as harness:
        config = LocalConfig(**{"detect": False, **table})
        found = LocalModel(harness, config, weights)
        try:
            return await (found.connect() if use is None else use(found))
        finally:
            await found.close()


async def test_without_weights_the_error_says_what_to_install(warnings: list[str]) -> None:
    with pytest.raises(LlmError, match=r"not installed.*pip install 'dsh-harness\[local\]'") as caught:
        await connect(warnings)

    assert caught.value.code == "LOCAL_NOT_INSTALLED"
    assert not caught.value.retryable


async def test_a_named_server_is_used_by_its_own_model_names(warnings: list[str], nursery: trio.Nursery) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            body = b'{"data": [{"id": "big"}, {"id": "a-coder"}]}'
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )

    (listener, *_) = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"

    assert await connect(warnings, server_url=url) == (f"{url}/v1", None)
    assert await connect(warnings, lambda found: found.served("big"), server_url=url) == "big"
    assert await connect(warnings, lambda found: found.served("other"), server_url=url) == "a-coder"


async def test_a_named_server_that_does_not_answer_is_unavailable(warnings: list[str]) -> None:
    with pytest.raises(LlmError, match=r"http://127.0.0.1:9/v1.*server_url") as caught:
        await connect(warnings, server_url="http://127.0.0.1:9")

    assert caught.value.retryable
    assert await connect(warnings, lambda found: found.served("any"), server_url="http://127.0.0.1:9") == "any"


async def test_nothing_is_started_once_it_is_closed(warnings: list[str]) -> None:
    async with memory_harness(warnings=warnings) as harness:
        found = LocalModel(harness, LocalConfig())
        await found.close()
        with pytest.raises(LlmError, match="closing"):
            await found.connect()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata that say the runtime is installed."""
    info = tmp_path / "site" / "xllamacpp-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xllamacpp\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.usefixtures("runtime")
async def test_joined_weights_do_without_their_parts() -> None:
    content = b"GGUF"
    weights = evolve(NOTHING, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    async with memory_harness() as harness:
        assert not LocalModel(harness, LocalConfig(), weights).configured
        folder = harness.home / "models"
        folder.mkdir()
        weights.file(folder).write_bytes(content)
        await trio.to_thread.run_sync(weights.join, folder)

        assert LocalModel(harness, LocalConfig(), weights).configured


@pytest.mark.usefixtures("runtime")
async def test_a_model_file_needs_the_runtime_alone() -> None:
    async with memory_harness() as harness:
        assert LocalModel(harness, LocalConfig(model="~/m.gguf"), NOTHING).configured
        assert LocalModel(harness, LocalConfig(server_url="http://127.0.0.1:9"), NOTHING).configured


@pytest.mark.usefixtures("runtime")
async def test_a_template_that_cannot_be_read_is_an_error_that_names_it(warnings: list[str]) -> None:
    with pytest.raises(LlmError, match=r"no/such.jinja cannot be read.*`template` in \[local\]"):
        await connect(warnings, model="/m.gguf", template="/no/such.jinja")
