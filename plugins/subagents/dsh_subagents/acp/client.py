"""The client's side of the protocol: a session with an agent, its prompts, and what the agent asks of us."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import trio
from attrs import define, field, frozen

from dsh import Agent, ToolCall
from dsh.jsonvalue import Json

from ..provider import SubagentError
from .judged import DENIED, Calls, tools_of
from .peer import INVALID, NO_METHOD, Failed, Gone, Peer, Refusal, Reply
from .permission import calls_of, choice, stand_in
from .settings import Permission
from .terminals import Terminals

__all__ = ["Answered", "Client", "Prompt", "Update", "failed"]

VERSION = 1
"""The version of the protocol."""
LOGIN = -32000
WAITING = 256
"""Updates that wait to be read, before the agent has to."""
CANCEL_SECONDS = 5.0
"""How long a cancelled agent may take to answer the prompt that it was given."""

CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}

Update: TypeAlias = Mapping[str, Any]


@frozen
class Answered:
    """The prompt was answered."""

    result: Mapping[str, Any]


News: TypeAlias = "Update | Answered | Failed | Gone"


@define(eq=False)
class Prompt:
    """A prompt that is being worked on.

    Attributes:
        updates: what the agent tells, and last what it answers; closed when nobody reads it any more.
    """

    updates: trio.MemoryReceiveChannel[News]
    _sending: trio.MemorySendChannel[News]
    answered: trio.Event = field(factory=trio.Event)
    number: int = -1

    async def put(self, item: News) -> None:
        """Hand on what came; nothing happens where nobody reads."""
        with suppress(trio.BrokenResourceError):
            await self._sending.send(item)


class Client:
    """One session with an agent of another program.

    Args:
        name: of the agent in the settings.
        permission: what becomes of the permissions that it asks for.
        nursery: where the commands run that it asks for.
    """

    def __init__(self, name: str, permission: Permission, nursery: trio.Nursery) -> None:
        self.name = name
        self.peer: Peer | None = None
        self.permission = permission
        self._nursery = nursery
        self._session: str | None = None
        self._prompt: Prompt | None = None
        self._cancelled = False
        self._calls: Calls | None = None
        self._terminals: Terminals | None = None
        self._methods: frozenset[str] = frozenset()
        self._scopes: set[trio.CancelScope] = set()

    # -- what we ask

    async def open(self, peer: Peer, parent: Agent, cwd: str) -> None:
        """Begin a session in `cwd`.

        Raises:
            SubagentError: the agent cannot be talked to, or refuses.
        """
        self.peer = peer
        tools = tools_of(parent)
        reads, writes, runs = "read" in tools, "write" in tools, "bash" in tools
        offered = {"fs/read_text_file": reads, "fs/write_text_file": writes, "terminal": runs}
        self._methods = frozenset(name for name, has in offered.items() if has)
        hello = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": reads, "writeTextFile": writes}, "terminal": runs},
            "clientInfo": {"name": "dsh", "version": _own_version()},
        }
        found = await self._call(peer, "initialize", hello)
        if found.get("protocolVersion") != VERSION:
            said = f"{found.get('protocolVersion')!r:.40}"
            raise SubagentError(
                f"{self.name} speaks version {said} of the protocol, and dsh {VERSION}", code="ACP_VERSION"
            )
        session = (await self._call(peer, "session/new", {"cwd": cwd, "mcpServers": []})).get("sessionId")
        if not isinstance(session, str):
            raise SubagentError(f"{self.name} began no session", code="ACP_PROTOCOL")
        self._session = session

    async def _call(self, peer: Peer, method: str, params: Json) -> dict[str, Any]:
        try:
            return await peer.call(method, params)
        except Gone as gone:
            raise SubagentError(f"{self.name} {gone}", code="ACP_GONE") from None
        except Refusal as refusal:
            hint = "; start it by hand once, and log in" if refusal.code == LOGIN else ""
            raise SubagentError(f"{self.name} refused {method}: {refusal}{hint}", code="ACP_REFUSED") from None

    def serve(self, agent: Agent) -> None:
        """From now on do for the agent, as `agent`, what it asks for."""
        self._calls = Calls(agent)
        self._terminals = Terminals(self._calls, self._nursery)

    def wants(self, call: ToolCall) -> bool:
        """Whether `call` stands for a permission that the agent asks for."""
        return self._calls is not None and call.id in self._calls.asking

    async def prompt(self, texts: list[str]) -> Prompt:
        """Give the agent something to do.

        Raises:
            SubagentError: it takes nothing any more.
        """
        assert self.peer is not None
        sending, receiving = trio.open_memory_channel[News](WAITING)
        prompt = Prompt(receiving, sending)

        async def answered(reply: Reply) -> None:
            prompt.answered.set()
            if self._prompt is prompt:
                self._prompt = None
            await prompt.put(Answered(reply) if isinstance(reply, dict) else reply)

        self._cancelled = False
        self._prompt = prompt
        blocks = [{"type": "text", "text": text} for text in texts]
        try:
            params = {"sessionId": self._session, "prompt": blocks}
            prompt.number = await self.peer.begin("session/prompt", params, answered)
        except Gone as gone:
            self._prompt = None
            raise SubagentError(f"{self.name} {gone}", code="ACP_GONE") from None
        except BaseException:
            self._prompt = None
            raise
        return prompt

    async def leave(self, prompt: Prompt) -> None:
        """Be done with a prompt; one that is not answered is cancelled, which is waited for, within a bound."""
        prompt.updates.close()
        if prompt.answered.is_set() or self.peer is None:
            return
        self._cancelled = True
        for scope in self._scopes:  # it waits for what it asked for, maybe, before it answers
            scope.cancel()
        if self._terminals is not None:
            self._terminals.stop()
        with trio.move_on_after(CANCEL_SECONDS, shield=True):
            with suppress(Gone):
                await self.peer.tell("session/cancel", {"sessionId": self._session})
                await prompt.answered.wait()
        self.peer.forget(prompt.number)
        if self._prompt is prompt:
            self._prompt = None

    # -- what the agent tells and asks

    async def told(self, method: str, params: Mapping[str, Any]) -> None:
        """Hear of what it does; what belongs to no prompt, or to another session, is passed over."""
        update = params.get("update")
        if method != "session/update" or not isinstance(update, dict) or not self._is_own(params):
            return
        prompt = self._prompt
        if prompt is not None:
            await prompt.put(update)

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        """Do what it asks for.

        Raises:
            Refusal: there is no such method, the request is wrong, or it is not permitted.
        """
        family = "terminal" if method.startswith("terminal/") else method
        if method != "session/request_permission" and family not in self._methods:
            raise Refusal(NO_METHOD, f"there is no method {method:.80}")
        if not self._is_own(params):
            raise Refusal(INVALID, "there is no such session")
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._do(method, params)
            finally:
                self._scopes.discard(scope)
        if method == "session/request_permission":
            return CANCELLED
        raise Refusal(DENIED, "cancelled")

    async def _do(self, method: str, params: Mapping[str, Any]) -> Json:
        calls, terminals = self._calls, self._terminals
        if calls is None or terminals is None:
            raise Refusal(INVALID, "there is no prompt that this could be for")
        id = params.get("terminalId")
        match method:
            case "session/request_permission":
                return await self._permitted(calls, params)
            case "fs/read_text_file":
                line, limit = (_whole(params, name) for name in ("line", "limit"))
                return {"content": await calls.read(_path(params), line, limit)}
            case "fs/write_text_file":
                content = params.get("content")
                if not isinstance(content, str):
                    raise Refusal(INVALID, "content must be text")
                await calls.write(_path(params), content)
                return {}
            case "terminal/create":
                return await terminals.create(params)
            case "terminal/output":
                return terminals.output(id)
            case "terminal/wait_for_exit":
                return await terminals.wait(id)
            case "terminal/kill":
                return await terminals.kill(id)
            case "terminal/release":
                return await terminals.release(id)
        raise Refusal(NO_METHOD, f"there is no method {method:.80}")

    async def _permitted(self, calls: Calls, params: Mapping[str, Any]) -> Json:
        wanted, options = params.get("toolCall"), params.get("options")
        if not isinstance(wanted, dict) or not isinstance(options, list):
            raise Refusal(INVALID, "toolCall must be an object, and options a list")
        if self._cancelled or self._prompt is None:
            return CANCELLED
        allowed = self.permission != "reject" and await self._judged(calls, wanted)
        if self._cancelled:
            return CANCELLED
        return choice(options, allowed)

    async def _judged(self, calls: Calls, wanted: Mapping[str, Any]) -> bool:
        """Whether everything that it wants to do is allowed; nothing that its parent was denied is."""
        parent = calls.agent.parent
        tools = tools_of(calls.agent if parent is None else parent)
        for name, arguments in calls_of(wanted):
            if tools.masked(name):
                return False
            tool = tools.get(name) or stand_in(name)
            try:
                judged = await calls.judge("session/request_permission", name, arguments, tool)
            except Refusal as refusal:
                if refusal.code == DENIED:
                    return False
                raise
            if judged.is_error:
                return False
        return True

    def _is_own(self, params: Mapping[str, Any]) -> bool:
        return self._session is not None and params.get("sessionId") == self._session


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dsh-harness")
    except PackageNotFoundError:
        return "0"


def failed(name: str, reply: Failed) -> SubagentError:
    """The error of a prompt that was answered with one."""
    return SubagentError(f"{name} failed: {reply.message}", code="ACP_ERROR")


def _path(params: Mapping[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        raise Refusal(INVALID, "path must be text")
    return path


def _whole(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None or type(value) is int:
        return value
    raise Refusal(INVALID, f"{name} must be a whole number")
