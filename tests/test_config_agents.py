"""The agents of ``[[agents]]``: running when a harness is open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsh import Agent, hookimpl
from dsh.config import AgentConfig, Config, dump, load_config
from dsh.errors import AgentError, ConfigError
from dsh.harness import open_harness
from dsh.session.store import SessionHeader, StoredSession
from dsh.testing import memory_harness, plugin_of, shape, text

FRESH = re.compile(r"helper-session-[0-9a-f]{8}-[0-9a-f-]{27}\Z")


def configured(*agents: AgentConfig, model: str = "scripted/model") -> Config:
    return Config(model=model, agents=agents)


async def test_they_run_when_the_harness_is_open() -> None:
    config = configured(AgentConfig("helper"), AgentConfig("other", "scripted/else"))
    async with memory_harness(text("hi"), config=config) as harness:
        assert [agent.id for agent in harness.agents.list()] == ["helper", "other"]
        assert [agent.options.model for agent in harness.agents.list()] == ["scripted/model", "scripted/else"]
        agent = harness.agents.get("helper")
        assert agent is not None
        assert (await agent.run("go")).text == "hi"


async def test_each_time_they_have_a_fresh_session() -> None:
    """I08."""
    ids = []
    for _ in range(2):
        async with memory_harness(config=configured(AgentConfig("helper"))) as harness:
            (session,) = harness.sessions.list()
            ids.append(session.id)
    assert len(set(ids)) == 2
    assert all(FRESH.match(session_id) for session_id in ids)


async def test_a_stored_session_goes_on() -> None:
    stored = StoredSession(SessionHeader("old", 7, "/"), (), None)
    sources: list[str] = []
    plugin = plugin_of(
        session_open=lambda session_id: stored if session_id == "old" else None,
        agent_session_start=lambda source: sources.append(source),
    )
    config = configured(AgentConfig("helper", resume_session_id="old"))
    async with memory_harness(text("hi"), config=config, plugins={"store": plugin}) as harness:
        agent = harness.agents.get("helper")
        assert agent is not None
        assert agent.session.id == "old"
        await agent.run("go")
        assert shape(agent.session.events).startswith("T+1 U S+1")
    assert sources == ["resume"]


async def test_a_session_that_cannot_be_resumed_is_a_warning_and_no_agent() -> None:
    """I08."""
    warnings: list[str] = []
    config = configured(AgentConfig("helper", resume_session_id="gone"), AgentConfig("other"))
    async with memory_harness(config=config, warnings=warnings) as harness:
        assert [agent.id for agent in harness.agents.list()] == ["other"]
    (warning,) = warnings
    assert "helper" in warning
    assert "gone" in warning


async def test_a_store_that_raises_is_a_warning_that_names_it() -> None:
    def broken(session_id: str) -> None:
        raise OSError("disk on fire")

    warnings: list[str] = []
    config = configured(AgentConfig("helper", resume_session_id="old"))
    plugins = {"store": plugin_of(session_open=broken)}
    async with memory_harness(config=config, plugins=plugins, warnings=warnings) as harness:
        assert harness.agents.list() == []
    assert "disk on fire" in warnings[0]


async def test_an_objection_to_a_fresh_one_keeps_the_harness_from_opening() -> None:
    class Objects:
        @hookimpl
        def agent_created(self, agent: Agent) -> None:
            raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        async with memory_harness(config=configured(AgentConfig("helper")), plugins={"objects": Objects()}):
            pass


async def test_without_a_loop_they_cannot_be_made(tmp_path: Path) -> None:
    config = configured(AgentConfig("helper"))
    with pytest.raises(AgentError, match="no plugin makes agents"):
        async with open_harness(config, discover=False, home=tmp_path):
            pass


def read(tmp_path: Path, text: str) -> Config:
    (tmp_path / "config.toml").write_text(text)
    return load_config(cwd=tmp_path, home=tmp_path, environ={"HOME": str(tmp_path)})


def test_they_are_read_and_written(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [[agents]]
        id = "helper"
        model = "deepseek/deepseek-v4-flash"
        [[agents]]
        id = "other"
        resume_session_id = "s"
        [prompt]
        tool_order = ["bash", "<unlisted-tools>"]
        """,
    )
    assert config.agents == (
        AgentConfig("helper", "deepseek/deepseek-v4-flash"),
        AgentConfig("other", resume_session_id="s"),
    )
    again = read(tmp_path, dump(config))
    assert (again.agents, again.prompt) == (config.agents, config.prompt)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[agents]]\nmodel = 'a/b'", "id"),
        ("[[agents]]\nid = ''", "id must not be empty"),
        ("[[agents]]\nid = 'a'\n[[agents]]\nid = 'a'", "two agents have the id a"),
        ("[[agents]]\nid = 'a'\nresumeSessionId = 's'", r"agents\[0\].resumeSessionId: unknown key"),
        ("[agents]\nid = 'a'", "agents: expected a list"),
        ("[prompt]\ntool_order = ['bash']", "needs the entry <unlisted-tools>"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, text)
