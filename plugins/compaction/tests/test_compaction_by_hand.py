"""``/compact``: idle, at work, and when somebody is quicker."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from dsh_compaction.compactor import compact_now

from dsh import AgentError
from dsh.commands import Commands
from dsh.messages import text_of
from dsh.session.grammar import problems
from dsh.testing import call, cut, fail, plugin_of, shape, text, tool_of

WORDS = tool_of("words", lambda call: "one two three " * 100)
LARGE = {"context_window": 1_000_000}


def calls(count: int) -> list[Any]:
    return [call("words", id=f"c{number}") for number in range(count)]


async def test_of_an_idle_agent(writer: Any, talk: Any, check: Any) -> None:
    model = writer(*calls(5), text("done"), text("and on"))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        await agent.run("do it")
        commands = Commands()
        agent.hook.dsh_add_commands(commands=commands)
        said = await commands.slash()["compact"].call(agent, "keep the ports")
        assert said.startswith("summarised 11 messages")
        assert "special care of this: keep the ports" in text_of(model.asked[0].messages[-1].content)
        assert shape(agent.session.events).endswith("T+2 compact/start compact/summary U compact/end T-(completed)")
        assert (await agent.run("go on")).turn == 3
        check(agent.session, model)
        assert problems(agent.session.events) == []
    assert [text_of(m.content)[:4] for m in model.steps[-1].messages] == ["What", "done", "go o"]


async def test_of_an_agent_at_work(writer: Any, talk: Any, check: Any) -> None:
    said: list[str] = []

    async def agent_pre_step(agent: Any, step: int) -> None:
        if step == 4:
            said.append(await compact_now(agent, "the names"))

    model = writer(*calls(6), text("done"))
    async with talk(model, LARGE, {"words": WORDS, "person": plugin_of(agent_pre_step=agent_pre_step)}) as agent:
        assert (await agent.run("do it")).text == "done"
        assert "S-3 compact/start compact/summary U compact/end S+4" in shape(agent.session.events)
        check(agent.session, model)
    assert said == ["the conversation will be summarised before the next request"]
    assert "the names" in text_of(model.asked[0].messages[-1].content)


async def test_with_automatic_compaction_off(writer: Any, talk: Any) -> None:
    model = writer(*calls(5), text("done"))
    async with talk(model, {"enabled": False}, {"words": WORDS}) as agent:
        await agent.run("do it")
        assert (await compact_now(agent, "")).startswith("summarised")


async def test_of_a_conversation_without_anything(writer: Any, talk: Any) -> None:
    model = writer(text("hello"))
    async with talk(model) as agent:
        with pytest.raises(Exception, match="nothing was asked"):
            await compact_now(agent, "")
        await agent.run("hello")
        assert await compact_now(agent, "") == "there is nothing worth summarising yet"
    assert model.asked == []


async def test_a_summary_that_cannot_be_used(writer: Any, talk: Any) -> None:
    model = writer(*calls(5), text("done"), summaries=(cut("x"), cut("x")))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        await agent.run("do it")
        before = len(agent.session.events)
        with pytest.raises(Exception, match="cut off"):
            await compact_now(agent, "")
        assert len(agent.session.events) == before


async def test_after_it_had_been_given_up(writer: Any, talk: Any, check: Any) -> None:
    """What a person did by hand makes another try worth while."""
    too_long = fail("too long", code="CONTEXT_OVERFLOW")
    replies = [*calls(5), *[too_long] * 6, *[call("words", id=f"d{n}") for n in range(5)], too_long, text("done")]
    model = writer(*replies, summaries=(too_long,) * 8)
    async with talk(model, {**LARGE, "prune": False}, {"words": WORDS}) as agent:
        for _ in range(4):
            reason = (await agent.run("do it")).reason
            assert reason is not None
            assert reason.kind == "error"
        model.summaries.clear()
        asked = len(model.asked)
        assert (await compact_now(agent, "")).startswith("summarised")
        while (await agent.run("go on")).text != "done":
            pass
        check(agent.session, model)
    assert len(model.asked) > asked + 1


async def test_somebody_sends_a_prompt_meanwhile(writer: Any, talk: Any, check: Any) -> None:
    """Nobody but the driver has a turn open then; the person is told, and nothing has changed."""

    async def compaction_summarise(agent: Any) -> None:
        agent.send("quick")
        while agent.status == "idle":
            await trio.lowlevel.checkpoint()

    model = writer(*calls(5), text("done"), text("quick as well"))
    plugins = {"words": WORDS, "person": plugin_of(compaction_summarise=compaction_summarise)}
    async with talk(model, LARGE, plugins) as agent:
        await agent.run("do it")
        with pytest.raises(AgentError, match="began to work") as caught:
            await compact_now(agent, "")
        assert caught.value.code == "BUSY"
        await agent.when_idle()
        assert "compact/" not in shape(agent.session.events)
        check(agent.session, model)


async def test_cancelled_by_hand(writer: Any, talk: Any) -> None:
    from dsh.testing import hang

    model = writer(*calls(5), text("done"), summaries=(hang(),))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        await agent.run("do it")
        before = len(agent.session.events)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact_now, agent, "")
            while not model.asked:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert len(agent.session.events) == before
