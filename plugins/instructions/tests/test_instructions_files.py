"""Files of instructions: which are read, in which order, what they import, what is wrong with some."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dsh_instructions
import pytest
from dsh_instructions.config import InstructionsConfig
from dsh_instructions.documents import Loader, imports, start_documents
from hypothesis import given
from hypothesis import strategies as st

from dsh import Agent, Tool
from dsh.config import Config
from dsh.llm.scripted import ScriptedModel
from dsh.messages import text_of
from dsh.session.events import ContextMessage, RequestHeader
from dsh.testing import call, memory_agent, plugin_of, text
from dsh.tools.tool import Tools

CONFIGS = Path(__file__).parents[3] / "../shared/configs/agents-md"
INSTALLED = {"instructions": dsh_instructions}


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
    (project / "src" / "deep").mkdir(parents=True)
    return project


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(cwd: Path, home: Path, config: InstructionsConfig | None = None) -> tuple[list[tuple[str, str]], list[str]]:
    loader = Loader(config or InstructionsConfig(), cwd, home)
    found = start_documents(loader, home / ".dsh")
    return [(document.shown, document.text) for document in found], loader.problems


def test_the_order_is_from_far_to_near(project: Path, home: Path) -> None:
    put(home / ".dsh/AGENTS.md", "mine")
    put(home / ".claude/CLAUDE.md", "mine elsewhere")
    put(project / "AGENTS.md", "project")
    put(project / "CLAUDE.md", "project, for another tool")
    put(project / "src/AGENTS.md", "source")
    put(project / "src/deep/AGENTS.md", "below: not yet")
    put(project.parent / "AGENTS.md", "above the repository: never")

    found, problems = load(project / "src", home)

    assert found == [
        ("~/.claude/CLAUDE.md", "mine elsewhere"),
        ("~/.dsh/AGENTS.md", "mine"),
        (str(project / "AGENTS.md"), "project"),
        (str(project / "CLAUDE.md"), "project, for another tool"),
        ("AGENTS.md", "source"),
    ]
    assert problems == []


def test_without_a_repository_only_the_folder_counts(tmp_path: Path, home: Path) -> None:
    put(tmp_path / "AGENTS.md", "above")
    put(tmp_path / "here/AGENTS.md", "here")
    assert load(tmp_path / "here", home)[0] == [("AGENTS.md", "here")]


def test_a_copy_and_a_link_say_nothing_new(project: Path, home: Path) -> None:
    put(project / "AGENTS.md", "the same")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert load(project, home)[0] == [("AGENTS.md", "the same")]
    (project / "CLAUDE.md").unlink()
    put(project / "CLAUDE.md", "the same\n\n")
    assert load(project, home) == ([("AGENTS.md", "the same")], [])


def test_imports_follow_their_file(project: Path, home: Path) -> None:
    put(project / "CLAUDE.md", "See @AGENTS.md, and @docs/style.md.")
    put(project / "AGENTS.md", "agents")
    put(project / "docs/style.md", "style, with @more.md")
    put(project / "docs/more.md", "more, and back to @../CLAUDE.md")
    found, problems = load(project, home)
    assert [shown for shown, _ in found] == ["AGENTS.md", "CLAUDE.md", "docs/style.md", "docs/more.md"]
    assert problems == []


def test_imports_have_a_depth(project: Path, home: Path) -> None:
    for number in range(9):
        put(project / f"n{number}.md", f"number {number} @n{number + 1}.md")
    put(project / "AGENTS.md", "@n0.md")
    found, _ = load(project, home)
    assert [shown for shown, _ in found] == ["AGENTS.md", "n0.md", "n1.md", "n2.md", "n3.md", "n4.md"]
    found, _ = load(project, home, InstructionsConfig(import_depth=0))
    assert [shown for shown, _ in found] == ["AGENTS.md"]


@pytest.mark.parametrize("way", ["import", "home import", "absolute import", "link", "linked folder"])
def test_nothing_leads_out_of_a_project(project: Path, home: Path, way: str) -> None:
    """A stranger's project must not have a person's files read to the model."""
    secret = put(home / ".ssh/id_ed25519", "PRIVATE KEY")
    if way == "import":
        put(project / "AGENTS.md", f"See @{os.path.relpath(secret, project)}")
    elif way == "home import":
        put(project / "AGENTS.md", "See @~/.ssh/id_ed25519")
    elif way == "absolute import":
        put(project / "AGENTS.md", f"See @{secret}")
    elif way == "link":
        (project / "AGENTS.md").symlink_to(secret)
    else:
        (project / "docs").symlink_to(secret.parent)
        put(project / "AGENTS.md", "See @docs/id_ed25519")

    found, problems = load(project, home)

    assert "PRIVATE KEY" not in str(found)
    assert len(problems) == 1
    assert "leads out of" in problems[0]
    assert str(secret) in problems[0]


def test_a_person_s_own_files_lead_anywhere(project: Path, home: Path) -> None:
    put(home / "dotfiles/agents.md", "dotted")
    (home / ".dsh").mkdir()
    (home / ".dsh/AGENTS.md").symlink_to(home / "dotfiles/agents.md")
    assert load(project, home) == ([("~/.dsh/AGENTS.md", "dotted")], [])


def test_what_is_wrong_is_said(project: Path, home: Path) -> None:
    put(project / "AGENTS.md", "x" * 100)
    (project / "CLAUDE.md").write_bytes(b"caf\xe9 \0")
    (project / "AGENTS.local.md").mkdir()
    put(project / "CLAUDE.local.md", "see @gone.md and @someone")
    config = InstructionsConfig(max_file_bytes=50)

    found, problems = load(project, home, config)

    assert found[0] == ("AGENTS.md", "x" * 50 + "\n[cut here: the file has 100 bytes]")
    assert problems == [
        "AGENTS.md has 100 bytes: only the first 50 are read",
        "CLAUDE.md is no text: it is not read",
        "AGENTS.local.md cannot be read: is a directory",
        "CLAUDE.local.md imports gone.md, which does not exist",
    ]


def test_all_together_have_a_limit(project: Path, home: Path) -> None:
    put(project / "AGENTS.md", "a" * 60)
    put(project / "src/AGENTS.md", "b" * 60)
    put(project / "src/deep/AGENTS.md", "c" * 30)
    found, problems = load(project / "src/deep", home, InstructionsConfig(max_total_bytes=100))
    assert [text[0] for _, text in found] == ["a", "c"]
    assert problems == [
        f"{project}/src/AGENTS.md is left out: with it, the files of instructions have more than 100 bytes"
    ]


def test_pipes_and_dangling_links_do_not_hang(project: Path, home: Path) -> None:
    os.mkfifo(project / "AGENTS.md")
    (project / "CLAUDE.md").symlink_to("nowhere.md")
    found, problems = load(project, home)
    assert found == []
    assert problems == [
        "AGENTS.md cannot be read: is no regular file",
        "CLAUDE.md cannot be read: No such file or directory",
    ]


def test_loops_of_links_and_imports_end(project: Path, home: Path) -> None:
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    put(project / "AGENTS.local.md", "one @CLAUDE.local.md @./AGENTS.local.md")
    put(project / "CLAUDE.local.md", "two @AGENTS.local.md @sub/../CLAUDE.local.md")
    found, problems = load(project, home)
    assert [shown for shown, _ in found] == ["AGENTS.local.md", "CLAUDE.local.md"]
    loop = "cannot be read: Too many levels of symbolic links"
    assert [problem for problem in problems if "imports" not in problem] == [f"AGENTS.md {loop}", f"CLAUDE.md {loop}"]


def test_ten_thousand_imports_are_bounded_and_so_is_what_is_said_of_them(project: Path, home: Path) -> None:
    for number in range(1000):
        put(project / f"f{number}.md", f"number {number}")
    put(project / "AGENTS.md", " ".join(f"@f{number}.md" for number in range(3000)))
    found, problems = load(project, home)
    assert len(found) == 200
    assert sum(len(shown) + len(text) for shown, text in found) < 60_000
    assert len(problems) == 21
    assert "200 files of instructions are read at most" in problems[0]
    assert problems[-1].startswith("there is more")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_said(project: Path, home: Path) -> None:
    put(project / "AGENTS.md", "x").chmod(0)
    assert load(project, home) == ([], ["AGENTS.md cannot be read: Permission denied"])


HOSTILE = """
import resource
from dsh_instructions.documents import imports
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
for text in ("`" * 48_000, "```\\n" + "`" * 48_000, "~" * 48_000, "``a" * 16_000, "`x``y```z" * 5000, "@" * 48_000):
    imports(text)
