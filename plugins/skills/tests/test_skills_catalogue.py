"""Skills: where they are found, what is wrong with some, what the model is told and loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dsh_skills
import pytest
from dsh_skills.catalogue import Catalogue, Root, collect, roots
from dsh_skills.service import SkillsConfig

from dsh import Agent
from dsh.config import Config
from dsh.jsonvalue import loads
from dsh.llm.scripted import Reply
from dsh.messages import text_of
from dsh.session.events import RequestHeader, ToolResult
from dsh.testing import call, memory_agent, plugin_of, text

CONFIGS = Path(__file__).parents[3] / "../shared/configs/skills"
INSTALLED = {"skills": dsh_skills}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    return project


def skill(folder: Path, name: str, description: str = "Does it.", body: str = "Do it.", more: str = "") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n")
    return path


def catalogue(project: Path, home: Path) -> Catalogue:
    return collect(roots(project, home / ".dsh", home))


def test_places_and_their_order(project: Path, home: Path) -> None:
    for number, folder in enumerate((project, home)):
        for name in (".dsh", ".agents", ".claude"):
            skill(folder / name / "skills", f"s{number}-{name[1:]}")
            skill(folder / name / "skills", "common", f"of {number} {name}")
    found = catalogue(project / ".", home)
    assert list(found.skills) == ["common", "s0-agents", "s0-claude", "s0-dsh", "s1-agents", "s1-claude", "s1-dsh"]
    assert found.skills["common"].description == "of 0 .dsh"
    assert len(found.problems) == 5
    assert all("is hidden by that of" in problem for problem in found.problems)


def test_the_project_is_the_repository_s(project: Path, home: Path) -> None:
    skill(project / ".dsh/skills", "one")
    (project / "src").mkdir()
    assert list(catalogue(project / "src", home).skills) == ["one"]


def test_flat_files_and_the_name_inside(project: Path, home: Path) -> None:
    folder = project / ".dsh/skills"
    skill(folder, "right").rename(folder / "wrong.md")
    (folder / "README.md").write_text("no skill")
    found = catalogue(project, home)
    assert list(found.skills) == ["right"]
    assert found.skills["right"].folder == folder
    assert found.problems == []


def test_a_linked_folder_is_no_second_skill(project: Path, home: Path) -> None:
    skill(project / ".agents/skills", "one")
    (project / ".claude").mkdir()
    (project / ".claude/skills").symlink_to("../.agents/skills")
    (project / ".agents/skills/gone").symlink_to("nowhere")
    found = catalogue(project, home)
    assert list(found.skills) == ["one"]
    assert len(found.problems) == 2  # the dangling link, seen from both
    assert "is a link to what does not exist" in found.problems[0]


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("description: d", "name: is missing"),
        ("name: a", "description: is missing"),
        ("name: A B\ndescription: d", "'A B' is none: use lower-case"),
        ("name: -a\ndescription: d", "'-a' is none"),
        ("name: 3.5\ndescription: d", "name: expected text, got 3.5"),
        ("name: a\ndescription: [x]", "description: expected text, got"),
        ("name: a\ndescription: ''", "description: expected text"),
        ("name: [a\ndescription: d", "line "),
    ],
)
def test_what_is_no_skill_says_why(project: Path, home: Path, front: str, words: str) -> None:
    skill(project / ".dsh/skills", "good")
    bad = project / ".dsh/skills/bad/SKILL.md"
    bad.parent.mkdir()
    bad.write_text(f"---\n{front}\n---\nbody\n")
    found = catalogue(project, home)
    assert list(found.skills) == ["good"]
    (problem,) = found.problems
    assert problem.startswith(f"{bad}: ")
    assert words in problem


def test_odd_files_do_not_hang_or_stop_others(project: Path, home: Path) -> None:
    folder = project / ".dsh/skills"
    skill(folder, "good")
    for name in ("pipe", "binary", "huge"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe/SKILL.md")
    (folder / "binary/SKILL.md").write_bytes(b"---\0")
    skill(folder, "huge", body="x" * 300_000)
    found = catalogue(project, home)
    assert list(found.skills) == ["good"]
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "it is no text",
        "it has 300042 bytes; 262144 are read at most",
    ]


@pytest.mark.parametrize("key", ["disableModelInvocation", "disable-model-invocation", "disable_model_invocation"])
def test_a_hidden_skill(project: Path, home: Path, key: str) -> None:
    skill(project / ".dsh/skills", "mine", more=f"{key}: true\nwhen_to_use: never\nunknown: [1]\n")
    found = catalogue(project, home)
    assert found.skills["mine"].hidden
    assert found.skills["mine"].when == "never"
    assert found.offered() == []


@pytest.mark.skipif(not CONFIGS.exists(), reason="the recorded skills are not here")
def test_files_that_people_wrote(tmp_path: Path) -> None:
    """All of them are skills; what is odd is said."""
    for path in CONFIGS.glob("*.md"):
        folder = tmp_path / path.name.partition(".")[0]
        folder.mkdir()
        (folder / "SKILL.md").write_bytes(path.read_bytes())
    found = collect([Root(tmp_path, "config")])
    assert len(found.skills) == len(list(CONFIGS.glob("*.md")))
    said = {Path(problem.partition(": ")[0]).parent.name: problem.partition(": ")[2] for problem in found.problems}
    assert "belongs in quotes" in said.pop("30-odd-springboot-verification")
    assert "over 1024" in said.pop("35-odd-self-audit")
    assert said == {}
    assert not found.skills["repo-scan"].hidden
    assert {name for name, one in found.skills.items() if one.hidden} == {"user-only-skill", "sub-skill"}


# -- in an agent


async def loaded(project: Path, *names: str, **plugins: object) -> tuple[str, list[ToolResult], list[str]]:
    """The session prefix, the results, and the warnings."""
    replies: list[Reply] = [call("skill", {"name": name}, id=f"c{n}") for n, name in enumerate(names)]
    warnings: list[str] = []
    async with memory_agent(
        *replies, text("ok"), plugins={**INSTALLED, **plugins}, cwd=str(project), warnings=warnings
    ) as agent:
        await agent.run("go")
        return prefix_text(agent), results(agent), warnings


def prefix_text(agent: Agent) -> str:
    header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader))
    return "\n".join(text_of(message.content) for message in header.header.message_prefix or ())


def results(agent: Agent) -> list[ToolResult]:
    return [event.data for event in agent.session.events if isinstance(event.data, ToolResult)]


def test_bad_front_matter_costs_one_skill_and_no_more(project: Path, home: Path) -> None:
    """A date that there is not ended the turn of every agent of the folder once."""
    skill(project / ".dsh/skills", "good")
    bombs = ["date: 2024-02-30\n", "n: .nan\n", f"n: {'9' * 5000}\n", "a: &a [x]\nb: [*a, *a]\n", f"n: {'[' * 5000}\n"]
    for number, more in enumerate(bombs):
        skill(project / ".dsh/skills", f"odd-{number}", more=more)
    found = catalogue(project, home)
    assert list(found.skills) == ["good", "odd-1"]
    assert len(found.problems) == 4


def test_names_that_differ_in_capitals(project: Path, home: Path) -> None:
    skill(project / ".dsh/skills", "release", description="mine")
    for name in ("Release", "RELEASE"):
        skill(project / ".claude/skills", name, description="theirs")
    found = catalogue(project, home)
    assert {name: one.description for name, one in found.skills.items()} == {"release": "mine"}
    assert len(found.problems) == 2
    assert all("use lower-case letters" in problem for problem in found.problems)


async def test_a_file_that_changed_since_it_was_listed(project: Path) -> None:
    path = skill(project / ".dsh/skills", "one", body="before")
    secret = project / "key.pem"
    secret.write_text("PRIVATE KEY")
    replies = [call("skill", {"name": "one"}, id=f"c{number}") for number in range(5)]
    changes = iter(["", "now", "x" * 300_000, "a\0b", None])

    def change() -> None:
        body = next(changes)
        if body is None:
            path.unlink()
            path.symlink_to(secret)
        elif body:
            path.write_text(f"---\nname: one\ndescription: Does it.\n---\n{body}\n")

    plugins = {**INSTALLED, "changing": plugin_of(tools_pre_execute=lambda call: change())}
    config = Config(tables={})
    async with memory_agent(*replies, text("done"), plugins=plugins, cwd=str(project), config=config) as agent:
        await agent.run("go")
        said = [text_of(event.data.content) for event in agent.session.events if isinstance(event.data, ToolResult)]
    assert "before" in said[0]
    assert "now" in said[1]
    assert "bytes by now" in said[2]
    assert "no text any more" in said[3]
    assert "expected ---" in said[4]
    assert "PRIVATE" not in str(said)


async def test_very_many_skills_have_room(project: Path) -> None:
    for number in range(400):
        skill(project / ".dsh/skills", f"s{number}", description="word " * 100)
    for number in range(30):
        skill(project / ".claude/skills", f"bad{number}", description="", more="")
    warnings: list[str] = []
    async with memory_agent(text("one"), plugins=INSTALLED, cwd=str(project), warnings=warnings) as agent:
        await agent.run("go")
        header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader))
        (message,) = header.header.message_prefix or ()
    told = text_of(message.content)
    assert told.count("<skill name=") == 400
    assert len(told) < 70_000
    assert len(warnings) == 21
    assert warnings[-1] == "skills: and 10 problems more: `dsh skills` tells all"


async def test_the_model_is_told_and_loads_one(project: Path) -> None:
    path = skill(project / ".dsh/skills", "release", "Makes <b>releases</b>.", "1. Tag it.", "whenToUse: at the end\n")
    prefix, (result,), _ = await loaded(project, "release")
    assert (
        '<skill name="release" source="project">\nMakes &lt;b&gt;releases&lt;/b&gt;.\nWhen to use it: at the end'
        in prefix
    )
    shown = text_of(result.content)
    assert shown.startswith('<skill_content name="release">\n# Skill: release\n\n1. Tag it.\n')
    assert str(path.parent) in shown
    assert shown.endswith("</skill_content>")


async def test_names_that_do_not_load_say_why(project: Path) -> None:
    skill(project / ".dsh/skills", "release")
    skill(project / ".dsh/skills", "secret", more="disableModelInvocation: true\n")
    prefix, found, _ = await loaded(project, "../../etc", "other", "secret")
    assert "secret" not in prefix
    assert [result.error.code if result.error else None for result in found] == [
        "SKILL_NAME",
        "SKILL_UNKNOWN",
        "SKILL_HIDDEN",
    ]
    assert "(the skills are: release)" in text_of(found[1].content)


async def test_without_skills_there_is_no_tool_and_no_prefix(project: Path) -> None:
    prefix, (result,), _ = await loaded(project, "release")
    assert prefix == ""
    assert result.error is not None
    assert result.error.name == "ToolNotFoundError"


def test_a_file_that_is_spelt_otherwise_is_told(project: Path, home: Path) -> None:
    for name in ("skill.md", "Skill.MD"):
        folder = project / ".dsh/skills" / name.partition(".")[0]
        folder.mkdir(parents=True)
        (folder / name).write_text("---\nname: x\ndescription: d\n---\nb")
    found = collect(roots(project, home / ".dsh", home))
    assert not found.skills
    assert [problem.partition(" is left out")[0] for problem in found.problems] == [
        str(project / ".dsh/skills/Skill/Skill.MD"),
        str(project / ".dsh/skills/skill/skill.md"),
    ]


async def test_long_descriptions_are_cut(project: Path) -> None:
    skill(project / ".dsh/skills", "wordy", "w" * 600)
    prefix, _, _ = await loaded(project)
    assert "w" * 499 + "…" in prefix
    assert "w" * 500 not in prefix


async def test_a_plugin_brings_a_skill(project: Path) -> None:
    def skills_register(skills: dsh_skills.Skills) -> None:
        skills.add("given", "From a plugin.", "Do as I say.")

    prefix, (result,), _ = await loaded(project, "given", giver=plugin_of(skills_register=skills_register))
    assert '<skill name="given" source="giver">' in prefix
    assert "Do as I say." in text_of(result.content)


async def test_a_skill_of_the_wrong_form_is_the_plugin_s_error(project: Path) -> None:
    giver = plugin_of(skills_register=lambda skills: skills.add("Not A Name", "x", "y"))
    async with memory_agent(text("ok"), plugins={**INSTALLED, "giver": giver}, cwd=str(project)) as agent:
        result = await agent.run("go")
    assert result.reason is not None
    assert result.reason.kind == "error"
    assert "of the plugin 'giver'" in (result.reason.message or "")


async def test_problems_are_told(project: Path) -> None:
    skill(project / ".dsh/skills", "good")
    skill(project / ".dsh/skills", "Bad")
    _, _, warnings = await loaded(project)
    assert len(warnings) == 1
    assert warnings[0].startswith("skills: ")


async def test_an_agent_without_the_tool_is_not_told(project: Path) -> None:
    from dsh import AgentOptions

    skill(project / ".dsh/skills", "release")
    options = AgentOptions(model="scripted/model", without_tools=("skill",))
    async with memory_agent(text("ok"), plugins=INSTALLED, cwd=str(project), options=options) as agent:
        await agent.run("go")
        assert prefix_text(agent) == ""


async def test_more_folders_in_the_settings(project: Path, tmp_path: Path) -> None:
    skill(tmp_path / "shelf", "shelved")
    config = Config(tables={"skills": {"folders": [str(tmp_path / "shelf")]}})
    async with memory_agent(text("ok"), plugins=INSTALLED, cwd=str(project), config=config) as agent:
        await agent.run("go")
        assert '<skill name="shelved" source="config">' in prefix_text(agent)


# -- the command


def command(project: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DSH_HOME": str(home / ".dsh"), "HOME": str(home)}
    argv = [sys.executable, "-m", "dsh", "skills", *arguments]
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60)


def test_the_command_lists_and_prints(project: Path, home: Path) -> None:
    skill(project / ".dsh/skills", "release", body="1. Tag it.")
    skill(project / ".dsh/skills", "Bad")
    ran = command(project, home)
    assert (ran.returncode, ran.stdout) == (0, "release  (project)  Does it.\n")
    assert "'Bad' is none" in ran.stderr
    record = loads(command(project, home, "--json").stdout)
    assert (record["name"], record["source"], record["hidden"]) == ("release", "project", False)
    assert command(project, home, "release").stdout == "1. Tag it.\n"
    missing = command(project, home, "nothing")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "there is no skill nothing here (there are: release)" in missing.stderr


@pytest.mark.parametrize("most", [0, -5])
def test_descriptions_have_room_for_something(most: int) -> None:
    with pytest.raises(ValueError, match="max_description"):
        SkillsConfig(max_description=most)
    assert SkillsConfig(max_description=1).max_description == 1
