"""Children in the background: how they are looked after, and how their parent hears of their end."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve
from dsh_subagents import subagents_of
from dsh_subagents.provider import Task

from dsh import AgentOptions
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.testing import call, fail, hang, plugin_of, reply, shape, text, tool_of

TASK = {"description": "a part", "prompt": "do it", "background": True}
ONE_TURN = AgentOptions(model="scripted/model", one_turn=True)


def start(id: str = "c1", **more: Any) -> tuple[str, str, dict[str, Any]]:
    return (id, "subagent", {**TASK, **more})


class Gate:
    """A tool that holds whoever calls it until it is opened."""

    def __init__(self) -> None:
        self.opened = trio.Event()
        self.plugin = tool_of("wait", self._wait)

    async def _wait(self, call: Any) -> str:
        await self.opened.wait()
        return "opened"


def napping(seconds: float) -> object:
    async def nap(call: Any) -> str:
        await trio.sleep(seconds)
        return "rested"

    return tool_of("nap", nap)


async def test_the_end_of_a_child_wakes_its_idle_parent(stage: Any) -> None:
    gate = Gate()
    script = [reply(calls=[start()]), text("it works on"), text("now I know")]
    below = [[call("wait"), text("the part")]]
    async with stage.agent(*script, below=below, plugins={"gate": gate.plugin}) as agent:
        assert (await agent.run("go")).text == "it works on"
        assert agent.status == "idle"
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        events = shape(agent.session.events)
        assert "T-(completed) T+2 subagent/end U S+1" in events
        assert stage.asked(agent.session)[1] == "subagent-1 (a part) has finished. Its answer:\n\nthe part"
        turn = [event.data for event in agent.session.events if isinstance(event.data, ev.TurnStart)][1]
        assert (turn.trigger.kind, turn.trigger.source.kind) == ("message", "plugin")
        assert agent.harness.agents.list() == [agent]


async def test_a_parent_at_work_hears_of_it_before_its_next_step(stage: Any) -> None:
    gate = Gate()
    script = [reply(calls=[start(), ("c2", "wait", {})]), text("done")]
    async with stage.agent(*script, below=[[text("the part")]], plugins={"gate": gate.plugin}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        gate.opened.set()
        await agent.when_idle()
        assert "TR(c1) TC(c2) subagent/end TR(c2) ST S-1 S+2" in shape(agent.session.events)
        assert "the part" in stage.asked(agent.session)[1]


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (fail("no service"), "failed: no service"),
        (reply("half", finish="max-tokens"), "What it had said last:\n\nhalf"),
    ],
)
async def test_a_failure_wakes_it_too(stage: Any, ending: Any, said: str) -> None:
    async with stage.agent(reply(calls=[start()]), text("a"), text("b"), below=[[ending]]) as agent:
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        assert said in "\n".join(stage.asked(agent.session))


async def test_where_nobody_listens_later_the_turn_waits(stage: Any) -> None:
    """As of `dsh -p`, of a batch's tasks, and of children: their turn is all there is."""
    gate = Gate()
    script = [reply(calls=[start()]), text("meanwhile"), text("all of it")]
    below = [[call("wait"), text("the part")]]
    async with stage.agent(*script, below=below, plugins={"gate": gate.plugin}, options=ONE_TURN) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        assert agent.status == "running"
        gate.opened.set()
        await agent.when_idle()
        assert shape(agent.session.events).count("T+") == 1
        last = [event.data for event in agent.session.events if isinstance(event.data, ev.AssistantMessage)][-1]
        assert text_of(last.content) == "all of it"


async def test_a_turn_that_waits_hears_what_is_said_to_it(stage: Any) -> None:
    script = [reply(calls=[start()]), text("meanwhile"), text("heard")]
    async with stage.agent(*script, below=[[hang()]], options=ONE_TURN) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.steer("how far are you?")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.asked(agent.session) == ["go", "how far are you?"]
        assert agent.status == "running", "the child is still at work"
        agent.cancel("enough")
        await agent.when_idle()
        assert agent.harness.agents.list() == [agent]


async def test_a_child_waits_for_its_own_children(stage: Any) -> None:
    script = [
        call("subagent", {"description": "outer", "prompt": "outer"}),
        text("done"),
    ]
    outer = [reply(calls=[start("inner")]), text("not yet"), text("outer knows")]
    async with stage.agent(*script, below=[outer, [text("deep")]]) as agent:
        assert (await agent.run("go")).text == "done"
        assert [child.depth for child in stage.children] == [1, 2]
        assert stage.results(agent.session) == [("outer knows", None)]