print("done")
"""


def test_no_text_takes_for_ever() -> None:
    """The first of these took twenty seconds of CPU once; here the system ends who takes so much."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_ticks_pair_with_as_many_as_they_are(project: Path) -> None:
    assert imports("`` ` @a `` @b ` @c `") == ["b"]
    assert imports("``` @a ` @b") == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("See @a.md.", ["a.md"]),
        ("@a.md @b/c.md\n@~/d.md", ["a.md", "b/c.md", "~/d.md"]),
        ("mail me@example.org, `@code.md`, and\n```\n@fenced.md\n```\n@real.md", ["real.md"]),
        ("(@not-an-import.md) but @this, and @this", ["this"]),
        ("~~~sh\n@a\n~~~\n``@b``", []),
    ],
)
def test_what_counts_as_an_import(text: str, paths: list[str]) -> None:
    assert imports(text) == paths


@given(st.text(alphabet="@`~a./ \n", max_size=60))
def test_any_text_has_imports_or_none(text: str) -> None:
    for path in imports(text):
        assert f"@{path}" in text


# -- in an agent


def prefix_text(agent: Agent) -> str:
    header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader))
    return "\n".join(text_of(message.content) for message in header.header.message_prefix or ())


async def test_they_stand_before_the_history_and_stay(project: Path) -> None:
    put(project / "AGENTS.md", "Use tabs.")
    async with memory_agent(text("one"), text("two"), plugins=INSTALLED, cwd=str(project)) as agent:
        await agent.run("go")
        assert '<instructions path="AGENTS.md">\nUse tabs.\n</instructions>' in prefix_text(agent)
        put(project / "AGENTS.md", "Use spaces.")
        await agent.run("on")
        headers = [event for event in agent.session.events if event.type.startswith("request/header")]
        assert len(headers) == 1


