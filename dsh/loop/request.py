"""The request of a step: its settings and header, the stream of its answer, and what failure leads to."""

from __future__ import annotations

from contextlib import aclosing
from itertools import chain

import trio
from attrs import evolve, frozen

from ..decisions import GiveUp, NextStep, Retry, expected
from ..errors import AgentError, LlmError
from ..llm.adapter import Request
from ..llm.assembler import Assembler
from ..llm.chunks import ChunkStream
from ..messages import CallConfig, Message, ToolCallBlock
from ..prompt import Assembled
from ..session.events import AssistantChunk, AssistantMessage, Header
from ..session.header import canonical, owed
from ..tasks import single
from .calls import OpenCall
from .masks import ChunkMask, masked_blocks
from .turn import Turn

__all__ = ["Answer", "ask"]


class _ListenerFailed(Exception):
    """A listener to the log raised while an answer arrived."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@frozen
class Answer:
    """What came of a request: the calls to run, and whether the token limit cut it off."""

    calls: tuple[ToolCallBlock, ...]
    cut: bool


async def ask(turn: Turn, assembled: Assembled, prefix: tuple[Message, ...], boundary: list[Message]) -> Answer | None:
    """Send the step's request and log its answer; None if a hook wants another step instead.

    Raises:
        Exception: the request failed for good, or a hook did.
    """
    agent, session = turn.agent, turn.agent.session
    config = await _config(turn)
    header = canonical(Header(config, assembled.system or None, assembled.schemas or None, prefix or None))
    event = owed(session, header, agent.anchored)
    if event is not None:
        session.append(event)
        agent.anchored = True
    request = Request(
        model=config.model,
        messages=(*prefix, *boundary),
        system=header.system,
        tools=header.tools,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        stop=config.stop,
        reasoning_effort=config.reasoning_effort,
        session_id=session.id,
    )
    answer = await _try(turn, request)
    if answer is None:
        return None
    return await _log(turn, answer)


async def _config(turn: Turn) -> CallConfig:
    agent = turn.agent
    last = agent.session.request_header() if agent.anchored else None
    options = agent.options
    config = (
        CallConfig(options.model, options.temperature, options.max_tokens, reasoning_effort=options.reasoning_effort)
        if last is None
        else last.config
    )
    answer = await agent.hook.agent_request(
        agent=agent, turn=turn.number, step=turn.step, config=config, default=lambda: config
    )
    config = expected("agent_request", answer, CallConfig)
    before = agent.session.request_header() if not config.model else None
    if before is not None:  # a session goes on with what it had
        effort = config.reasoning_effort or before.config.reasoning_effort
        config = evolve(config, model=before.config.model, reasoning_effort=effort)
    if not config.model:
        raise AgentError(
            f"agent {agent.id!r} has no model: name one in its options, or answer the hook agent_request",
            code="NO_MODEL",
        )
    return config


async def _try(turn: Turn, request: Request) -> Assembler | None:
    """Send the request until it is answered, or until the hooks give up."""
    attempt = 1
    while True:
        try:
            return await _stream(turn, request)
        except _ListenerFailed as exc:
            # Whoever listens to the log has nothing to do with the provider: another try would not help.
            raise exc.error from None
        except Exception as exc:
            error = exc
        if isinstance(error, ExceptionGroup):
            # What a nursery of the adapter wrapped; a group of several stays one.
            unwrapped = single(error)
            error = unwrapped if isinstance(unwrapped, Exception) else error
        if turn.scope.cancel_called:
            raise error
        decision = await turn.agent.hook.agent_request_error(
            agent=turn.agent, turn=turn.number, step=turn.step, error=error, attempt=attempt, default=GiveUp
        )
        decision = expected("agent_request_error", decision, Retry, NextStep, GiveUp)
        if isinstance(decision, GiveUp):
            raise error
        if isinstance(decision, NextStep):
            turn.streaming = None
            return None
        await trio.sleep(max(0.0, decision.after))
        attempt += 1


async def _stream(turn: Turn, request: Request) -> Assembler:
    """Log the chunks of one answer as they come, and assemble them."""
    agent, session, scope = turn.agent, turn.agent.session, turn.scope
    turn.streaming = assembler = Assembler()
    turn.chunk_seqs = seqs = []
    number, step = turn.number, turn.step
    secrets = agent.harness.secrets
    mask = ChunkMask(secrets.mask, secrets.pending) if secrets.any else None
    stream: ChunkStream = await agent.harness.llm.stream(request, agent)
    # Of the class, so that a plugin's stream that hands on what it does not know is not passed by.
    take_ready = getattr(type(stream), "take_ready", None)
    async with aclosing(stream):
        async for chunk in stream:
            if scope.cancel_called:
                await trio.lowlevel.checkpoint_if_cancelled()
            # What one read of the network brought is logged, and stored, in one go.
            arrived = (chunk,) if take_ready is None else (chunk, *take_ready(stream))
            try:
                with session.together():
                    for shown in arrived if mask is None else chain.from_iterable(map(mask.feed, arrived)):
                        seqs.append(session.append(AssistantChunk(number, step, shown)).seq)
                        assembler.feed(shown)
            except Exception as exc:
                raise _ListenerFailed(exc) from exc
    finish = assembler.finish
    if finish is not None and finish.kind == "error":
        raise LlmError(finish.message or "the provider reported an error", code=finish.code)
    if finish is not None and finish.kind == "aborted":
        raise LlmError(finish.message or "the provider aborted the answer", code="ABORTED")
    return assembler


async def _log(turn: Turn, answer: Assembler) -> Answer:
    """Ask what to make of the answer, and log it."""
    agent, session = turn.agent, turn.agent.session
    cut = answer.finish is not None and answer.finish.kind == "max-tokens"
    # What the chunks hid only in parts is whole here.
    mask = agent.harness.secrets.mask if agent.harness.secrets.any else None
    content = answer.content()
    message = Message("assistant", content if mask is None else masked_blocks(content, mask))
    if cut:
        message = _without_calls(message)
    proposed = message
    try:
        result = await agent.hook.agent_step_result(
            agent=agent, turn=turn.number, step=turn.step, message=message, default=lambda: proposed
        )
    except Exception:
        # A filter that failed must not be got round: what it was to look at stays out of the conversation.
        turn.streaming = None
        raise
    message = expected("agent_step_result", result, Message)
    if message is not proposed and mask is not None:
        message = evolve(message, content=masked_blocks(message.content, mask))
    # A call that was cut off may lack half of its arguments: it does not run.
    message = _without_calls(message) if cut else _with_unique_ids(message, session.call_ids)
    turn.streaming = None
    calls = tuple(block for block in message.content if isinstance(block, ToolCallBlock))
    if message.content or answer.usage is not None:
        for call in calls:
            turn.open_calls[call.id] = OpenCall(call)
        data = AssistantMessage(turn.number, turn.step, message.content, answer.usage)
        session.append(data, sources=turn.chunk_seqs or None)
    return Answer(calls, cut)


def _without_calls(message: Message) -> Message:
    kept = tuple(block for block in message.content if not isinstance(block, ToolCallBlock))
    return message if len(kept) == len(message.content) else evolve(message, content=kept)


def _with_unique_ids(message: Message, seen: set[str]) -> Message:
    """Give calls without an id, or with one that the session has seen, an id of their own."""
    used: set[str] = set()
    content = []
    changed = False
    for block in message.content:
        if isinstance(block, ToolCallBlock):
            unique, number = block.id or "call", 2 if block.id else 1
            if not block.id or unique in seen or unique in used:
                while (candidate := f"{unique}-{number}") in seen or candidate in used:
                    number += 1
                block = evolve(block, id=candidate)
                changed = True
            used.add(block.id)
        content.append(block)
    return evolve(message, content=tuple(content)) if changed else message
