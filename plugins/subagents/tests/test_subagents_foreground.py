"""Children that are waited for: what they get, what comes back, and that nothing of them stays."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from dsh import AgentOptions, ToolResult
from dsh.llm.scripted import ScriptedModel
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.testing import call, cut, fail, hang, memory_harness, plugin_of, reply, shape, text, tool_of

TASK = {"description": "a part", "prompt": "do it"}


def tasks(*prompts: str, **more: Any) -> list[tuple[str, str, dict[str, Any]]]:
    return [(f"c{n}", "subagent", {"description": p, "prompt": p, **more}) for n, p in enumerate(prompts, 1)]


async def test_a_child_answers_its_parents_call(stage: Any) -> None:
    async with stage.agent(call("subagent", TASK), text("the part"), text("done")) as agent:
        assert (await agent.run("go")).text == "done"
        (child,) = stage.children
        assert stage.results(agent.session) == [("the part", None)]
        assert stage.asked(child.session) == ["do it"]
        assert stage.links(agent.session) == [("start", "subagent-1", None), ("end", "subagent-1", "completed")]
        assert (child.status, child.depth, agent.harness.agents.list()) == ("disposed", 1, [agent])


async def test_a_child_is_in_the_log_of_its_parent_and_its_own(stage: Any) -> None:
    async with stage.agent(call("subagent", TASK), text("the part"), text("done"), cwd="/tmp") as agent:
        await agent.run("go")
        (start,) = [event.data for event in agent.session.events if event.type == "subagent/start"]
        (end,) = [event.data for event in agent.session.events if event.type == "subagent/end"]
        header = stage.children[0].session.header
        assert (start.session_id, start.call_id, start.provider) == (header.id, "c1", "spawn")
        assert (header.parent_session, header.cwd, header.seed_length) == (agent.session.id, "/tmp", None)
        assert (end.took.input_tokens, end.took.output_tokens) == (10, 8)


async def test_two_children_work_beside_each_other(stage: Any) -> None:
    """Neither can answer before both have been asked."""
    both, asked = trio.Event(), 0

    async def meet(call: Any) -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            both.set()
        await both.wait()
        return "met"

    script = [reply(calls=tasks("A", "B")), call("meet"), call("meet"), text("x"), text("x"), text("done")]
    async with stage.agent(*script, plugins={"meet": tool_of("meet", meet)}) as agent:
        assert (await agent.run("go")).text == "done"
        assert [result[0] for result in stage.results(agent.session)] == ["x", "x"]
        assert [stage.asked(child.session)[0] for child in stage.children] == ["A", "B"], "in the model's order"


FAILURES = [
    (fail("the service is gone", code="SERVER"), "SUBAGENT_FAILED", "the service is gone"),
    (reply("half", finish="max-tokens"), "SUBAGENT_MAX_TOKENS", "half"),
    (cut("what it had"), "SUBAGENT_MAX_TOKENS", "what it had"),
]


@pytest.mark.parametrize(("failing", "code", "said"), FAILURES)
async def test_a_child_that_fails_is_an_error_with_what_it_had_said(
    stage: Any, failing: Any, code: str, said: str
) -> None:
    async with stage.agent(call("subagent", TASK), failing, text("done")) as agent:
        assert (await agent.run("go")).text == "done"
        ((result, found),) = stage.results(agent.session)
        assert found == code
        assert said in result
        assert stage.links(agent.session)[1][2] != "completed"


async def test_the_answer_is_the_last_message_that_is_not_empty(stage: Any) -> None:
    """The last answer of the child has no text at all."""
    script = [call("subagent", TASK), reply("the answer", calls=[("w", "work", {})]), reply(""), text("done")]
    async with stage.agent(*script, plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        assert stage.results(agent.session) == [("the answer", None)]


async def test_a_child_that_says_nothing_says_so(stage: Any) -> None:
    async with stage.agent(call("subagent", TASK), reply(""), text("done")) as agent:
        await agent.run("go")
        ((result, code),) = stage.results(agent.session)
        assert ("without saying anything" in result, code) == (True, None)


async def test_a_prompt_that_a_gate_blocks(stage: Any) -> None:
    from dsh import Block

    gate = plugin_of(agent_prompt_submit=lambda agent: Block("not this") if agent.depth else None)
    async with stage.agent(call("subagent", TASK), text("done"), plugins={"gate": gate}) as agent:
        assert (await agent.run("go")).text == "done"
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_REFUSED"
        assert "not this" in result


async def test_a_long_answer_is_shortened(stage: Any) -> None:
    long = "a" * 900 + "b" * 900
    async with stage.agent(call("subagent", TASK), text(long), text("done"), settings={"max_result": 1000}) as agent:
        await agent.run("go")
        ((result, _),) = stage.results(agent.session)
        assert result.startswith("a" * 500)
        assert result.endswith("b" * 500)
        assert stage.children[0].session.id in result


# -- a child with the parent's beginning


async def test_a_fork_begins_as_its_parent_did(stage: Any) -> None:
    model = ScriptedModel(text("first answer"), call("subagent_fork", TASK), text("the part"), text("done"))
    async with stage.agent(model=model) as agent:
        await agent.run("first")
        await agent.run("second")
        (child,) = stage.children
        length = child.session.header.seed_length
        assert isinstance(agent.session.events[length - 1].data, ev.TurnEnd)
        assert agent.session.events[length].type == "turn/start"
        assert list(child.session.events[:length]) == list(agent.session.events[:length])
        assert stage.asked(child.session) == ["first", "do it"]
        assert shape(child.session.events[length:]).startswith("T+2 U S+1 H(resume)")
        assert stage.results(agent.session) == [("the part", None)]

        forked, parents = model.requests[2], model.requests[1]
        assert (forked.system, forked.tools, forked.model) == (parents.system, parents.tools, parents.model)
        assert forked.messages[:2] == parents.messages[:2]


async def test_a_fork_has_the_prefix_of_its_parent(stage: Any) -> None:
    """Composed once, though the plugin would say something else the second time."""
    from dsh import Message

    count = 0

    async def prefix(prefix: Any) -> None:
        nonlocal count
        count += 1
        prefix.add(Message("user", f"number {count}"))

    model = ScriptedModel(
        text("a"), call("subagent_fork", TASK), text("the part"), call("subagent", TASK), text("b"), text("c")
    )
    async with stage.agent(model=model, plugins={"prefix": plugin_of(agent_session_prefix=prefix)}) as agent:
        await agent.run("first")
        await agent.run("second")
        begins = [text_of(request.messages[0].content) for request in model.requests]
        assert begins == ["number 1"] * 4 + ["number 2", "number 1"]


async def test_a_fork_that_fails_at_once_does_not_say_what_its_parent_said(stage: Any) -> None:
    """S5."""
    async with stage.agent(text("parents"), call("subagent_fork", TASK), fail("no"), text("done")) as agent:
        await agent.run("first")
        await agent.run("second")
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_FAILED"
        assert "parents" not in result


async def test_a_fork_in_the_first_turn_is_a_fresh_child(stage: Any) -> None:
    async with stage.agent(call("subagent_fork", TASK), text("the part"), text("done")) as agent:
        await agent.run("first")
        assert stage.children[0].session.header.seed_length is None
        assert stage.results(agent.session) == [("the part", None)]


async def test_a_fork_of_a_fork_counts_its_children_anew(stage: Any) -> None:
    """No id is used twice in one log, though that of the fork begins with its parent's."""
    script = [
        *(call("subagent", TASK, id="a"), text("one"), text("first answer")),
        *(
            call("subagent_fork", TASK, id="b"),
            call("subagent", TASK, id="c"),
            text("deep"),
            text("part"),
            text("done"),
        ),
    ]
    async with stage.agent(*script) as agent:
        await agent.run("first")
        await agent.run("second")
        fork = stage.children[1]
        started = [event.data.id for event in fork.session.events if event.type == "subagent/start"]
        assert started == ["subagent-1", "subagent-2"]


