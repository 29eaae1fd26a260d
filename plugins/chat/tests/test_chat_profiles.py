"""Services that need no table: what their profiles say, and what is sent because of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dsh_chat
import httpx
import pytest
import trio
from attrs import evolve, fields_dict
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.encode import Encoder
from dsh_chat.profiles import PROFILES, Profile
from dsh_chat.providers import Provider, ProviderSettings, Switches, built_in, configured
from hypothesis import given, settings
from hypothesis import strategies as st

import dsh.llm
from dsh import Config, ConfigError, LlmError, Message, Request, open_harness
from dsh.llm.chunks import BlockEnd, Finish, TextDelta, Usage
from dsh.llm.effort import nearest
from dsh.messages import EFFORTS, Reasoning, Text, ToolCallBlock, ToolResultBlock, ToolSchema

ROOT = Path(__file__).parents[3]
STREAMS = ROOT / "../shared/streams"
KEY = "key-abcdefgh12345678"
WANTED = {
    *("deepseek", "openai", "moonshot", "qwen", "mistral", "groq", "xai", "openrouter", "together"),
    *("vllm", "sglang", "llamacpp", "ollama", "lmstudio"),
}
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
TOOLS = (ToolSchema("bash", "run", {"type": "object"}),)


def names() -> list[Any]:
    return [pytest.param(profile, id=name) for name, profile in PROFILES.items()]


def differing(dialect: Dialect) -> set[str]:
    return {name for name in fields_dict(Dialect) if getattr(dialect, name) != getattr(Dialect(), name)}


def body(profile: str, model: str, request: Request) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(Encoder(PROFILES[profile].dialect.of(model)).body(request, model))
    return made


def history(*messages: Message, model: str = "p/m", **more: Any) -> Request:
    return Request(model, (Message("user", "hi"), *messages), **more)


def test_all_of_them_are_there() -> None:
    assert set(PROFILES) == WANTED
    assert len({variable for profile in PROFILES.values() for variable in profile.key_envs}) >= len(WANTED)


@pytest.mark.parametrize("profile", names())
def test_what_differs_says_where_that_is_from(profile: Profile) -> None:
    assert set(profile.sources) == differing(profile.dialect)
    for source in profile.sources.values():
        assert source.startswith(("https://", "streams/")), source
        if source.startswith("streams/") and STREAMS.exists():
            assert (STREAMS / source.split()[0].removeprefix("streams/")).is_dir(), source


def test_a_table_takes_every_switch() -> None:
    assert set(fields_dict(Switches)) == set(fields_dict(Dialect)) - {"variants"}
    assert set(fields_dict(Dialect)) <= set(fields_dict(ProviderSettings))


def code() -> Iterator[Path]:
    for package in (dsh_chat, dsh.llm):
        assert package.__file__ is not None
        yield from Path(package.__file__).parent.rglob("*.py")
    yield from (ROOT / "plugins/retry/dsh_retry").glob("*.py")


@pytest.mark.parametrize("file", [pytest.param(file, id=file.name) for file in code() if file.name != "profiles.py"])
def test_no_code_knows_a_service_by_name(file: Path) -> None:
    """A difference between services is a switch."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value.lower() not in {*WANTED, "anthropic"}, f"{file.name}:{node.lineno}"


async def ask(provider: Provider, model: str, handler: Any) -> list[Any]:
    adapter = ChatAdapter(provider, httpx.MockTransport(handler))
    request = Request(f"{provider.name}/{model}", (Message("user", "hi"),), "be brief", TOOLS)
    return [chunk async for chunk in adapter.stream(request, model)]


@pytest.mark.parametrize("profile", names())
async def test_with_its_key_set_it_can_be_asked(profile: Profile) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=HELLO)

    for variable in profile.key_envs:
        provider = built_in(profile.name, {variable: KEY})
        chunks = await ask(provider, "some/model", handler)

        assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["hello"]
        assert str(seen[-1].url) == f"{profile.base_url}/chat/completions"
        assert seen[-1].headers["authorization"] == f"Bearer {KEY}"
        assert json.loads(seen[-1].content)["model"] == "some/model"
        assert provider.configured == profile.needs_key