async def test_problems_are_told_once(project: Path) -> None:
    os.mkfifo(project / "AGENTS.md")
    warnings: list[str] = []
    plugins = {**INSTALLED}
    async with memory_agent(text("one"), text("two"), plugins=plugins, cwd=str(project), warnings=warnings) as agent:
        await agent.run("go")
        await agent.run("on")
    assert warnings == ["instructions: AGENTS.md cannot be read: is no regular file"]


files = pytest.importorskip("dsh_files")


async def contexts(agent: Agent) -> list[str]:
    return [text_of(event.data.content) for event in agent.session.events if isinstance(event.data, ContextMessage)]


async def test_a_folder_below_speaks_when_it_is_touched(project: Path) -> None:
    put(project / "AGENTS.md", "top")
    put(project / "src/AGENTS.md", "in source")
    put(project / "src/deep/CLAUDE.md", "deep down")
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.py"):
        put(project / name, "pass\n")
    names = ["a.py", "src/b.py", "src/deep/c.py", "src/deep/d.py"]
    replies = [call("read", {"file_path": name}, id=f"c{n}") for n, name in enumerate(names)]
    plugins = {**INSTALLED, "files": files}
    async with memory_agent(*replies, text("done"), plugins=plugins, cwd=str(project)) as agent:
        await agent.run("go")
        found = await contexts(agent)
    assert len(found) == 2
    assert '<instructions path="src/AGENTS.md">\nin source' in found[0]
    assert "deep down" in found[1]
    assert "in source" not in found[1]


async def test_what_the_history_still_shows_is_not_said_again(project: Path) -> None:
    """A session that goes on elsewhere has the words in its history."""
    put(project / "src/AGENTS.md", "in source")
    put(project / "src/b.py", "pass\n")
    plugins = {**INSTALLED, "files": files}
    look = call("read", {"file_path": "src/b.py"}, id="c1")
    async with memory_agent(look, text("done"), plugins=plugins, cwd=str(project)) as agent:
        await agent.run("go")
        events = list(agent.session.events)
    again = call("read", {"file_path": "src/b.py"}, id="c2")
    async with memory_agent(again, text("done"), plugins=plugins, cwd=str(project), seed=events) as agent:
        await agent.run("go")
        assert len(await contexts(agent)) == 1


async def test_two_reads_of_one_step_say_it_once(project: Path) -> None:
    from dsh.testing import reply

    put(project / "src/AGENTS.md", "in source")
    put(project / "src/b.py", "pass\n")
    both = reply(calls=[("c1", "read", {"file_path": "src/b.py"}), ("c2", "read", {"file_path": "src/b.py"})])
    plugins = {**INSTALLED, "files": files}
    async with memory_agent(both, text("done"), plugins=plugins, cwd=str(project)) as agent:
        await agent.run("go")
        assert len(await contexts(agent)) == 1


