"""What is wrong between us and a provider: its key, its address, the network, the model, or nothing."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import attrs
import trio

from ..errors import DshError, LlmError
from ..llm.adapter import Request
from ..llm.chunks import Finish
from ..llm.http.service import Place, Service
from ..messages import Message
from ..structure import did_you_mean
from . import EXIT_FAILED, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE
from .catalogue import NOT_IN_TIME, SECONDS, connects, problem_of
from .outcome import is_mistake, is_unavailable

if TYPE_CHECKING:
    from ..harness import Harness

__all__ = ["STATUSES", "Verdict", "check"]

STATUSES = {
    "ok": EXIT_OK,
    "no_key": EXIT_USAGE,
    "wrong_url": EXIT_USAGE,
    "not_ready": EXIT_USAGE,
    "bad_key": EXIT_FAILED,
    "no_credit": EXIT_FAILED,
    "unknown_model": EXIT_FAILED,
    "refused": EXIT_FAILED,
    "unreachable": EXIT_UNAVAILABLE,
    "unavailable": EXIT_UNAVAILABLE,
}
"""What a check may come to, with the exit code."""
ANSWER_SECONDS = 60.0
_NOT_AN_API = re.compile(r"HTTP_(3\d\d|405)|NOT_FOUND|MALFORMED_RESPONSE|EMPTY_RESPONSE|STREAM_CLOSED")
_CAUSES = {
    "dns": "the name of the host is not known: check the address for a misspelling, and that you are online",
    "refused": "nothing listens there: check host and port, or start the server",
    "timeout": "nobody answers: check the address, a firewall, and that you are online",
    "tls": "no safe connection: check that the address begins with the right one of http:// and https://; "
    "a CA of your own is named with SSL_CERT_FILE",
    "proxy": "the proxy that the environment names does not let it through: check HTTPS_PROXY and NO_PROXY",
    "network": "check the network, and the address",
}


@attrs.frozen
class Verdict:
    """What a check came to.

    Attributes:
        status: one of `STATUSES`.
        message: what was found, in a sentence.
        advice: what to do; empty where there is nothing to do.
        base_url: where the service was looked for.
        key_env: the variable that its key is in, or belongs in.
        model: the one that was asked for, where one was.
        models: how many the service says it has.
        cause: of ``unreachable``, in a word: ``dns``, ``refused``, ``timeout``, ``tls``, ``proxy`` or ``network``.
    """

    provider: str
    status: str
    message: str
    advice: str = ""
    base_url: str | None = None
    key_env: str | None = None
    model: str | None = None
    models: int | None = None
    cause: str | None = None

    @property
    def exit_code(self) -> int:
        return STATUSES[self.status]

    def record(self) -> dict[str, Any]:
        """It as JSON."""
        ok = self.status == "ok"
        return {"provider": self.provider, "ok": ok, **attrs.asdict(self), "exit_code": self.exit_code}

    def text(self) -> str:
        """It as text: a line, and one with what to do."""
        return f"{self.message}\n  {self.advice}" if self.advice else self.message

    def masked(self, mask: Callable[[str], str]) -> Verdict:
        """The same without secrets."""
        return attrs.evolve(self, message=mask(self.message), advice=mask(self.advice))


async def check(harness: Harness, provider: str, model: str = "") -> Verdict:
    """Find out whether `provider` can be asked: by its list of models, and where that does not tell, by one token.

    Args:
        model: without the provider's name; its default model, if not given.
    """
    probe = _Probe(harness, provider, model)
    problem = problem_of(probe.adapter)
    if problem is not None:
        return probe.verdict("no_key", f"{provider}: {problem}", probe.how_to_get_a_key())
    try:
        return await probe.by_list()
    except LlmError as error:
        return probe.failed(error)
    except DshError as error:
        return probe.verdict("not_ready", error.message, "do what it says, and check again")


class _Probe:
    def __init__(self, harness: Harness, provider: str, model: str) -> None:
        self.harness, self.provider = harness, provider
        self.adapter: Any = harness.llm.adapters[provider]
        self.service: Any = getattr(self.adapter, "provider", None)
        self.place: Any = getattr(self.service, "place", self.service)
        self.base_url: str | None = getattr(self.place, "base_url", None)
        self.key_env: str | None = getattr(self.place, "key_env", None)
        self.has_key = bool(getattr(self.place, "api_key", None))
        self.wanted = model
        self.model = model or getattr(self.adapter, "default_model", None) or ""
        self.names: list[str] | None = None

    def verdict(self, status: str, message: str, advice: str = "", **more: Any) -> Verdict:
        count = None if self.names is None else len(self.names)
        more = {
            "base_url": self.base_url,
            "key_env": self.key_env,
            "model": self.model or None,
            "models": count,
            **more,
        }
        return Verdict(self.provider, status, message, advice, **more)

    def how_to_get_a_key(self) -> str:
        if self.key_env is None:
            return "name the variable that holds its key with key_env"
        keys_at = getattr(self.service, "keys_at", "")
        where = f"; they are made at {keys_at}" if keys_at else ""
        return f"`dsh auth set {self.provider}` keeps one; or export {self.key_env}=YOUR_KEY{where}"

    async def by_list(self) -> Verdict:
        """Ask for the list of models; and a model itself, where that leaves something open."""
        error: LlmError | None = None
        if not connects(self.adapter):
            try:
                self.names = await self._list()
            except LlmError as failure:
                if not self._may_have_no_list(failure):
                    raise
                error = failure
        if self.names is None:
            return await self.by_token(error)
        if (self.wanted and self.wanted not in self.names) or await self._is_public():
            return await self.by_token(None)
        return self.fine()

    async def by_token(self, no_list: LlmError | None) -> Verdict:
        """Ask a model for next to nothing.

        Args:
            no_list: what came when it was asked for its models.
        """
        if not self.model and self.names:
            self.model = self.names[0]
        if not self.model:
            if no_list is not None:
                return self.failed(no_list)
            return self.verdict(
                "ok", f"{self._at()} answers; whether its models do, was not tried", f"name one: {self.provider}/MODEL"
            )
        request = Request(f"{self.provider}/{self.model}", (Message("user", "Say: ok"),), max_tokens=16)
        with trio.move_on_after(ANSWER_SECONDS) as scope:
            stream = await self.harness.llm.stream(request)
            async with aclosing(stream):
                async for chunk in stream:
                    if isinstance(chunk, Finish) and chunk.reason.kind == "error":
                        raise LlmError(chunk.reason.message or "the model failed", code=chunk.reason.code)
        if scope.cancelled_caught:
            raise LlmError(f"{self.provider} did not answer within {ANSWER_SECONDS:g} seconds", code="TIMEOUT")
        return self.fine()

    def fine(self) -> Verdict:
        has = f", {len(self.names)} model{'' if len(self.names) == 1 else 's'}" if self.names else ""
        key = f"the key in {self.key_env} is accepted" if self.has_key and self.key_env else "it answers"
        return self.verdict("ok", f"{self._at()}: fine: {key}{has}")

    def failed(self, error: LlmError) -> Verdict:
        """What an error says of key, address, network and model."""
        code, message = error.code, error.message
        if code == "AUTH":
            if not self.has_key:
                return self.verdict("no_key", message, self.how_to_get_a_key())
            advice = (
                f"make sure that {self.key_env or 'the key'} holds a key of this very service, which is not revoked"
            )
            return self.verdict("bad_key", message, advice)
        if is_mistake(code):
            return self.verdict("not_ready", message, "do what it says, and check again")
        if code == "QUOTA":
            return self.verdict("no_credit", message, "the key is good; the account needs credit")
        if code in ("UNAVAILABLE", "TIMEOUT") and error.status is None:
            cause = _cause(error)
            absent = getattr(self.service, "absent", None) if cause == "refused" else None
            found = message.partition("; nothing listens there")[0]
            return self.verdict("unreachable", found, absent or _CAUSES[cause], cause=cause)
        said = re.sub(r" \(HTTP .*", "", message)  # what is behind it are our own words
        if code == "NOT_FOUND" and (self.names is not None or re.search(r"\bmodel\b", said, re.IGNORECASE)):
            known = self.names or list(self.adapter.models)
            hint = did_you_mean(self.model, known) if known else ""
            advice = f"key and address are right; `dsh models {self.provider}` lists what there is{hint}"
            return self.verdict("unknown_model", message, advice)
        if _NOT_AN_API.fullmatch(code) and self.names is None:
            advice = f"set base_url to where the API is, which mostly ends in /v1; it is {self.base_url or 'not known'}"
            return self.verdict("wrong_url", f"{self._at()} is no address of its API: {message}", advice)
        if is_unavailable(code):
            return self.verdict("unavailable", message, "try again later")
        return self.verdict("refused", message, "key and address seem right; the service refuses the request itself")

    def _at(self) -> str:
        return f"{self.provider} at {self.base_url}" if self.base_url else self.provider

    def _may_have_no_list(self, error: LlmError) -> bool:
        """Whether a service that answers so may have no list of models, or keeps it from this key, and works."""
        if error.code == "AUTH":
            return error.status == 403
        return error.code == "INVALID_REQUEST" or _NOT_AN_API.fullmatch(error.code) is not None

    async def _list(self) -> list[str] | None:
        with trio.move_on_after(SECONDS) as scope:
            found = await self.harness.models.listed(self.provider)
            return None if found is None else [model.name for model in found]
        assert scope.cancelled_caught
        raise LlmError(f"{self.provider} {NOT_IN_TIME}", code="TIMEOUT")

    async def _is_public(self) -> bool:
        """Whether the list is there for everybody, so that it says nothing of the key."""
        path = getattr(self.service, "models_path", None)
        if not self.has_key or self.base_url is None or path is None:
            return False
        service = Service(Place(self.provider, "", self.base_url, ca_bundle=getattr(self.service, "ca_bundle", None)))
        try:
            with trio.move_on_after(SECONDS):
                await service.fetch(path)
                return True
        except LlmError:
            return False
        finally:
            await service.aclose()
        return False


def _cause(error: BaseException) -> str:
    """In a word, why a service was not reached."""
    chain = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in chain):
        return "tls"
    if any(type(cause).__name__ == "ProxyError" for cause in chain) or "proxy" in str(error):
        return "proxy"
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        return "dns"
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return "refused"
    if getattr(error, "code", "") == "TIMEOUT":
        return "timeout"
    return "network"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__
