"""The local model of one harness: which server serves it, started when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from dsh import LlmError, Process

from .progress import bar
from .settings import LocalConfig
from .weights import INSTALL, PACKAGED, RUNTIME, Weights, installed, missing

if TYPE_CHECKING:
    from dsh import Harness

    from .detect import Found
    from .server import ModelServer

__all__ = ["LocalModel"]

_TEMPLATE = "qwen-coder-tools.jinja"
_OURS = "qwen2.5-coder"  # whose files know too little of tools by themselves


@define(eq=False)
class LocalModel:
    """Answers ``connect`` of the provider ``local``.

    In this order: the server that the configuration names, the model file that it names, the
    packaged weights, a server that runs on this machine.
    """

    harness: Harness
    config: LocalConfig
    weights: Weights = PACKAGED
    _lock: trio.Lock = field(factory=trio.Lock)
    _server: ModelServer | None = None
    _found: Found | None = None
    _closed: bool = False

    @cached_property
    def configured(self) -> bool:
        """Whether there is something to ask without looking around for it.  Cheap."""
        return bool(self.config.server_url) or self.lack is None

    @cached_property
    def lack(self) -> str | None:
        """The distribution that the embedded model cannot do without; the parts are done with once they are joined."""
        if not installed(RUNTIME):
            return RUNTIME
        if self.config.model or self.weights.ready(self.folder):
            return None
        return missing(self.weights)

    @property
    def folder(self) -> Path:
        """Where the weights are joined."""
        return self.harness.home / "models"

    @property
    def name(self) -> str:
        """What the embedded model is called."""
        path = self.config.model_path()
        return path.stem if path is not None else self.weights.name

    async def connect(self) -> tuple[str, str | None]:
        """The base URL and key of a server that is ready; starts it if need be, also when it died since.

        Of several callers one starts it.  Cancelling stops what is not ready yet.

        Raises:
            LlmError: there is none, or it cannot be started; the message says what to do.
        """
        async with self._lock:
            if self._closed:
                raise LlmError("the harness is closing", code="ABORTED")
            found = await self._running()
            if found is not None:
                return found.base_url, None
            server = await self._embedded()
            url = server.url if server.alive and server.url else await server.start()
            return f"{url}/v1", server.key

    async def served(self, wanted: str) -> str:
        """The name by which the server that will be asked knows `wanted`.

        Only a server that runs already has names of its own to look up; the embedded one takes any.
        """
        async with self._lock:
            try:
                found = await self._running()
            except LlmError:  # `connect` says so, where it counts
                return wanted
        if found is None:
            return wanted
        from .detect import choose

        return choose(found.models, wanted) if found.models else wanted

    async def close(self) -> None:
        """Stop the server; later calls of `connect` fail.  Not to be cut short by cancellation."""
        self._closed = True
        if self._server is not None:
            await self._server.stop()

    async def _running(self) -> Found | None:
        """The server that runs already and is to be used; None for the embedded model."""
        if self._found is not None:
            return self._found
        url = self.config.server_url
        if url:
            self._found = await self._named(url)
        elif not self.configured:
            self._found = await self._detected()
        return self._found

    async def _named(self, url: str) -> Found:
        from .detect import Found, base_url, models_of

        base = base_url(url)
        models = await models_of(base)
        if models is None:
            raise LlmError(
                f"no model server answers at {base} (`server_url` in [local])", code="UNAVAILABLE", retryable=True
            )
        return Found("server", base, models)

    async def _detected(self) -> Found:
        from .detect import LLAMA_CPP, OLLAMA, find

        found = await find() if self.config.detect else None
        if found is None:
            looked = f", and no server answers at {LLAMA_CPP} or {OLLAMA}" if self.config.detect else ""
            raise LlmError(
                f"the embedded model is not installed ({self.lack} is missing){looked}: {INSTALL}",
                code="LOCAL_NOT_INSTALLED",
            )
        if self.config.model:
            self.harness.warn(f"local: {RUNTIME} is not installed, so `model` in [local] is not served")
        self.harness.warn(
            f"local: using the {found.name} server at {found.base_url}, which has {', '.join(found.models)}"
        )
        return found

    async def _embedded(self) -> ModelServer:
        if self._server is None:
            from .server import ModelServer, Serve

            path = self.config.model_path()
            model = path if path is not None else await self._weights()
            config = self.config
            serve = Serve(
                model=model,
                alias=self.name,
                template=self._template(model),
                context=config.context,
                threads=config.thread_count(),
                temperature=config.temperature,
                port=config.port,
                ready_within=config.start_timeout,
            )
            self._server = ModelServer(serve, self._prepare)
        return self._server

    async def _weights(self) -> Path:
        folder = self.folder
        if self.weights.ready(folder):
            return self.weights.file(folder)
        with bar(f"joining the weights of {self.weights.name} in {folder}, once", self.harness.warn) as progress:
            return await trio.to_thread.run_sync(self.weights.join, folder, progress)

    def _template(self, model: Path) -> str | None:
        if self.config.template is None:
            ours = _OURS in model.name.lower()
            return Path(__file__).with_name(_TEMPLATE).read_text("utf-8") if ours else None
        path = Path(self.config.template).expanduser()
        try:
            return path.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise LlmError(
                f"the chat template {path} cannot be read ({error}); see `template` in [local]", code="CONFIG"
            ) from error

    async def _prepare(self, process: Process) -> Process:
        return await self.harness.hook.process_prepare(agent=None, process=process, default=lambda: process)