async def test_nested_files_can_be_turned_off_and_failures_do_not_count(project: Path) -> None:
    put(project / "src/AGENTS.md", "in source")
    put(project / "src/b.py", "pass\n")
    plugins = {**INSTALLED, "files": files}
    replies = [call("read", {"file_path": "src/missing.py"}, id="c1"), text("done")]
    async with memory_agent(*replies, plugins=plugins, cwd=str(project)) as agent:
        await agent.run("go")
        assert await contexts(agent) == []
    config = Config(tables={"instructions": {"nested": False}})
    replies = [call("read", {"file_path": "src/b.py"}, id="c1"), text("done")]
    async with memory_agent(*replies, plugins=plugins, cwd=str(project), config=config) as agent:
        await agent.run("go")
        assert await contexts(agent) == []


async def test_an_agent_without_a_folder_has_none() -> None:
    async with memory_agent(text("one"), plugins=INSTALLED) as agent:
        await agent.run("go @AGENTS.md")
        assert prefix_text(agent) == ""


@pytest.mark.skipif(not CONFIGS.exists(), reason="the recorded files are not here")
def test_files_that_people_wrote(project: Path, home: Path) -> None:
    for path in sorted(CONFIGS.glob("*.md")):
        put(project / "AGENTS.md", path.read_text(encoding="utf-8"))
        found, problems = load(project, home)
        assert found[0][1] == path.read_text(encoding="utf-8").strip(), path
        assert all("imports" in problem for problem in problems), (path, problems)


# -- attached files


async def asked(prompt: str, cwd: Path, **plugins: object) -> list[str]:
    model = ScriptedModel(text("ok"))
    config = Config(tables={"instructions": {"max_attachment_bytes": 100}})
    async with memory_agent(model=model, plugins={**INSTALLED, **plugins}, cwd=str(cwd), config=config) as agent:
        await agent.run(prompt)
        return await contexts(agent)


async def test_a_file_in_a_prompt_is_attached(project: Path) -> None:
    put(project / "a b.txt", "with a blank")
    put(project / "src/x.py", "pass")
    (found,) = await asked('Look at @src/x.py, @"a b.txt" and @src/x.py: write to me@example.org, @nobody', project)
    assert found == (
        '<attachment path="src/x.py">\npass\n</attachment>\n\n<attachment path="a b.txt">\nwith a blank\n</attachment>'
    )


async def test_a_folder_is_listed_and_long_or_odd_files_are_said(project: Path) -> None:
    put(project / "src/x.py", "y" * 200)
    (project / "data.bin").write_bytes(b"\0\1")
    (found,) = await asked("@src? @data.bin (@src/x.py)", project)
    assert '<folder path="src">\ndeep/\nx.py\n</folder>' in found
    assert "(not attached: 2 bytes that are no text)" in found
    assert "y" * 100 + "\n(cut here: the file has 200 bytes" in found


async def test_a_prompt_without_files_is_left_alone(project: Path) -> None:
    assert await asked("Hello @you, see a@b.c", project) == []


async def test_who_judges_reading_judges_attaching(project: Path) -> None:
    from dsh import Deny

    put(project / ".env", "KEY=1")
    put(project / "a.txt", "fine")

    def tools_pre_execute(call: object) -> object:
        arguments = getattr(call, "arguments", {})
        return Deny("that is private") if arguments["file_path"].endswith(".env") else None

    (found,) = await asked("@.env @a.txt", project, guard=plugin_of(tools_pre_execute=tools_pre_execute))
    assert "KEY" not in found
    assert '<attachment path=".env">\n(not attached: that is private)' in found
    assert "fine" in found


async def test_what_is_no_file_hangs_nobody(project: Path) -> None:
    os.mkfifo(project / "pipe")
    os.symlink("loop", project / "loop")
    (project / "many").mkdir()
    for number in range(3000):
        (project / f"many/{number:05}").touch()
    os.mkdir(os.fsencode(project) + b"/caf\xe9")
    found = await asked("see @pipe @/dev/zero @loop @. @many @/proc/self/mem", project)
    (context,) = found
    assert '<attachment path="pipe">\n(not attached: is no regular file)' in context
    assert '<attachment path="/dev/zero">\n(not attached: is no regular file)' in context
    assert "loop" not in context.partition('<folder path="."')[0]
    assert "\n00199\n(and 2800 more)\n</folder>" in context
    assert "caf\ufffd/" in context
    assert len(context) < 5000