# -- being cut off


async def test_a01_a_cancel_reaches_a_child_that_hangs_and_keeps_the_other_ones_result(stage: Any) -> None:
    """A01: one hangs, one is done; the next request has what was done."""
    script = [reply(calls=tasks("A", "B")), hang("half of A"), text("B's result"), text("done")]
    async with stage.agent(*script) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("enough")
        await agent.when_idle()
        assert [code for _, code in stage.results(agent.session)] == ["ABORTED", None]
        assert stage.results(agent.session)[1][0] == "B's result"
        assert agent.harness.agents.list() == [agent], "nothing is left when the parent is idle"
        assert shape(stage.children[0].session.events).endswith("A~ S-1 T-(aborted enough)")
        assert (await agent.run("and now?")).text == "done"


async def test_a03_what_is_said_meanwhile_is_heard_after_the_children(stage: Any) -> None:
    """A03."""
    going = trio.Event()

    async def wait(call: Any) -> str:
        await going.wait()
        return "ok"

    script = [call("subagent", TASK), call("wait"), text("sub"), text("answered both")]
    async with stage.agent(*script, plugins={"wait": tool_of("wait", wait)}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.steer("and something else")
        going.set()
        await agent.when_idle()
        assert stage.asked(agent.session) == ["go", "and something else"]
        assert "TR(c1) ST S-1 S+2" in shape(agent.session.events)


async def test_a_child_that_takes_too_long_is_ended(stage: Any, autojump_clock: trio.testing.MockClock) -> None:
    async with stage.agent(call("subagent", TASK), hang("so far"), text("done"), settings={"timeout": "10m"}) as agent:
        assert (await agent.run("go")).text == "done"
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_TIMEOUT"
        assert "10 min" in result
        assert "so far" in result
        assert agent.harness.agents.list() == [agent]


async def test_a_child_that_is_ended_from_outside(stage: Any) -> None:
    async with stage.agent(call("subagent", TASK), hang("so far"), text("done")) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        await agent.harness.dispose_children(agent)
        await agent.when_idle()
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_FAILED"
        assert "so far" in result


async def test_disposing_the_parent_ends_the_whole_tree() -> None:
    import dsh_subagents

    script = [call("subagent", TASK, id="a"), call("subagent", TASK, id="b"), hang()]
    async with memory_harness(*script, plugins={"subagents": dsh_subagents}) as harness:
        handle = harness.create_agent(options=AgentOptions(model="scripted/model"))
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        tree = harness.agents.list()
        assert [agent.depth for agent in tree] == [0, 1, 2]
        await handle.dispose()
        assert harness.agents.list() == []
        assert [agent.status for agent in tree] == ["disposed"] * 3
        assert all(agent.session.open_turn is None for agent in tree)


async def test_a_child_that_cannot_be_made_is_an_error(stage: Any) -> None:
    def refuse(agent: Any) -> None:
        if agent.depth:
            raise RuntimeError("no more agents")

    async with stage.agent(
        call("subagent", TASK), text("done"), plugins={"refuse": plugin_of(agent_created=refuse)}
    ) as agent:
        assert (await agent.run("go")).text == "done"
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_FAILED"
        assert "no more agents" in result
        assert stage.links(agent.session) == []


async def test_a_result_that_a_guard_looks_at_after_a_cancel(stage: Any) -> None:
    """What is kept of a finished child passes the same review as ever."""
    from dsh import Accept

    script = [reply(calls=tasks("A", "B")), hang(), text("a secret"), text("done")]
    async with stage.agent(*script) as agent:

        def hide(call: Any, result: ToolResult) -> Accept:
            return Accept(content=evolve(result, content=text_of(result.content).replace("secret", "***")).content)

        agent.plugins.register(plugin_of(tools_post_execute=hide), "hide")
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
        assert [result for result, _ in stage.results(agent.session)][1] == "a ***"
