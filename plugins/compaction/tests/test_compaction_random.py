"""Cuts at any place, results of any length, in any order: what must hold all the same."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from dsh_compaction.compactor import compact_now
from dsh_compaction.values import Cut
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh.testing import plugin_of, reply, text, tool_of

STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0, 10, 400, 3000, 30_000]), min_size=0, max_size=4),  # the results of its calls
        st.booleans(),  # compacted before it
        st.integers(0, 30),  # where
        st.booleans(),  # steered
    ),
    min_size=1,
    max_size=14,
)


def script(steps: Any) -> list[Any]:
    return [
        reply(
            "so" * number, reasoning="hm", calls=[(f"c{number}-{n}", f"out{size}", {}) for n, size in enumerate(sizes)]
        )
        if sizes
        else reply("", calls=[(f"c{number}", "out10", {})])
        for number, (sizes, *_) in enumerate(steps)
    ]


def plugins_for(steps: Any) -> dict[str, object]:
    """Tools, and a person who asks for a summary before some steps, and has it cut anywhere."""
    where = {"place": 0}

    async def agent_pre_step(agent: Any, step: int) -> None:
        if step <= len(steps) and steps[step - 1][1]:
            where["place"] = steps[step - 1][2]
            await compact_now(agent, "")
        if step <= len(steps) and steps[step - 1][3]:
            agent.steer(f"mind the gap {step}")

    async def compaction_select(history: Any) -> Cut:
        places = [node for node in history.nodes if node.cuttable][1:]
        return Cut(places[where["place"] % len(places)].seq if places else None)

    hooks = plugin_of(agent_pre_step=agent_pre_step, compaction_select=compaction_select)
    sizes = (0, 10, 400, 3000, 30_000)

    def out(size: int) -> object:
        return tool_of(f"out{size}", lambda call: "y" * size, parallel=True)

    return {"hooks": hooks, **{f"out{size}": out(size) for size in sizes}}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, window=st.sampled_from([3000, 8000, 1_000_000]), prune=st.booleans())
async def test_any_sequence_of_compactions(
    writer: Any, talk: Any, check: Any, steps: Any, window: int, prune: bool
) -> None:
    """C06.  One summary at most and what came after it; every request that was ever sent can be made again."""
    model = writer(*script(steps), text("done"))
    config = {"context_window": window, "prune": prune, "prune_over": 2000, "prune_head": 300, "prune_tail": 100}
    async with talk(model, config, plugins_for(steps)) as agent:
        assert (await agent.run("the task")).text == "done"
        check(agent.session, model)


@pytest.mark.parametrize("at", range(1, 21))
async def test_h07_a_cut_is_never_between_a_call_and_its_result(writer: Any, talk: Any, check: Any, at: int) -> None:
    """Compaction forced before each step, wherever the newest messages may begin."""
    steps = [([400, 400], number + 1 == at, at, False) for number in range(20)]
    model = writer(*script(steps), text("done"))
    plugins = plugins_for(steps)
    async with talk(model, {"context_window": 1_000_000}, plugins) as agent:
        assert (await agent.run("the task")).text == "done"
        check(agent.session, model)
    assert len(model.asked) == (at > 2)


async def test_h07_a_cut_that_another_plugin_made_there_is_refused(writer: Any, talk: Any) -> None:
    warnings: list[str] = []
    between = plugin_of(compaction_select=lambda history: Cut(next(n.seq for n in history.nodes if not n.cuttable)))
    steps = [([3000], False, 0, False)] * 5
    model = writer(*script(steps), text("done"))
    plugins = {**plugins_for(steps), "hooks": between}
    async with talk(model, {"prune": False}, plugins, warnings=warnings) as agent:
        assert (await agent.run("the task")).text == "done"
    assert model.asked == []
    assert "a call before it is answered" in warnings[0]


async def test_what_is_injected_while_a_summary_is_written_stays(writer: Any, talk: Any, check: Any) -> None:
    from dsh import PluginSource

    async def compaction_summarise(agent: Any, shadowed: Any) -> None:
        agent.inject("meanwhile", PluginSource("somebody"))
        await trio.lowlevel.checkpoint()

    steps = [([400, 3000], False, 0, False)] * 8
    model = writer(*script(steps), text("done"))
    hooks = plugin_of(compaction_summarise=compaction_summarise)
    async with talk(model, {"prune": False}, {**plugins_for(steps), "hooks": hooks}) as agent:
        assert (await agent.run("the task")).text == "done"
        check(agent.session, model)
    assert any("meanwhile" in str(message) for message in model.steps[-1].messages)