async def test_all_of_a_prompt_have_a_limit_together(project: Path) -> None:
    for number in range(9):
        put(project / f"f{number}.txt", str(number) * 100)
    (context,) = await asked(" ".join(f"@f{number}.txt" for number in range(9)), project)
    assert [str(number) * 100 in context for number in range(9)] == [True] * 3 + [False] * 6
    assert '<attachment path="f3.txt">\n(not attached: what is attached before it is long;' in context


async def test_code_in_a_prompt_names_no_file(project: Path) -> None:
    put(project / "a.md", "attached")
    assert await asked("```\n@a.md\n```\nand `@a.md` too, x@a.md", project) == []


async def test_attaching_can_be_turned_off(project: Path) -> None:
    put(project / "a.txt", "fine")
    config = Config(tables={"instructions": {"attach": False}})
    async with memory_agent(text("ok"), plugins=INSTALLED, cwd=str(project), config=config) as agent:
        await agent.run("@a.txt")
        assert await contexts(agent) == []


SHELL = Tool(
    "sh",
    "Runs a command.",
    {"type": "object", "properties": {"command": {"type": "string"}, "workdir": {"type": "string"}}},
    lambda arguments, call: "ok",
    effect="execute",
    subject="command",
)
SEARCH = Tool(
    "search",
    "Searches a folder.",
    {"type": "object", "properties": {"path": {"type": "string"}}},
    lambda arguments, call: "ok",
    effect="read",
    subject="path",
)


def naming(tools: Tools) -> None:
    tools.add(SHELL)
    tools.add(SEARCH)


NAMING = plugin_of(tools_register=naming)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("search", {"path": "src"}, ["src"]),
        ("search", {"path": "src/deep"}, ["src", "src/deep"]),
        ("search", {"path": "."}, []),
        ("sh", {"command": "cat src/b.py"}, ["src"]),
        ("sh", {"command": "ls src/deep | wc -l"}, ["src", "src/deep"]),
        ("sh", {"command": "cd src && cat deep/c.py"}, ["src", "src/deep"]),
        ("sh", {"command": "cd src; make"}, ["src"]),
        ("sh", {"command": "grep -n 'x' \"other folder/d.py\""}, ["other folder"]),
        ("sh", {"command": "make", "workdir": "src"}, ["src"]),
        ("sh", {"command": "cat deep/c.py", "workdir": "src"}, ["src", "src/deep"]),
        ("sh", {"command": "cat >src/new.py </dev/null"}, []),
        ("sh", {"command": "cat deep/c.py"}, []),
        ("sh", {"command": "echo src/missing.py ../elsewhere ~ / \\0 $(x) `y`"}, []),
        ("sh", {"command": " ".join(["x"] * 300 + ["src/b.py"])}, []),
    ],
)
async def test_a_folder_is_touched_by_whatever_names_it(
    project: Path, name: str, arguments: dict[str, str], told: list[str]
) -> None:
    for folder in ("src", "src/deep", "other folder"):
        put(project / folder / "AGENTS.md", f"of {folder}")
    for file in ("src/b.py", "src/deep/c.py", "other folder/d.py"):
        put(project / file, "pass\n")
    plugins = {**INSTALLED, "naming": NAMING}
    async with memory_agent(call(name, arguments), text("done"), plugins=plugins, cwd=str(project)) as agent:
        await agent.run("go")
        found = "\n".join(await contexts(agent))
    assert re.findall(r'<instructions path="(.*)/AGENTS.md">', found) == told


async def test_a_path_with_blanks_may_be_written_as_shells_do(project: Path) -> None:
    put(project / "my notes.md", "noted")
    put(project / "my", "not this")
    async with memory_agent(text("ok"), plugins=INSTALLED, cwd=str(project)) as agent:
        await agent.run("see @my\\ notes.md.")
        (found,) = await contexts(agent)
    assert '<attachment path="my notes.md">\nnoted' in found


@pytest.mark.parametrize(
    ("name", "least"),
    [("max_file_bytes", 1), ("max_total_bytes", 0), ("import_depth", 0), ("max_attachment_bytes", 1)],
)
def test_no_limit_is_less_than_makes_sense(name: str, least: int) -> None:
    limits: dict[str, Any] = {name: least - 1}
    with pytest.raises(ValueError, match=name):
        InstructionsConfig(**limits)
    limits = {name: least}
    assert getattr(InstructionsConfig(**limits), name) == least
