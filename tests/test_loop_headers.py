"""What the log says about requests: enough to make every one of them again."""

from __future__ import annotations

from attrs import evolve

from dsh.agents import AgentOptions
from dsh.llm.adapter import Request
from dsh.messages import CallConfig, Message, PluginSource, Text
from dsh.prompt import Assembly, Prefix, Sections
from dsh.session import events as ev
from dsh.session.header import canonical
from dsh.session.rebuild import rebuild_request
from dsh.testing import ScriptedModel, call, memory_agent, memory_harness, plugin_of, shape, text, tool_of

OPTIONS = AgentOptions(model="scripted/model")


def header_of(request: Request, prefix: int = 0) -> ev.Header:
    """The header that makes `request`, whose first messages are a prefix."""

    config = CallConfig(request.model, request.temperature, request.max_tokens, request.stop)
    return canonical(ev.Header(config, request.system, request.tools, request.messages[:prefix]))


async def test_requests_that_differ_in_nothing_share_a_header() -> None:
    """G01."""
    async with memory_agent(text("a"), text("b")) as agent:
        await agent.run("one")
        await agent.run("two")
        assert shape(agent.session.events).count("H(initial)") == 1
        assert "HD" not in shape(agent.session.events)


async def test_a_new_section_is_logged_as_a_change_of_lines() -> None:
    """G02."""
    model = ScriptedModel(text("a"), text("b"))
    async with memory_agent(model=model) as agent:
        await agent.run("one")

        def sections(sections: Sections) -> None:
            sections.add("mine", "Be brief.", 100)

        agent.plugins.register(plugin_of(prompt_sections=sections))
        await agent.run("two")
        (delta,) = (e.data for e in agent.session.events if isinstance(e.data, ev.RequestHeaderDelta))
        assert delta.system is not None
        assert (delta.tools, delta.config, delta.message_prefix) == (None, None, None)
        header = agent.session.request_header()
        assert header is not None
        assert header.system == model.requests[1].system


async def test_tools_in_another_order_need_a_whole_header() -> None:
    """G04."""

    def assemble(assembly: Assembly, agent: object) -> Assembly | None:
        return evolve(assembly, tools=assembly.tools[::-1]) if reverse else None

    reverse = False
    model = ScriptedModel(text("a"), text("b"))
    plugins = {"one": tool_of("one"), "two": tool_of("two"), "order": plugin_of(prompt_assemble=assemble)}
    async with memory_agent(model=model, plugins=plugins) as agent:
        await agent.run("one")
        reverse = True
        await agent.run("two")
        assert "H(fallback)" in shape(agent.session.events)
        assert [[tool.name for tool in request.tools or ()] for request in model.requests] == [
            ["one", "two"],
            ["two", "one"],
        ]


async def test_tools_are_shown_by_name_whoever_offers_them() -> None:
    """G14."""
    model = ScriptedModel(text("a"))
    plugins = {"1": tool_of("zebra"), "2": tool_of("ant"), "3": tool_of("Mule")}
    async with memory_agent(model=model, plugins=plugins) as agent:
        await agent.run("go")
        assert [tool.name for tool in model.requests[0].tools or ()] == ["Mule", "ant", "zebra"]


async def test_a_seeded_agent_says_that_it_goes_on() -> None:
    """G05."""
    sources: list[str] = []
    model = ScriptedModel(text("a"), text("b"))
    starts = plugin_of(agent_session_start=lambda source: sources.append(source))
    async with memory_harness(model=model, plugins={"starts": starts}) as harness:
        first = harness.create_agent(options=OPTIONS).agent
        await first.run("one")
        second = harness.create_agent(options=OPTIONS, seed=list(first.session.events)).agent
        assert second.session.header.seed_length == len(first.session.events)
        await second.run("two")
        assert shape(second.session.events).endswith("T+2 U S+1 H(resume) C×5 A S-1 T-(completed)")
        assert sources == ["startup", "startup"]
        assert len(model.requests[1].messages) == 3


async def test_another_model_on_resume_takes_effect() -> None:
    model = ScriptedModel(text("a"), text("b"))
    async with memory_harness(model=model) as harness:
        first = harness.create_agent(options=OPTIONS).agent
        await first.run("one")
        options = AgentOptions(model="scripted/other", temperature=0.5, max_tokens=10)
        second = harness.create_agent(options=options, seed=list(first.session.events)).agent
        await second.run("two")
        assert model.requests[1].model == "scripted/other"
        assert (model.requests[1].temperature, model.requests[1].max_tokens) == (0.5, 10)
        header = second.session.request_header()
        assert header is not None
        assert header.config.model == "scripted/other"