@pytest.mark.parametrize("profile", names())
async def test_without_a_key(profile: Profile) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=HELLO)

    provider = built_in(profile.name, {})
    assert not provider.configured
    if not profile.needs_key:
        await ask(provider, "m", handler)
        assert "authorization" not in seen[0].headers
        return
    with pytest.raises(LlmError, match=f"set {profile.key_envs[0]}") as caught:
        await ask(provider, "m", handler)
    assert (caught.value.code, seen) == ("AUTH", [])


@pytest.mark.parametrize("profile", [each for each in names() if each.values[0].start is not None])
async def test_a_server_that_nobody_started_says_how_to(profile: Profile) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    adapter = ChatAdapter(built_in(profile.name, {profile.url_env: f"http://127.0.0.1:{port}/v1"}))

    with pytest.raises(LlmError) as caught:
        await anext(adapter.stream(history(), "m"))

    assert (caught.value.code, caught.value.retryable) == ("UNAVAILABLE", False)
    for words in (f"127.0.0.1:{port}", "nothing listens", profile.start or "", profile.url_env):
        assert words in str(caught.value)


async def test_a_key_that_cannot_be_sent_to_a_server_here_is_told_only_to_who_asks_it() -> None:
    adapter = ChatAdapter(built_in("ollama", {"OLLAMA_API_KEY": "two words"}))
    assert adapter.broken is None
    with pytest.raises(LlmError, match="OLLAMA_API_KEY"):
        await anext(adapter.stream(history(), "m"))


@pytest.mark.parametrize("profile", names())
async def test_models_are_listed_where_the_profile_says(profile: Profile) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert (request.method, str(request.url)) == ("GET", f"{profile.base_url}{profile.models_path}")
        assert request.headers["authorization"] == f"Bearer {KEY}"
        return httpx.Response(200, json={"data": [{"id": "m"}]})

    adapter = ChatAdapter(built_in(profile.name, {profile.key_envs[0]: KEY}), httpx.MockTransport(handler))
    assert await adapter.fetch_models() == {"data": [{"id": "m"}]}


@pytest.mark.parametrize(
    ("profile", "model", "wanted"),
    [
        ("deepseek", "deepseek-v4-pro", {"max_tokens": 9, "temperature": 0.5, "reasoning_effort": "max"}),
        ("openai", "gpt-4o-mini", {"max_completion_tokens": 9, "temperature": 0.5, "stop": ["x"]}),
        ("moonshot", "kimi-k2.6", {"max_tokens": 9, "stop": ["x"], "thinking": {"type": "enabled"}}),
        ("moonshot", "moonshot-v1-8k", {"max_tokens": 9, "temperature": 0.5, "stop": ["x"]}),
        ("qwen", "qwen3-max", {"max_tokens": 9, "temperature": 0.5, "stop": ["x"], "enable_thinking": True}),
        ("mistral", "mistral-small-latest", {"max_tokens": 9, "stop": ["x"], "reasoning_effort": "high"}),
        ("groq", "openai/gpt-oss-120b", {"max_completion_tokens": 9, "reasoning_effort": "high", "stop": ["x"]}),
        ("groq", "qwen/qwen3-32b", {"reasoning_effort": "default"}),
        ("xai", "grok-4.3", {"max_completion_tokens": 9, "temperature": 0.5, "reasoning_effort": "high"}),
        ("openrouter", "openai/gpt-5", {"max_tokens": 9, "reasoning": {"effort": "xhigh"}}),
        ("together", "openai/gpt-oss-120b", {"max_tokens": 9, "reasoning_effort": "high"}),
    ],
)  # fmt: skip
def test_parameters_are_called_what_the_service_calls_them(profile: str, model: str, wanted: dict[str, Any]) -> None:
    request = history(temperature=0.5, max_tokens=9, stop=("x",), reasoning_effort="max")
    sent = body(profile, model, request)
    assert {name: sent.get(name) for name in wanted} == wanted
    assert ("stream_options" in sent) == (profile != "mistral")