async def test_listing_reading_messages_and_stopping(stage: Any) -> None:
    gate = Gate()
    script = [
        reply(calls=[start(), ("c0", "look", {})]),
        call("subagent_list", {}, id="c2"),
        call("subagent_output", {"id": "subagent-1"}, id="c3"),
        call("subagent_output", {"id": "subagent-1"}, id="c4"),
        call("subagent_send", {"id": "subagent-1", "message": "be quick"}, id="c5"),
        call("subagent_stop", {"id": "subagent-1"}, id="c6"),
        call("subagent_list", {}, id="c7"),
        call("subagent_output", {"id": "subagent-1"}, id="c8"),
        call("subagent_send", {"id": "subagent-1", "message": "hello?"}, id="c9"),
        call("subagent_stop", {"id": "subagent-7"}, id="c10"),
        text("done"),
    ]
    below = [[reply("I begin", calls=[("w", "wait", {})])]]
    plugins = {"gate": gate.plugin, "look": tool_of("look", lambda call: trio.testing.wait_all_tasks_blocked())}
    async with stage.agent(*script, below=below, plugins=plugins) as agent:
        await agent.run("go")
        _, _, listed, read, again, sent, stopped, listed_later, read_later, unsent, unknown = stage.results(
            agent.session
        )
        assert listed[0] == "subagent-1 (a part, in the background): running"
        assert read[0].startswith("subagent-1 is at work.")
        assert "I begin\n[wait] {}" in read[0]
        assert "Nothing new" in again[0]
        assert sent == ("subagent-1 will read it before its next step.", None)
        assert stopped[0] == "subagent-1 was stopped. What it had said last:\n\nI begin"
        assert listed_later[0] == "subagent-1 (a part, in the background): ended: aborted"
        assert stage.children[0].session.id in read_later[0]
        assert unsent[1] == "SUBAGENT_FAILED"
        assert unknown[1] == "UNKNOWN_SUBAGENT"
        assert stage.asked(agent.session) == ["go"], "who stopped it need not be told"
        assert agent.harness.agents.list() == [agent]


async def test_a_message_reaches_a_child(stage: Any) -> None:
    gate = Gate()
    script = [
        reply(calls=[start()]),
        call("subagent_send", {"id": "subagent-1", "message": "look at b, too"}, id="c2"),
        text("sent"),
        text("done"),
    ]
    below = [[call("wait"), text("both")]]
    async with stage.agent(*script, below=below, plugins={"gate": gate.plugin}) as agent:
        await agent.run("go")
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.asked(stage.children[0].session) == ["do it", "look at b, too"]


async def test_waiting_for_output(stage: Any, autojump_clock: trio.testing.MockClock) -> None:
    script = [
        reply(calls=[start()]),
        call("subagent_output", {"id": "subagent-1", "wait": 30}, id="c2"),
        text("done"),
    ]
    below = [[call("nap"), text("the part")]]
    async with stage.agent(*script, below=below, plugins={"nap": napping(20)}) as agent:
        await agent.run("go")
        result = stage.results(agent.session)[1][0]
        assert result.startswith("subagent-1 has ended.")
        assert "the part" in result


async def test_nobody_reaches_the_children_of_others(stage: Any) -> None:
    """An id belongs to the agent that started it, though another has one of the same name."""
    script = [
        reply(calls=[start(), ("look", "look", {})]),
        call("subagent", {"description": "x", "prompt": "stop the other one"}, id="c2"),
        text("done"),
    ]
    below = [[hang(), call("subagent_stop", {"id": "subagent-1"}, id="s"), text("could not")]]
    look = tool_of("look", lambda call: trio.testing.wait_all_tasks_blocked())
    async with stage.agent(*script, below=below, plugins={"look": look}) as agent:
        await agent.run("go")
        assert stage.results(stage.children[1].session)[0][1] == "UNKNOWN_SUBAGENT"
        assert stage.children[0].status == "running"