async def test_a_prefix_is_composed_once_and_stands_before_everything() -> None:
    """G10."""
    composed = 0

    def prefix(prefix: Prefix) -> None:
        nonlocal composed
        composed += 1
        prefix.add("read this first")

    model = ScriptedModel(text("a"), text("b"))
    async with memory_agent(model=model, plugins={"prefix": plugin_of(agent_session_prefix=prefix)}) as agent:
        await agent.run("one")
        await agent.run("two")
        assert composed == 1
        first = Message("user", "read this first")
        assert [request.messages[0] for request in model.requests] == [first, first]
        assert model.requests[0].messages[0] is model.requests[1].messages[0]
        (header,) = (e.data.header for e in agent.session.events if isinstance(e.data, ev.RequestHeader))
        assert header.message_prefix == (first,)
        assert first not in agent.session.derive_messages()


async def test_prefixes_are_ordered_by_order_and_plugin_name() -> None:
    """G11."""
    model = ScriptedModel(text("a"))

    def adding(what: str, order: int = 0) -> object:
        def prefix(prefix: Prefix) -> None:
            prefix.add(what, order=order)

        return plugin_of(agent_session_prefix=prefix)

    plugins = {"b": adding("second"), "a": adding("first"), "c": adding("before all", -1)}
    async with memory_agent(model=model, plugins=plugins) as agent:
        await agent.run("go")
        assert [m.content[0] for m in model.requests[0].messages[:3]] == [
            *(Text("before all"), Text("first"), Text("second")),
        ]


async def test_without_a_prefix_the_header_has_none() -> None:
    """G12."""
    async with memory_agent(text("a")) as agent:
        await agent.run("go")
        (header,) = (e.data.header for e in agent.session.events if isinstance(e.data, ev.RequestHeader))
        assert header.message_prefix is None


async def test_a_prefix_that_failed_or_was_cut_off_is_composed_anew() -> None:
    attempts = 0

    def prefix(prefix: Prefix) -> None:
        nonlocal attempts
        attempts += 1
        prefix.add(f"attempt {attempts}")
        if attempts == 1:
            raise RuntimeError("no")
        if attempts == 2:
            agent.cancel()

    model = ScriptedModel(text("a"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_session_prefix=prefix))
        for prompt in ("one", "two", "three"):
            await agent.run(prompt)
        assert model.requests[0].messages[0] == Message("user", "attempt 3")


async def test_what_a_composer_logs_is_part_of_the_request() -> None:

    model = ScriptedModel(text("a"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(
            plugin_of(agent_session_prefix=lambda: agent.inject("note", PluginSource("notes"))), "notes"
        )
        await agent.run("go")
        assert len(model.requests[0].messages) == 2


async def test_no_system_prompt_at_all_is_no_system_prompt() -> None:
    """J12."""
    model = ScriptedModel(text("a"))
    empty = plugin_of(prompt_assemble=lambda assembly: evolve(assembly, sections=()))
    async with memory_agent(model=model, plugins={"empty": empty}) as agent:
        await agent.run("go")
        assert model.requests[0].system is None


async def test_every_request_can_be_made_again_from_the_log() -> None:
    changing = iter(range(100))

    def sections(sections: Sections) -> None:
        sections.add("changing", f"Line one.\nNumber {next(changing) // 2}.\nLine three.", 100)

    def prefix(prefix: Prefix) -> None:
        prefix.add("read this first")

    model = ScriptedModel(call("work", id="a"), call("work", id="b"), text("x"), text("y"))
    plugins = {
        "work": tool_of("work"),
        "changes": plugin_of(prompt_sections=sections, agent_session_prefix=prefix),
    }
    async with memory_agent(model=model, plugins=plugins) as agent:
        await agent.run("one")
        await agent.run("two")
        steps = [(1, 1), (1, 2), (1, 3), (2, 1)]
        assert len(model.requests) == len(steps)
        for request, (turn, step) in zip(model.requests, steps, strict=True):
            header, messages = rebuild_request(agent.session.events, turn, step)
            assert tuple(messages) == request.messages
            assert header == header_of(request, prefix=1)
        assert "HD" in shape(agent.session.events)
