"""Secrets: nothing that enters the log shows them."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.config import Config
from dsh.decisions import Accept, Allow, Block, Continue, Deny
from dsh.llm.chunks import BlockEnd, Chunk, Finish, ReasoningDelta, TextDelta
from dsh.loop.masks import ChunkMask
from dsh.messages import Block as ContentBlock
from dsh.messages import FinishReason, HookContext, Message, PluginSource, Reasoning, Text, ToolCallBlock
from dsh.process import Process
from dsh.prompt import Prefix, Sections
from dsh.secrets import Secrets, SecretsConfig
from dsh.session.rebuild import rebuild_request
from dsh.testing import Reply, ScriptedModel, call, memory_agent, memory_harness, plugin_of, shape, text, tool_of
from dsh.tools.tool import ToolResult

SECRET = "hunter2-hunter2"
SHOWN = "[secret PASSWORD]"
KEEPER = plugin_of(secrets_register=lambda secrets: secrets.add(SECRET, "PASSWORD"))


def secrets(**values: str) -> Secrets:
    found = Secrets()
    for name, value in values.items():
        found.add(value, name)
    return found


def test_a_secret_is_replaced_by_its_name_wherever_it_stands() -> None:
    mask = secrets(KEY="abcdef").mask
    assert mask("abcdef and xabcdefx") == "[secret KEY] and x[secret KEY]x"
    assert mask("nothing") == "nothing"


def test_without_secrets_nothing_changes() -> None:
    assert Secrets().mask("abcdef") == "abcdef"


def test_the_longest_secret_wins() -> None:
    mask = secrets(SHORT="abcdef", LONG="abcdefgh").mask
    assert mask("abcdefgh abcdef") == "[secret LONG] [secret SHORT]"


def test_short_values_are_left_alone() -> None:
    assert secrets(PIN="12345").mask("12345") == "12345"


def test_secrets_may_be_added_later() -> None:
    found = secrets(A="aaaaaa")
    assert found.mask("bbbbbb") == "bbbbbb"
    found.add("bbbbbb", "B")
    assert found.mask("aaaaaa bbbbbb") == "[secret A] [secret B]"


def test_characters_with_a_meaning_in_patterns_are_ordinary() -> None:
    assert secrets(KEY="a.*(b)+[").mask("a.*(b)+[ aXX(b)+[") == "[secret KEY] aXX(b)+["


def test_the_values_are_there_for_who_must_not_pass_them_on() -> None:
    assert secrets(A="aaaaaa", PIN="1").values() == {"aaaaaa", "1"}


@given(st.text(), st.text(min_size=6), st.text())
def test_no_text_shows_a_secret(before: str, secret: str, after: str) -> None:
    masked = secrets(KEY=secret).mask(before + secret + after)
    assert "[secret KEY]" in masked
    assert secret not in masked.replace("[secret KEY]", "")[: len(before)] or secret in before


async def test_no_way_into_the_log_shows_a_secret() -> None:
    context = HookContext(f"context {SECRET}", PluginSource("p"))
    continued = iter([Continue(f"reason {SECRET}")])

    def sections(sections: Sections) -> None:
        sections.add("s", f"section {SECRET}")

    def prefix(prefix: Prefix) -> None:
        prefix.add(f"prefix {SECRET}")

    noisy = plugin_of(
        agent_prompt_submit=lambda: Allow(context=context),
        agent_session_prefix=prefix,
        prompt_sections=sections,
        tools_post_execute=lambda: Accept(context=context),
        agent_turn_continuation=lambda: next(continued, None),
    )
    work = tool_of("work", lambda _: ToolResult(f"result {SECRET}", meta={"out": [SECRET]}))
    model = ScriptedModel(call("work"), text("a"), text("b"))
    async with memory_agent(model=model, plugins={"keeper": KEEPER, "noisy": noisy, "work": work}) as agent:
        agent.send(f"sent {SECRET}")
        await agent.when_idle()
        agent.inject(f"injected {SECRET}", PluginSource("p"))
        log = repr(list(agent.session.events))
        assert SECRET not in log
        assert SECRET not in repr(model.requests)
        for what in ("sent", "injected", "context", "section", "prefix", "result", "reason"):
            assert f"{what} {SHOWN}" in log
        assert f"'out': ['{SHOWN}']" in log


async def test_no_reason_shows_a_secret() -> None:
    answers = iter([Block(f"blocked {SECRET}")])

    def broken() -> None:
        raise RuntimeError(f"failed {SECRET}")

    plugins = {
        "keeper": KEEPER,
        "gate": plugin_of(agent_prompt_submit=lambda: next(answers, None)),
        "guard": plugin_of(tools_pre_execute=lambda: Deny(f"denied {SECRET}")),
        "work": tool_of("work"),
    }
    async with memory_agent(call("work"), text("a"), plugins=plugins) as agent:
        await agent.run("one")
        await agent.run("two")
        agent.plugins.register(plugin_of(agent_pre_step=broken))
        await agent.run("three")
        log = repr(list(agent.session.events))
        assert SECRET not in log
        for what in ("blocked", "denied", "failed"):
            assert f"{what} {SHOWN}" in log
        assert f"T-(rejected blocked {SHOWN})" in shape(agent.session.events)


async def test_a_rewritten_prompt_is_masked_too() -> None:
    gate = plugin_of(agent_prompt_submit=lambda: Allow(content=f"rewritten {SECRET}"))
    async with memory_agent(text("a"), plugins={"keeper": KEEPER, "gate": gate}) as agent:
        await agent.run("go")
        assert f"rewritten {SHOWN}" in repr(agent.session.derive_messages())


async def test_what_the_model_writes_is_masked_before_anybody_sees_it() -> None:
    seen = []
    work = tool_of("work", lambda call: seen.append(call.arguments["key"]))
    first: tuple[ContentBlock, ...] = (
        Reasoning(f"thought {SECRET}", signature="seal"),
        Text(f"said {SECRET}"),
        ToolCallBlock("a", "work", f'{{"key":"{SECRET}"}}'),
    )
    answer: list[Chunk] = [BlockEnd(n, block) for n, block in enumerate(first)]
    deltas: list[Chunk] = [TextDelta(0, f"delta {SECRET}"), ReasoningDelta(1, f"wonder {SECRET}")]
    ends = [Finish(FinishReason(kind)) for kind in ("tool-calls", "stop")]
    model = ScriptedModel(Reply([*answer, ends[0]]), Reply([*deltas, ends[1]]))
    async with memory_agent(model=model, plugins={"keeper": KEEPER, "work": work}) as agent:
        await agent.run("go")
        log = repr(list(agent.session.events))
        assert SECRET not in log
        assert SECRET not in repr(model.requests)
        for what in ("thought", "said", "delta", "wonder"):
            assert f"{what} {SHOWN}" in log
        assert "seal" not in repr(agent.session.derive_messages())
        assert seen == [SHOWN]
        header, messages = rebuild_request(agent.session.events, 1, 2)
        assert tuple(messages) == model.requests[1].messages
        assert header.system == model.requests[1].system


async def test_a_secret_in_several_deltas_is_masked_in_the_message() -> None:
    deltas = [TextDelta(0, piece) for piece in ("it is ", SECRET[:7], SECRET[7:])]
    model = ScriptedModel(Reply([*deltas, Finish(FinishReason("stop"))]), text("b"))
    async with memory_agent(model=model, plugins={"keeper": KEEPER}) as agent:
        answer = await agent.run("one")
        assert answer.text == f"it is {SHOWN}"
        await agent.run("two")
        assert SECRET not in repr(model.requests)


async def test_a_secret_that_is_escaped_in_arguments_is_masked() -> None:
    secret = 'pass"word"'
    keeper = plugin_of(secrets_register=lambda secrets: secrets.add(secret, "QUOTED"))
    seen = []
    work = tool_of("work", lambda call: seen.append(call.arguments))
    call_of = ToolCallBlock("a", "work", r'{"key":"pass\"word\"","n":1}')
    model = ScriptedModel(Reply([BlockEnd(0, call_of), Finish(FinishReason("tool-calls"))]), text("b"))
    async with memory_agent(model=model, plugins={"keeper": keeper, "work": work}) as agent:
        await agent.run("go")
        assert seen == [{"key": "[secret QUOTED]", "n": 1}]
        assert r"pass\"word" not in "".join(line.decode() for line in agent.session.events.lines())


async def test_a_filter_cannot_bring_a_secret_back() -> None:
    plugin = plugin_of(agent_step_result=lambda: Message("assistant", f"added {SECRET}"))
    async with memory_agent(text("a"), plugins={"keeper": KEEPER, "filter": plugin}) as agent:
        answer = await agent.run("go")
        assert answer.text == f"added {SHOWN}"


@given(st.lists(st.text("hunter2-ab", max_size=6), max_size=8), st.integers(0, 8))
def test_a_secret_spread_over_deltas_is_hidden(parts: list[str], at: int) -> None:
    parts = [*parts[:at], "hunter2", "-hun", "ter2", *parts[at:]]
    found = secrets(PASSWORD=SECRET)
    mask = ChunkMask(found.mask, found.pending)
    chunks = [shown for part in parts for shown in mask.feed(TextDelta(0, part))]
    chunks += mask.feed(BlockEnd(0, Text("")))

    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    assert SECRET not in shown
    assert shown == found.mask("".join(parts))


@given(st.text(st.characters(codec="utf-8"), min_size=8, max_size=30), st.text(max_size=5), st.text(max_size=5))
def test_a_secret_is_hidden_however_it_is_written(secret: str, before: str, after: str) -> None:
    found = secrets(X=secret)
    raw = secret.encode()
    for written in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], raw.hex()):
        assert found.mask(f"{before}|{written}|{after}").count("[secret X]") >= 1
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    assert "[secret X]" in found.mask(encoded)


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-" + "a1" * 20,
        "sk-proj-" + "b2" * 20,
        "ghp_" + "c3" * 18,
        "github_pat_" + "d4" * 30,
        "AKIA" + "ABCDEFGH23456723",
        "xoxb-" + "1234567890-abcdefghij",
        "AIza" + "e5" * 17 + "f",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_key_is_hidden_in_what_tools_say(key: str) -> None:
    found = Secrets()
    said = found.mask_output(f"x={key};")
    assert key not in said
    assert said.startswith("x=[secret: ")
    assert found.mask(key) == key, "a person may write it"
    found.config = SecretsConfig(shapes=False)
    assert found.mask_output(key) == key


def test_ordinary_words_are_no_keys() -> None:
    text = "task-list risk-averse-and-long-winded-hyphenated-words-that-go-on ghp_short AKIAshort disk-usage"
    assert Secrets().mask_output(text) == text


async def test_no_child_process_is_handed_a_secret() -> None:
    config = Config(tables={"secrets": {"keep_env": ["CI_*"]}})
    env = {
        "PATH": "/bin",
        "A_PASSWORD": "x",
        "GITHUB_PAT": "x",
        "CI_TOKEN": "kept",
        "PLAIN": "plain",
        "URL": f"https://me:{SECRET}@host/",
        "SAME": SECRET,
        "OWN": SECRET,
    }
    async with memory_harness(plugins={"keeper": KEEPER}, config=config) as harness:
        process = Process(("true",), env, "/", keep=frozenset({"OWN"}))
        ready = await harness.hook.process_prepare(agent=None, process=process, default=lambda: process)

    assert dict(ready.env) == {"PATH": "/bin", "CI_TOKEN": "kept", "PLAIN": "plain", "OWN": SECRET}


@given(st.lists(st.text("abz", min_size=8, max_size=14), max_size=3, unique=True), st.text("abz", max_size=20))
def test_what_may_be_the_beginning_of_a_secret_is_found(values: list[str], shown: str) -> None:
    """The longest end of a text that some secret begins with and goes beyond."""
    found = Secrets()
    for value in values:
        found.add(value, "X")
    text = found.mask(shown)
    longest = max(map(len, values), default=0)
    ends = (text[-length:] for length in range(min(longest - 1, len(text)), 0, -1))
    expected = next((len(end) for end in ends if any(value.startswith(end) for value in values)), 0)
    assert found.pending(text) == expected