async def test_a_cancel_reaches_the_background_and_wakes_nobody(stage: Any) -> None:
    gate = Gate()
    script = [reply(calls=[start(), ("c2", "wait", {})]), text("never")]
    async with stage.agent(*script, below=[[hang("half")]], plugins={"gate": gate.plugin}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("enough")
        await agent.when_idle()
        await trio.testing.wait_all_tasks_blocked()
        assert agent.harness.agents.list() == [agent]
        assert shape(stage.children[0].session.events).endswith("T-(aborted enough)")
        assert shape(agent.session.events).count("S+") == 1, "its model is not asked again"
        assert "was cancelled" in stage.asked(agent.session)[-1]


async def test_a_cancel_of_an_idle_parent_reaches_them(stage: Any) -> None:
    async with stage.agent(reply(calls=[start()]), text("idle"), below=[[hang()]]) as agent:
        await agent.run("go")
        agent.cancel("enough")
        await trio.testing.wait_all_tasks_blocked()
        assert agent.harness.agents.list() == [agent]
        assert shape(agent.session.events).endswith("T-(completed) T+2 CX subagent/end T-(completed)")


async def test_a_child_that_cannot_be_started_is_an_error_at_once(stage: Any) -> None:
    def refuse(agent: Any) -> None:
        if agent.depth:
            raise RuntimeError("no more agents")

    from dsh.testing import plugin_of

    async with stage.agent(
        reply(calls=[start()]), text("done"), plugins={"refuse": plugin_of(agent_created=refuse)}
    ) as agent:
        await agent.run("go")
        ((result, code),) = stage.results(agent.session)
        assert code == "SUBAGENT_FAILED"
        assert "no more agents" in result
        assert stage.asked(agent.session) == ["go"]


async def test_an_idle_parent_is_woken_so_often_only(stage: Any, autojump_clock: trio.testing.MockClock) -> None:
    """Each wake starts another child; then the end of one is noted, and nobody asked."""
    rounds = [[reply(calls=[start(f"c{n}")]), text(f"idle {n}")] for n in range(1, 5)]
    script = [step for steps in rounds for step in steps]
    below = [[step for n in range(4) for step in (call("nap", id=f"n{n}"), text(f"part {n}"))]]
    async with stage.agent(*script, below=below, plugins={"nap": napping(1)}, settings={"wakes": 2}) as agent:
        await agent.run("go")
        await trio.sleep(10)
        assert len(stage.children) == 3
        assert shape(agent.session.events).endswith("CX subagent/end T-(completed)")
        await agent.run("go on")
        await trio.sleep(10)
        assert len(stage.children) == 4


async def test_options_that_a_child_inherits(stage: Any) -> None:
    options = evolve(AgentOptions(model="scripted/model"), temperature=0.5, append_system_prompt="Be brief.")
    async with stage.agent(reply(calls=[start(background=False)]), text("a"), text("b"), options=options) as agent:
        await agent.run("go")
        assert stage.children[0].options == evolve(options, one_turn=True)


async def test_a_cancelled_child_has_the_ends_of_its_own_children_in_its_log(stage: Any) -> None:
    """It is gone then, and no later turn of it could say so."""
    below = [[reply(calls=[start("b1"), start("b2")]), hang()], [hang(), hang()]]
    async with stage.agent(reply(calls=[start(background=False)]), below=below) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("enough")
        await agent.when_idle()
        assert agent.harness.agents.list() == [agent]
        child = stage.children[0].session
        assert stage.links(child)[:2] == [("start", "subagent-1", None), ("start", "subagent-2", None)]
        assert sorted(stage.links(child)[2:]) == [("end", "subagent-1", "aborted"), ("end", "subagent-2", "aborted")]


async def test_one_that_was_cancelled_before_it_was_there_is_never_made(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.agent(reply(calls=[start()]), text("done")) as agent:
        begin = agent.start_soon

        def begin_in_vain(*args: Any, **more: Any) -> None:
            begin(*args, **more)
            agent.cancel("enough")

        monkeypatch.setattr(agent, "start_soon", begin_in_vain)
        for prompt in ("go", "and now?"):
            await agent.run(prompt)
        assert stage.children == []
        assert stage.links(agent.session) == []
        assert agent.harness.agents.list() == [agent]


async def test_what_began_and_ended_between_two_turns_is_logged_in_the_next(stage: Any) -> None:
    async with stage.agent(text("yes"), text("yes"), below=[[text("one")]]) as agent:
        await subagents_of(agent.harness).run("spawn", Task(agent, "x", "do it"))
        assert stage.links(agent.session) == []
        await agent.run("go")
        assert stage.links(agent.session) == [("start", "subagent-1", None), ("end", "subagent-1", "completed")]


async def test_what_began_between_two_turns_is_logged_before_its_end(stage: Any) -> None:
    gate = Gate()
    below = [[call("wait"), text("one")]]
    async with stage.agent(text("yes"), text("yes"), below=below, plugins={"gate": gate.plugin}) as agent:
        await subagents_of(agent.harness).start("spawn", Task(agent, "x", "do it"))
        agent.plugins.register(plugin_of(agent_pre_step=lambda: gate.opened.set()))
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.links(agent.session) == [("start", "subagent-1", None), ("end", "subagent-1", "completed")]


async def test_children_that_end_together_wake_their_parent_once(stage: Any) -> None:
    """What is limited is how often its model is asked."""
    gate = Gate()
    ids = [f"b{number}" for number in range(4)]
    script = [reply(calls=[start(id) for id in ids]), text("idle"), text("now I know"), text("never")]
    below = [[*(call("wait", id=id) for id in ids), *(text("part") for _ in ids)]]
    settings = {"wakes": 1}
    async with stage.agent(*script, below=below, plugins={"gate": gate.plugin}, settings=settings) as agent:
        await agent.run("go")
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        await agent.when_idle()
        said = [text for text in stage.asked(agent.session) if "has finished" in text]
        assert len(said) == len(ids)
        assert shape(agent.session.events).count("CX") == 0, "none came too late to be asked about"
        assert agent.session.last_turn == 2
