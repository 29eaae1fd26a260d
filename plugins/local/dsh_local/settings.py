"""The table ``[local]`` of the configuration."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import field, frozen
from attrs.validators import and_, ge, le, optional

__all__ = ["DEFAULT_TOOLS", "LocalConfig"]

DEFAULT_TOOLS = ("read", "write", "edit", "bash")


@frozen
class LocalConfig:
    """How the local model is found, served and spoken to.

    Attributes:
        model: path of a GGUF file to serve in place of the packaged weights.
        template: path of a chat template (Jinja); None is ours for files named qwen2.5-coder, as
            the packaged one is, and the file's own for others.
        context: size of the context, in tokens.
        threads: how many to compute with; None is as many as this process may use.
        port: of the loopback interface; None is any free one.
        start_timeout: seconds that the server may take until it is ready.
        temperature, max_tokens: of requests that name none themselves.
        server_url: base URL of a running server to use instead of an embedded one.
        detect: without weights, look for a running llama.cpp or Ollama.
        lean: short system prompt, few tools, short schemas.
        tools: the tools that a lean prompt keeps, as far as the agent has them.
    """

    model: str | None = None
    template: str | None = None
    context: int = field(default=8192, validator=ge(512))
    threads: int | None = field(default=None, validator=optional(ge(1)))
    port: int | None = field(default=None, validator=optional(and_(ge(1), le(65535))))
    start_timeout: float = field(default=120.0, validator=ge(1))
    temperature: float = field(default=0.2, validator=ge(0))
    max_tokens: int = field(default=512, validator=ge(1))
    server_url: str | None = None
    detect: bool = True
    lean: bool = True
    tools: tuple[str, ...] = DEFAULT_TOOLS

    def model_path(self) -> Path | None:
        """`model` as an absolute path."""
        return Path(self.model).expanduser().absolute() if self.model else None

    def thread_count(self) -> int:
        if self.threads is not None:
            return self.threads
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