@pytest.mark.parametrize(
    ("profile", "model", "levels"),
    [
        ("openai", "gpt-5-mini", ("minimal", "low", "medium", "high")),
        ("openai", "gpt-5.1", ("none", "low", "medium", "high")),
        ("openai", "gpt-5.4", ("none", "low", "medium", "high", "xhigh")),
        ("openai", "o4-mini", ("low", "medium", "high")),
        ("openai", "gpt-4o-mini", ()),
        ("deepseek", "deepseek-v4-pro", EFFORTS),
        ("moonshot", "kimi-k2.6", EFFORTS),
        ("moonshot", "moonshot-v1-8k", ()),
        ("mistral", "mistral-small-latest", ("none", "high")),
        ("groq", "openai/gpt-oss-20b", ("low", "medium", "high")),
        ("together", "openai/gpt-oss-20b", ("low", "medium", "high")),
        ("vllm", "any", None),
    ],
)
def test_levels_of_effort(profile: str, model: str, levels: tuple[str, ...] | None) -> None:
    """What is sent for a level that is none there is the one next to it."""
    dialect = PROFILES[profile].dialect.of(model)
    assert ChatAdapter(built_in(profile, {})).efforts(model) == levels
    for level in EFFORTS if levels else ():
        closest = nearest(level, levels or ()) or ""
        assert dialect.efforts.get(level, level) == dialect.efforts.get(closest, closest)


@pytest.mark.parametrize(
    ("profile", "model", "wanted"),
    [
        ("deepseek", "deepseek-v4-pro", {"thinking": {"type": "disabled"}}),
        ("moonshot", "kimi-k2.6", {"thinking": {"type": "disabled"}}),
        ("qwen", "qwen3-max", {"enable_thinking": False}),
        ("together", "zai-org/GLM-5.1", {"reasoning": {"enabled": False}}),
    ],
)
def test_thinking_can_be_switched_off(profile: str, model: str, wanted: dict[str, Any]) -> None:
    sent = body(profile, model, history(reasoning_effort="none"))
    assert {name: value for name, value in sent.items() if name in wanted} == wanted
    assert "reasoning_effort" not in sent


@pytest.mark.parametrize(
    ("profile", "model", "absent"),
    [
        ("moonshot", "kimi-k2.6", "temperature"),
        ("moonshot", "moonshot-v1-8k", "thinking"),
        ("xai", "grok-4.3", "stop"),
        ("xai", "grok-4-fast-reasoning", "reasoning_effort"),
        ("mistral", "mistral-large-2512", "stream_options"),
    ],
)
def test_what_a_service_refuses_is_not_sent(profile: str, model: str, absent: str) -> None:
    assert absent not in body(profile, model, history(temperature=0.5, stop=("x",), reasoning_effort="high"))


@pytest.mark.parametrize(
    ("profile", "model", "field", "values"),
    [
        ("deepseek", "deepseek-v4-flash", "reasoning_content", ["why", "", "because"]),
        ("moonshot", "kimi-k2.6", "reasoning_content", ["why", "", "because"]),
        ("moonshot", "moonshot-v1-8k", "reasoning_content", [None, None, None]),
        ("qwen", "qwen3-max", "reasoning_content", [None, None, None]),
        ("groq", "openai/gpt-oss-20b", "reasoning", [None, None, None]),
        ("openrouter", "openai/gpt-oss-20b", "reasoning", ["why", None, None]),
        ("openrouter", "deepseek/deepseek-chat", "reasoning_content", ["why", "", "because"]),
        ("vllm", "qwen3", "reasoning", ["why", None, None]),
        ("llamacpp", "qwen3", "reasoning_content", ["why", None, None]),
        ("ollama", "qwen3", "reasoning", ["why", None, None]),
        ("lmstudio", "qwen3", "reasoning_content", [None, None, None]),
    ],
)
def test_thoughts_go_back_as_the_service_wants_them(
    profile: str, model: str, field: str, values: list[str | None]
) -> None:
    """With a call and thoughts, with a call alone, and with an answer that was thought about."""
    request = history(
        Message("assistant", [Reasoning("why"), ToolCallBlock("a12345678", "bash", "{}")]),
        Message("user", [ToolResultBlock("a12345678", (Text("ok"),))]),
        Message("assistant", [ToolCallBlock("b12345678", "bash", "{}")]),
        Message("user", [ToolResultBlock("b12345678", (Text("ok"),))]),
        Message("assistant", [Reasoning("because"), Text("done")]),
    )
    answers = [message for message in body(profile, model, request)["messages"] if message["role"] == "assistant"]
    assert [message.get(field) for message in answers] == values
    other = {"reasoning", "reasoning_content"} - {field}
    assert not any(other & message.keys() for message in answers)


