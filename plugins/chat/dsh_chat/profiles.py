"""The services that need no table in the configuration, as data; nothing else in dsh knows them by name.

Each profile cites, for every switch that differs from `Dialect`'s default, where it is said that the
service wants it so.  ``streams/NAME`` are recorded answers of the service, against which the readers of
answers are tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from dsh.jsonvalue import Json
from dsh_chat.dialect import Dialect

__all__ = ["PROFILES", "Profile"]


def _read_only(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class Profile:
    """A service, and how to speak to it.

    Attributes:
        name: the provider's, before the slash of a model's name.
        title: for people.
        base_url: up to and without ``/chat/completions``.
        key_envs: variables that hold the key; the first one that is set counts.
        needs_key: whether nothing can be asked without one.
        keys_at: the page on which a person makes a key.
        start: how the server is started, for those that run on this machine; None for a service elsewhere.
        models: names that are known to work; the first is the default, but for a server on this machine.
        models_path: where the service lists its models, behind the base URL.
        dialect: how to speak to it.
        elsewhere: how to speak to what is at another address; as to the original, if not set.
        sources: for each switch of `dialect`, where it is said that it has to be so.
    """

    name: str
    title: str
    base_url: str
    key_envs: tuple[str, ...]
    needs_key: bool = True
    keys_at: str = ""
    start: str | None = None
    models: tuple[str, ...] = ()
    models_path: str = "/models"
    dialect: Dialect = field(factory=Dialect)
    elsewhere: Dialect | None = None
    sources: Mapping[str, str] = field(factory=dict, converter=_read_only)

    @property
    def url_env(self) -> str:
        """The variable that moves it to another address."""
        return f"{self.name.upper()}_BASE_URL"


_GITHUB = "https://github.com"
_LOW_TO_HIGH: Mapping[str, Json] = {"minimal": "low", "xhigh": "high", "max": "high"}
_ALWAYS_LOW_TO_HIGH: Mapping[str, Json] = {**_LOW_TO_HIGH, "none": "low"}
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
_THINKS: dict[str, Json] = {
    "dialect": "responses",
    "send_reasoning": "always",
    "unsupported": ["temperature", "stop"],
    "effort_field": "reasoning.effort",
}
_WANTS_THOUGHTS: Mapping[str, Json] = {
    "send_reasoning": "always",
    "empty_reasoning": True,
    "reasoning_field": "reasoning_content",
    "sealed_field": "",
}
_NO_EFFORT: Mapping[str, Json] = {"effort_field": ""}
_STRICT_ORDER: dict[str, Any] = {"tool_id_length": 9, "after_results": "OK."}

_DEEPSEEK = Profile(
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com",
    key_envs=("DEEPSEEK_API_KEY",),
    keys_at="https://platform.deepseek.com/api_keys",
    models=("deepseek-v4-flash", "deepseek-v4-pro"),
    dialect=Dialect(
        send_reasoning="always",
        efforts={"none": {"thinking": {"type": "disabled"}}},
        cached_fields=("prompt_cache_hit_tokens", "prompt_tokens_details.cached_tokens"),
    ),
    sources={
        "send_reasoning": f"{_GITHUB}/NousResearch/hermes-agent/issues/15353 (with every answer)",
        "efforts": "https://api-docs.deepseek.com/guides/thinking_mode.md",
        "cached_fields": "streams/deepseek",
    },
)

_OPENAI = Profile(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    key_envs=("OPENAI_API_KEY",),
    keys_at="https://platform.openai.com/api-keys",
    models=("gpt-5-mini", "gpt-5.4", "gpt-5-nano", "gpt-4.1-nano", "gpt-4o-mini"),
    dialect=Dialect(
        max_tokens_field="max_completion_tokens",
        effort_field="",
        variants={
            "gpt-*-chat*": {},
            "gpt-5.1*": {**_THINKS, "efforts": _LOW_TO_HIGH},
            "gpt-5.*": {**_THINKS, "efforts": {"minimal": "low", "max": "xhigh"}},
            "gpt-5*": {**_THINKS, "efforts": {"none": "minimal", "xhigh": "high", "max": "high"}},
            "o[134]*": {**_THINKS, "efforts": _ALWAYS_LOW_TO_HIGH},
            "codex-*": {**_THINKS, "efforts": _ALWAYS_LOW_TO_HIGH},
        },
    ),
    elsewhere=Dialect(),
    sources={
        "max_tokens_field": f"{_GITHUB}/teilomillet/gollm/issues/33",
        "effort_field": f"{_GITHUB}/anomalyco/models.dev/pull/2351 (who does not think takes no effort)",
        "variants": (
            f"{_GITHUB}/openai/openai-openapi/issues/541 (tools and thoughts go together in Responses alone), "
            f"{_GITHUB}/pydantic/pydantic-ai/issues/3326 (models for chats have no sealed thoughts), "
            f"{_GITHUB}/tmc/langchaingo/issues/1355 (temperature), {_GITHUB}/huggingface/smolagents/pull/1211 (stop), "
            f"{_GITHUB}/anomalyco/models.dev/pull/2351 (efforts)"
        ),
    },
)

_MOONSHOT = Profile(
    name="moonshot",
    title="Moonshot (Kimi)",
    base_url="https://api.moonshot.ai/v1",
    key_envs=("MOONSHOT_API_KEY",),
    keys_at="https://platform.moonshot.ai/console/api-keys",
    models=("kimi-k2.6", "kimi-k2.5", "kimi-k2.7-code"),
    dialect=Dialect(
        send_reasoning="always",
        unsupported=("temperature",),
        effort_field="thinking.type",
        efforts={**dict.fromkeys(_LEVELS, "enabled"), "none": "disabled"},
        cached_fields=("cached_tokens", "prompt_tokens_details.cached_tokens"),
        variants={"moonshot-v1*": {"send_reasoning": "never", "unsupported": [], "effort_field": ""}},
    ),
    sources={
        "send_reasoning": f"{_GITHUB}/openclaw/openclaw/pull/74846",
        "unsupported": f"{_GITHUB}/HKUDS/nanobot/pull/4967",
        "effort_field": f"{_GITHUB}/theopenco/llmgateway/pull/3065",
        "efforts": f"{_GITHUB}/theopenco/llmgateway/pull/3065",
        "cached_fields": "streams/kimi",
        "variants": f"{_GITHUB}/continuedev/continue/pull/11806 (older models do not think)",
    },
)

_QWEN = Profile(
    name="qwen",
    title="Qwen (DashScope)",
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_envs=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    keys_at="https://modelstudio.console.alibabacloud.com",
    models=("qwen3.8-max", "qwen3-max", "qwen-plus"),
    dialect=Dialect(
        effort_field="enable_thinking",
        efforts={**dict.fromkeys(_LEVELS, True), "none": False},
    ),
    sources={
        "effort_field": "https://help.aliyun.com/en/model-studio/deep-thinking",
        "efforts": "https://help.aliyun.com/en/model-studio/deep-thinking",
    },
)

_MISTRAL = Profile(
    name="mistral",
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    key_envs=("MISTRAL_API_KEY",),
    keys_at="https://console.mistral.ai/api-keys",
    models=("mistral-medium-3-5", "mistral-large-2512", "mistral-small-latest"),
    dialect=Dialect(
        **_STRICT_ORDER,
        stream_usage=False,
        efforts=_LOW_TO_HIGH,
        variants={
            "mistral-small*": {"efforts": {**dict.fromkeys(_LEVELS, "high"), "none": "none"}},
            "mistral-medium*": {"efforts": {**dict.fromkeys(_LEVELS, "high"), "none": "none"}},
        },
    ),
    sources={
        "tool_id_length": f"{_GITHUB}/langchain-ai/langchain/pull/24668",
        "after_results": f"{_GITHUB}/avante-corp/avante.nvim/pull/2695",
        "stream_usage": f"{_GITHUB}/openai/openai-agents-python/issues/442 (counts come unasked)",
        "efforts": "https://docs.mistral.ai/inference/conversations/reasoning",
        "variants": "https://docs.mistral.ai/inference/conversations/reasoning (these think or do not)",
    },
)

_GROQ = Profile(
    name="groq",
    title="Groq",
    base_url="https://api.groq.com/openai/v1",
    key_envs=("GROQ_API_KEY",),
    keys_at="https://console.groq.com/keys",
    models=("openai/gpt-oss-120b", "openai/gpt-oss-20b", "moonshotai/kimi-k2-instruct-0905", "llama-3.3-70b-versatile"),
    dialect=Dialect(
        max_tokens_field="max_completion_tokens",
        efforts=_ALWAYS_LOW_TO_HIGH,
        variants={"qwen/*": {"efforts": {**dict.fromkeys(_LEVELS, "default"), "none": "none"}}},
    ),
    sources={
        "max_tokens_field": f"{_GITHUB}/groq/groq-python/blob/main/src/groq/types/chat/completion_create_params.py",
        "efforts": "https://console.groq.com/docs/reasoning",
        "variants": "https://console.groq.com/docs/reasoning",
    },
)

_XAI = Profile(
    name="xai",
    title="xAI (Grok)",
    base_url="https://api.x.ai/v1",
    key_envs=("XAI_API_KEY",),
    keys_at="https://console.x.ai",
    models=("grok-4.3", "grok-4.20-reasoning", "grok-4.20-non-reasoning"),
    dialect=Dialect(
        max_tokens_field="max_completion_tokens",
        unsupported=("stop",),
        reasoning_apart=True,
        efforts=_LOW_TO_HIGH,
        variants={
            "grok-4.2*": {"effort_field": ""},
            "grok-4-*": {"effort_field": ""},
            "grok-code*": {"effort_field": ""},
        },
    ),
    sources={
        "max_tokens_field": "https://docs.pipecat.ai/server/services/llm/grok",
        "unsupported": f"{_GITHUB}/BerriAI/litellm/issues/12635",
        "reasoning_apart": "streams/xai (prompt, completion and reasoning tokens add up to the total)",
        "efforts": "https://newreleases.io/project/github/vercel/ai/release/@ai-sdk%2Fxai@4.0.0-canary.61",
        "variants": f"{_GITHUB}/acedergren/opencode-oci-provider/releases/tag/v0.2.3 (names say who thinks)",
    },
)

_OPENROUTER = Profile(
    name="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_envs=("OPENROUTER_API_KEY",),
    keys_at="https://openrouter.ai/settings/keys",
    models=("openai/gpt-oss-120b", "anthropic/claude-sonnet-4.5", "moonshotai/kimi-k2.5", "deepseek/deepseek-chat"),
    dialect=Dialect(
        send_reasoning="tool-calls",
        reasoning_field="reasoning",
        empty_reasoning=False,
        sealed_field="reasoning_details",
        effort_field="reasoning.effort",
        efforts={"max": "xhigh"},
        variants={
            "deepseek/*": _WANTS_THOUGHTS,
            "moonshotai/*": _WANTS_THOUGHTS,
            "mistralai/*": _STRICT_ORDER,
        },
    ),
    sources={
        "send_reasoning": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "reasoning_field": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "empty_reasoning": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "sealed_field": f"{_GITHUB}/LibreChat-AI/agents/issues/37 (Gemini's models refuse calls without it)",
        "effort_field": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "efforts": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "variants": (
            f"{_GITHUB}/openclaw/openclaw/issues/57672 and {_GITHUB}/charmbracelet/crush/issues/279 "
            "(Mistral's rules hold there, too), "
            f"{_GITHUB}/NousResearch/hermes-agent/issues/15353 (and DeepSeek's)"
        ),
    },
)

_TOGETHER = Profile(
    name="together",
    title="Together",
    base_url="https://api.together.xyz/v1",
    key_envs=("TOGETHER_API_KEY",),
    keys_at="https://api.together.ai/settings/api-keys",
    models=("deepseek-ai/DeepSeek-V4-Pro", "openai/gpt-oss-120b", "zai-org/GLM-5.1"),
    dialect=Dialect(
        efforts={**_LOW_TO_HIGH, "none": {"reasoning": {"enabled": False}}},
        variants={"openai/gpt-oss*": {"efforts": _ALWAYS_LOW_TO_HIGH}},
    ),
    sources={
        "efforts": "https://docs.together.ai/docs/inference/chat/reasoning",
        "variants": "https://docs.together.ai/docs/inference/chat/reasoning",
    },
)

_VLLM = Profile(
    name="vllm",
    title="vLLM",
    base_url="http://127.0.0.1:8000/v1",
    key_envs=("VLLM_API_KEY",),
    needs_key=False,
    start="vllm serve MODEL --enable-auto-tool-choice --tool-call-parser …",
    dialect=Dialect(send_reasoning="tool-calls", reasoning_field="reasoning", empty_reasoning=False),
    sources={
        "send_reasoning": f"{_GITHUB}/vllm-project/vllm/pull/28531",
        "reasoning_field": "https://docs.vllm.ai/en/v0.26.0/features/reasoning_outputs/",
        "empty_reasoning": f"{_GITHUB}/vllm-project/vllm/pull/21655",
    },
)

_SGLANG = Profile(
    name="sglang",
    title="SGLang",
    base_url="http://127.0.0.1:30000/v1",
    key_envs=("SGLANG_API_KEY",),
    needs_key=False,
    start="python -m sglang.launch_server --model-path MODEL --tool-call-parser …",
)

_LLAMACPP = Profile(
    name="llamacpp",
    title="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    key_envs=("LLAMA_API_KEY",),
    needs_key=False,
    start="llama-server -m MODEL.gguf --jinja",
    dialect=Dialect(send_reasoning="tool-calls", empty_reasoning=False),
    sources={
        "send_reasoning": f"{_GITHUB}/ggml-org/llama.cpp/pull/18994",
        "empty_reasoning": f"{_GITHUB}/ggml-org/llama.cpp/pull/18994",
    },
)

_OLLAMA = Profile(
    name="ollama",
    title="Ollama",
    base_url="http://127.0.0.1:11434/v1",
    key_envs=("OLLAMA_API_KEY",),
    needs_key=False,
    start="ollama serve",
    dialect=Dialect(send_reasoning="tool-calls", reasoning_field="reasoning", empty_reasoning=False),
    sources={
        "send_reasoning": f"{_GITHUB}/ollama/ollama/pull/18543",
        "reasoning_field": f"{_GITHUB}/ollama/ollama/pull/18543",
        "empty_reasoning": f"{_GITHUB}/ollama/ollama/pull/18543",
    },
)

_LMSTUDIO = Profile(
    name="lmstudio",
    title="LM Studio",
    base_url="http://127.0.0.1:1234/v1",
    key_envs=("LMSTUDIO_API_KEY",),
    needs_key=False,
    start="lms server start",
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            _DEEPSEEK,
            _OPENAI,
            _MOONSHOT,
            _QWEN,
            _MISTRAL,
            _GROQ,
            _XAI,
            _OPENROUTER,
            _TOGETHER,
            _VLLM,
            _SGLANG,
            _LLAMACPP,
            _OLLAMA,
            _LMSTUDIO,
        )
    }
)
"""By name, in the order in which they are looked at when nobody named a model."""
