"""Caps, answers by schema, and the settings."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from dsh import ConfigError
from dsh.testing import call, hang, reply, text

TASK = {"description": "a part", "prompt": "do it"}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
}


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
async def test_children_are_so_deep_and_no_deeper(stage: Any, depth: int) -> None:
    """Each agent hands the work on; the last one is told to do it itself."""
    below = [[call("subagent", TASK, id=f"d{n}"), text(f"done at {n}")] for n in range(1, depth + 1)]
    async with stage.agent(call("subagent", TASK), text("done"), below=below, settings={"depth": depth}) as agent:
        assert (await agent.run("go")).text == "done"
        assert [child.depth for child in stage.children] == list(range(1, depth + 1))
        last = stage.children[-1] if stage.children else agent
        ((said, code),) = stage.results(last.session)
        assert code == "SUBAGENT_DEPTH"
        assert "Do the work yourself" in said


async def test_so_many_work_at_once_below_one_root(stage: Any) -> None:
    """The child counts, and so does its own child; the next one is told to wait."""
    calls = [(f"c{n}", "subagent", TASK) for n in range(4)]
    script = [reply(calls=calls), text("done")]
    async with stage.agent(*script, below=[[text("ok")] * 3], settings={"concurrency": 3}) as agent:
        await agent.run("go")
        codes = [code for _, code in stage.results(agent.session)]
        assert codes == [None, None, None, "SUBAGENT_CONCURRENCY"]
        assert "Wait until one has finished" in stage.results(agent.session)[3][0]


async def test_the_cap_is_of_the_whole_tree_and_places_are_given_back(stage: Any) -> None:
    below = [[call("subagent", TASK, id="d"), text("alone"), text("second")]]
    script = [call("subagent", TASK, id="a"), call("subagent", TASK, id="b"), text("done")]
    async with stage.agent(*script, below=below, settings={"concurrency": 1}) as agent:
        await agent.run("go")
        assert stage.results(stage.children[0].session)[0][1] == "SUBAGENT_CONCURRENCY"
        assert stage.results(agent.session) == [("alone", None), ("second", None)]


async def test_roots_do_not_count_for_each_other(stage: Any) -> None:
    from attrs import evolve

    below = [[hang(), text("ok")]]
    async with stage.agent(call("subagent", TASK), below=below, settings={"concurrency": 1}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        other = agent.harness.create_agent(options=evolve(agent.options)).agent
        from dsh_subagents import subagents_of
        from dsh_subagents.provider import Task

        outcome = await subagents_of(agent.harness).run("spawn", Task(other, "x", "do it"))
        assert (outcome.completed, outcome.text) == (True, "ok")


# -- answers by schema


async def answer(stage: Any, *said: str) -> tuple[str, str | None]:
    script = [call("subagent", {**TASK, "output_schema": SCHEMA}), text("done")]
    async with stage.agent(*script, below=[[text(answer) for answer in said]]) as agent:
        await agent.run("go")
        (result,) = stage.results(agent.session)
        found: tuple[str, str | None] = result
        return found


@pytest.mark.parametrize(
    "said",
    ['{"name": "x", "size": 3}', '```json\n{"name": "x", "size": 3}\n```', 'Here:\n```\n{"name":"x","size":3}\n```'],
)
async def test_an_answer_that_fits(stage: Any, said: str) -> None:
    assert await answer(stage, said) == ('{"name":"x","size":3}', None)
    assert '"required":["name","size"]' in stage.asked(stage.children[0].session)[0]


@pytest.mark.parametrize(
    ("first", "complaint"),
    [("it is x", "no JSON"), ('{"name": "x"}', '"size"'), ('{"name": "x", "size": "3"}', '"size"'), ("[]", "answer")],
)
async def test_an_answer_is_mended_once(stage: Any, first: str, complaint: str) -> None:
    assert await answer(stage, first, '{"name": "x", "size": 3}') == ('{"name":"x","size":3}', None)
    assert complaint in stage.asked(stage.children[0].session)[1]


async def test_an_answer_that_does_not_fit_twice_is_an_error_that_shows_it(stage: Any) -> None:
    result, code = await answer(stage, "x", '{"name": 1, "size": 2}', '{"name": "x", "size": 3}')
    assert code == "SUBAGENT_ANSWER"
    assert '"name"' in result
    assert '{"name": 1, "size": 2}' in result
    assert len(stage.asked(stage.children[0].session)) == 2


# -- settings


@pytest.mark.parametrize(
    "settings",
    [
        {"depth": -1},
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": "soon"},
        {"timeout": True},
        {"max_result": 5},
        {"deptth": 2},
        {"types": {"a": {"description": "x"}}},
        {"types": {"a": {"description": "", "prompt": "x"}}},
        {"types": {"a": {"description": "x", "prompt": "x", "model": 3}}},
    ],
)
async def test_settings_that_make_no_sense(stage: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="subagents"):
        async with stage.agent(settings=settings):
            pass


async def test_a_child_may_have_no_limit_of_time(stage: Any) -> None:
    settings = {"timeout": "none"}
    async with stage.agent(call("subagent", TASK), text("done"), below=[[text("ok")]], settings=settings) as agent:
        assert (await agent.run("go")).text == "done"