SEALED = [
    ("claude-haiku-4.5-tools2-think", "anthropic/claude-haiku-4.5", "reasoning.text"),
    ("gpt-5-tool", "openai/gpt-5", "reasoning.encrypted"),
    ("glm-5-turbo-tool-think-cachehit", "z-ai/glm-5-turbo", "reasoning.text"),
    ("gemini-3.1-flash-lite-previe-text", "google/gemini-3.1-flash-lite", "reasoning.encrypted"),
]


@pytest.mark.skipif(not STREAMS.exists(), reason="the recorded streams are not here")
@pytest.mark.parametrize(("stream", "model", "kind"), SEALED)
async def test_sealed_thoughts_go_back_as_they_came(stream: str, model: str, kind: str) -> None:
    """The pieces are joined, nothing else is changed; another model does not get them."""
    recorded = (STREAMS / f"openrouter/{stream}.sse").read_bytes()
    pieces = [
        piece
        for line in recorded.splitlines()
        if line.startswith(b"data: {")
        for choice in json.loads(line[6:]).get("choices", ())
        for piece in choice["delta"].get("reasoning_details") or ()
    ]
    provider = built_in("openrouter", {"OPENROUTER_API_KEY": KEY})
    chunks = await ask(provider, model, lambda request: httpx.Response(200, content=recorded))
    blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]
    if not any(isinstance(block, ToolCallBlock) for block in blocks):
        blocks.append(ToolCallBlock("a", "bash", "{}"))
    answer = Message("assistant", blocks)

    sent = body("openrouter", model, history(answer, model=f"openrouter/{model}"))["messages"][1]["reasoning_details"]

    assert {piece["type"] for piece in sent} == {kind}
    for name in ("text", "data", "signature"):
        assert "".join(piece.get(name) or "" for piece in sent) == "".join(piece.get(name) or "" for piece in pieces)
    other = body("openrouter", "x/y", history(answer, model="openrouter/x/y"))["messages"][1]
    assert not {"reasoning_details", "reasoning"} & other.keys()


CALL_IDS = st.text(min_size=1, max_size=60)


@settings(max_examples=60)
@given(ids=st.lists(CALL_IDS, min_size=1, max_size=5, unique=True))
def test_any_id_is_made_one_that_mistral_takes(ids: list[str]) -> None:
    calls = Message("assistant", [ToolCallBlock(id, "bash", "{}") for id in ids])
    results = Message("user", [ToolResultBlock(id, (Text(id),)) for id in ids])
    sent = body("mistral", "m", history(calls, results))["messages"][1:]
    given_ids = [call["id"] for call in sent[0]["tool_calls"]]
    assert len(set(given_ids)) == len(ids)
    assert all(len(id) == 9 and id.isascii() and id.isalnum() for id in given_ids)
    assert [message["tool_call_id"] for message in sent[1:]] == given_ids


def test_an_id_that_mistral_made_stays() -> None:
    sent = body("mistral", "m", history(Message("assistant", [ToolCallBlock("D681PevKs", "bash", "{}")])))
    assert sent["messages"][1]["tool_calls"][0]["id"] == "D681PevKs"


