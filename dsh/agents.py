"""Agents, as plugins and embedding programs see them: the interface, its registry, the factory slot.

The loop that drives an agent is a plugin; it answers ``agent_factory`` with an `AgentFactory`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from attrs import Attribute, field, frozen

from .errors import AgentError
from .messages import USER, BlockLike, MessageSource, TokenUsage
from .session.events import EndReason

if TYPE_CHECKING:
    from .harness import Harness
    from .hooks import PluginManager
    from .hookspecs import Hooks
    from .session.log import Session
    from .stash import Stash

__all__ = [
    "Agent",
    "AgentFactory",
    "AgentHandle",
    "AgentOptions",
    "AgentRegistry",
    "AgentRequest",
    "AgentStatus",
    "RunResult",
    "StartSource",
]

AgentStatus: TypeAlias = Literal["idle", "running", "disposed"]
StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]
T = TypeVar("T")


def _text(options: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise AgentError(f"AgentOptions.{attribute.name} is a text, not {value!r:.80}")


def _names(options: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, str):
        raise AgentError(f"AgentOptions.{attribute.name} are names, as in ({value!r},), not the text {value!r:.80}")


@frozen
class AgentOptions:
    """What an agent is made with.

    Attributes:
        model: ``provider/name``; empty leaves the choice to ``agent_request``.
        system_prompt: takes the place of the persona section, when given.
        append_system_prompt: a section after all others, when given.
        tools: names of the only tools it has, when given; its children have no others of them either.
        without_tools: names of tools that it and its children do not have.
        temperature, max_tokens, reasoning_effort: of its requests; None leaves them to the provider.
        one_turn: nobody listens to it once its turn has ended, so what it began in the background is waited for
            before that.
    """

    model: str = field(default="", validator=_text)
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    tools: tuple[str, ...] | None = field(default=None, validator=_names)
    without_tools: tuple[str, ...] = field(default=(), validator=_names)
    temperature: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    one_turn: bool = False


@frozen
class RunResult:
    """What `Agent.run` came to.

    Attributes:
        text: the last non-empty answer of the turn.
        reason: why the turn ended; None when it was cancelled before it opened.
        turn: its number, 0 when it never opened.
        usage: the tokens of all its requests.
    """

    text: str
    reason: EndReason | None
    turn: int
    usage: TokenUsage


class Agent(Protocol):
    """A driver bound to one live session.

    `send`, `steer`, `inject` and `cancel` contain no checkpoint: nothing else runs before they return.
    """

    @property
    def id(self) -> str: ...

    @property
    def session(self) -> Session: ...

    @property
    def harness(self) -> Harness: ...

    @property
    def options(self) -> AgentOptions: ...

    @property
    def status(self) -> AgentStatus: ...

    @property
    def parent(self) -> Agent | None: ...

    @property
    def depth(self) -> int:
        """0 for a root agent, 1 for its children, and so on."""
        ...

    @property
    def plugins(self) -> PluginManager:
        """The agent's scope: what is registered here is heard for this agent alone, and is gone with it."""
        ...

    @property
    def hook(self) -> Hooks:
        """The core's hooks, called as methods: ``await agent.hook.agent_request(agent=..., ...)``."""
        ...

    @property
    def stash(self) -> Stash:
        """Plugins' own state about this agent."""
        ...

    def hooks(self, protocol: type[T]) -> T:
        """The same relay as `hook`, typed by a plugin's own specs."""
        ...

    def send(self, content: BlockLike, source: MessageSource = USER) -> None:
        """Queue a message; all that are queued when a turn opens are its prompt.

        Raises:
            AgentError: the agent is disposed.
            BaseException: what an ``agent_queued`` implementation raised; the message is queued.
        """
        ...

    def steer(self, content: BlockLike, source: MessageSource = USER) -> None:
        """Put a message into the running turn, before its next request; like `send` when none runs.

        Raises:
            AgentError: the agent is disposed.
        """
        ...

    def inject(self, content: BlockLike, source: MessageSource) -> None:
        """Record context without asking the model: in the open turn, or as a turn of its own.

        Raises:
            AgentError: the agent is disposed.
            NotJson: content or source cannot be logged.
        """
        ...

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the running turn and drop everything queued, of this agent and of all below it.

        Nothing happens to those that are idle.  Never raises.
        """
        ...

    async def when_idle(self) -> None:
        """Wait until nothing runs and nothing is queued, or until the agent is gone.

        Cancelling the wait leaves the agent as it is.

        Raises:
            AgentError: this is called in the agent's own turn, in a hook or a tool, and would wait for itself.
        """
        ...

    async def run(self, content: BlockLike, source: MessageSource = USER) -> RunResult:
        """Send `content`, wait until the agent is idle, and return its last answer.

        Cancelling this call cancels the turn, and waits until its log is closed.

        Raises:
            AgentError: the agent is disposed, or this is called in its own turn, and would wait for itself.
        """
        ...

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> None:
        """Run `function` in a task that the agent owns: disposing the agent cancels it and waits for its end.

        What it raises is reported as ``agent_error`` and does not reach anybody else.
        """
        ...


class AgentHandle(Protocol):
    """The only way to tear an agent down."""

    @property
    def agent(self) -> Agent: ...

    async def dispose(self) -> None:
        """End the agent: close its turn, flush, stop its tasks, unwind its scope.

        Every caller waits for the same end.  Cancelling the wait does not stop the teardown.  Awaited
        inside the agent's own turn, or in a task that it owns, this call is cancelled by the end it began.
        """
        ...


@frozen
class AgentRequest:
    """What a factory makes an agent from.

    Attributes:
        agent_id: unique in the harness.
        session: entered by nobody yet.
        source: ``resume`` when `session` was loaded, else ``startup``.
        setup: called with the agent before its session starts; registers things, drives nothing.
    """

    agent_id: str
    session: Session
    options: AgentOptions
    source: StartSource = "startup"
    parent: Agent | None = None
    setup: Callable[[Agent], None] | None = None


@runtime_checkable
class AgentFactory(Protocol):
    """Who makes agents; the answer of ``agent_factory``."""

    def create(self, request: AgentRequest) -> AgentHandle:
        """Make an agent and start it, without a checkpoint.

        Raises:
            BaseException: what an implementation of ``session_created``, ``agent_created`` or
                `AgentRequest.setup` raised; nothing of the agent is left then.
        """
        ...


class AgentRegistry:
    """The live agents of a harness, in the order of their creation."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}

    def get(self, agent_id: str) -> Agent | None:
        """The agent with that id."""
        return self._agents.get(agent_id)

    def list(self) -> list[Agent]:
        """All agents."""
        return list(self._agents.values())

    def add(self, agent: Agent) -> None:
        """Enter an agent and tell ``agent_created``.

        Raises:
            AgentError: the id is taken; nothing has changed then.
            BaseException: what an implementation raised; the agent is taken out again.
        """
        if agent.id in self._agents:
            raise AgentError(f"there is an agent {agent.id!r} already")
        self._agents[agent.id] = agent
        try:
            agent.hook.agent_created(agent=agent)
        except BaseException:
            self.remove(agent)
            raise

    def remove(self, agent: Agent) -> None:
        """Take an agent out, then tell ``agent_disposed``; errors there are warnings."""
        if self._agents.get(agent.id) is not agent:
            return
        del self._agents[agent.id]
        try:
            agent.hook.agent_disposed(agent=agent)
        except Exception as exc:
            agent.harness.warn_error("agent_disposed", exc)
