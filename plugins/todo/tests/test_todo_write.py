"""The task list: what a call logs, what it refuses, how it is shown."""

from __future__ import annotations

from typing import Any

import dsh_todo
import pytest
from dsh_todo.tool import TODO_WRITE
from hypothesis import given
from hypothesis import strategies as st

from dsh import AgentOptions, ToolArgsError, ToolCall, ToolError
from dsh.messages import Text, text_of
from dsh.session.events import TodoItem, TodoWrite, ToolResult
from dsh.testing import call, memory_agent, shape, text
from dsh.tools.views import GenericCall

PLUGINS = {"todo": dsh_todo}


def item(content: str, status: str = "pending") -> dict[str, str]:
    return {"content": content, "status": status}


async def written(*todos: Any) -> tuple[list[TodoWrite], ToolResult]:
    async with memory_agent(call("todo_write", {"todos": list(todos)}), text("ok"), plugins=PLUGINS) as agent:
        await agent.run("go")
        events = [event.data for event in agent.session.events]
        assert agent.session.open_turn is None
    lists = [data for data in events if isinstance(data, TodoWrite)]
    (result,) = (data for data in events if isinstance(data, ToolResult))
    return lists, result


async def test_the_list_is_logged_and_counted() -> None:
    lists, result = await written(
        item("  look\n", "completed"), item("think", "completed"), item("write", "in_progress"), item("test")
    )

    look, think = TodoItem("look", "completed"), TodoItem("think", "completed")
    assert lists == [TodoWrite((look, think, TodoItem("write", "in_progress"), TodoItem("test", "pending")))]
    assert not result.is_error
    assert text_of(result.content) == "The list is written: 1 pending, 1 in progress, 2 completed."


async def test_the_event_stands_between_call_and_result_and_the_model_does_not_see_it() -> None:
    async with memory_agent(call("todo_write", {"todos": [item("x")]}), text("ok"), plugins=PLUGINS) as agent:
        await agent.run("go")
        assert "TC(c1) todo/write TR(c1)" in shape(agent.session.events)
        (event,) = (event for event in agent.session.events if event.type == "todo/write")
        assert event.surface_op is None
        assert event.seq not in agent.session.surface


async def test_an_empty_list_clears() -> None:
    lists, result = await written()
    assert lists == [TodoWrite(())]
    assert text_of(result.content) == "The list is empty now: 0 pending, 0 in progress, 0 completed."


@pytest.mark.parametrize(
    ("todos", "complaint"),
    [
        ([item("a"), item(" \t")], '"todos[1].content" is empty'),
        ([item("a"), item("b"), item("a ")], "\"todos\" has 'a' 2 times"),
        ([item("a", "in_progress"), item("b", "in_progress")], '"todos" has 2 items in_progress, one at most'),
        ([item("a", "done")], "todos[0].status"),
        ([{"content": "a"}], "status"),
    ],
)
async def test_a_wrong_list_is_refused_whole(todos: list[Any], complaint: str) -> None:
    lists, result = await written(*todos)
    assert lists == []
    assert result.is_error
    assert result.error is not None
    assert result.error.code == "INVALID_ARGS"
    assert complaint in text_of(result.content)


async def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = [item("a", "in_progress"), item("a", "in_progress"), item("")]
    with pytest.raises(ToolArgsError) as caught:
        TODO_WRITE.execute({"todos": wrong}, ToolCall("c", "todo_write", {}))
    assert len(caught.value.violations) == 3


async def test_it_needs_a_turn() -> None:
    with pytest.raises(ToolError, match="in a turn of it alone"):
        TODO_WRITE.execute({"todos": []}, ToolCall("c", "todo_write", {}))
    async with memory_agent(plugins=PLUGINS) as agent:
        with pytest.raises(ToolError, match="in a turn of it alone"):
            TODO_WRITE.execute({"todos": []}, ToolCall("c", "todo_write", {}, agent))


async def test_the_guidance_comes_with_the_tool() -> None:
    system: list[str | None] = []
    for options in (
        AgentOptions(model="scripted/model"),
        AgentOptions(model="scripted/model", without_tools=("todo_write",)),
        AgentOptions(model="scripted/model", tools=()),
    ):
        async with memory_agent(text("ok"), plugins=PLUGINS, options=options) as agent:
            await agent.run("go")
            header = agent.session.request_header()
            assert header is not None
            system.append(header.system)
    assert system[0] is not None
    assert "todo_write" in system[0]
    assert all("todo_write" not in (text or "") for text in system[1:])


def test_a_call_is_shown_as_its_list() -> None:
    present = TODO_WRITE.present_call
    assert present is not None
    plan = [item("a", "completed"), item(" b ", "in_progress"), item("c")]
    assert present({"todos": plan}) == GenericCall("Plan: b", "other", content=(Text("[x] a\n[>] b\n[ ] c"),))
    assert present({"todos": [item("a", "completed"), item("b")]}) == GenericCall(
        "Plan: 1 of 2 done", "other", content=(Text("[x] a\n[ ] b"),)
    )
    assert present({"todos": []}) == GenericCall("Plan: cleared", "other")


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)))
def test_anything_else_is_not_shown(value: Any) -> None:
    present = TODO_WRITE.present_call
    assert present is not None
    if value != []:
        assert present({"todos": value}) is None
    assert present({"todos": [value]}) is None
    assert present({}) is None