@pytest.mark.parametrize(("profile", "model"), [("mistral", "m"), ("openrouter", "mistralai/m")])
def test_somebody_speaks_between_results_and_a_person_where_that_is_the_rule(profile: str, model: str) -> None:
    called = Message("assistant", [ToolCallBlock("a", "bash", "{}")])
    encoder = Encoder(PROFILES[profile].dialect.of(model))
    first = history(called, Message("user", [ToolResultBlock("a", (Text("ok"),))]))
    second = evolve(first, messages=(*first.messages, Message("user", "never mind")))
    bodies = [json.loads(encoder.body(request, model))["messages"] for request in (first, second)]
    assert [message["role"] for message in bodies[0]] == ["user", "assistant", "tool"]
    assert [message["role"] for message in bodies[1]] == ["user", "assistant", "tool", "assistant", "user"]
    assert bodies[1][:3] == bodies[0]


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gpt-5-mini", "/responses"),
        ("gpt-5.2-codex", "/responses"),
        ("o4-mini", "/responses"),
        ("codex-mini-latest", "/responses"),
        ("gpt-5-chat-latest", "/chat/completions"),
        ("gpt-4o-mini", "/chat/completions"),
        ("gpt-4.1-nano", "/chat/completions"),
    ],
)
async def test_openai_s_thinking_models_are_asked_in_responses(model: str, path: str) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(400, json={"error": {"message": "no", "type": "invalid_request_error"}})

    with pytest.raises(LlmError):
        await ask(built_in("openai", {"OPENAI_API_KEY": KEY}), model, handler)

    assert seen[0].url.path == f"/v1{path}"
    assert ("include" in json.loads(seen[0].content)) == (path == "/responses")


@pytest.mark.skipif(not STREAMS.exists(), reason="the recorded streams are not here")
async def test_xai_counts_thoughts_apart() -> None:
    recorded = (STREAMS / "xai/grok-3-mini-tool-think-cachehit.sse").read_bytes()
    chunks = await ask(
        built_in("xai", {"XAI_API_KEY": KEY}), "grok-3-mini", lambda request: httpx.Response(200, content=recorded)
    )
    (usage,) = (chunk.usage for chunk in chunks if isinstance(chunk, Usage))
    assert (usage.output_tokens, usage.reasoning_tokens) == (26 + 196, 196)
    assert (usage.input_tokens, usage.cache_read_tokens) == (1, 290)
    assert isinstance(chunks[-1], Finish)


def test_a_table_may_say_it_all_of_a_service_of_its_own() -> None:
    table = ProviderSettings(
        base_url="http://house/v1",
        max_tokens_field="limits.answer",
        effort_field="think.level",
        efforts={"high": 3},
        parallel_tool_calls=False,
        unsupported=("temperature",),
        system_role="developer",
        variants={"old-*": Switches(system_role="user", effort_field="")},
    )
    dialect = configured("house", table, {}).dialect
    request = history(system="s", max_tokens=5, temperature=0.1, reasoning_effort="high", tools=TOOLS)
    new, old = (json.loads(Encoder(dialect.of(model)).body(request, model)) for model in ("new-1", "OLD-1"))
    assert new["limits"] == {"answer": 5}
    assert new["think"] == {"level": 3}
    assert new["parallel_tool_calls"] is False
    assert "temperature" not in new
    assert (new["messages"][0]["role"], old["messages"][0]["role"]) == ("developer", "user")
    assert "think" not in old


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"variants": {"a*": {"tol_id_length": 9}}}, ['providers.groq.variants."a*".tol_id_length', "tool_id_length"]),
        ({"variants": {"a*": {"variants": {}}}}, ["variants"]),
        ({"tool_id_length": 3}, ["tool_id_length", "8 to 64"]),
        ({"tool_id_length": "nine"}, ["providers.groq.tool_id_length"]),
        ({"unsupported": ["temprature"]}, ["providers.groq.unsupported"]),
        ({"system_role": "boss"}, ["providers.groq.system_role"]),
        ({"cached_feilds": ["a"]}, ["cached_feilds", "cached_fields"]),
    ],
)
async def test_a_table_that_is_wrong_is_told(table: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_harness(
            Config(tables={"providers": {"groq": table}}), plugins={"chat": dsh_chat}, discover=False
        ):
            pass
    for word in words:
        assert word in str(caught.value)


async def test_a_table_without_an_address_may_mean_a_service_that_is_known() -> None:
    with pytest.raises(ConfigError, match="did you mean openrouter"):
        configured("openruter", ProviderSettings(), {})
