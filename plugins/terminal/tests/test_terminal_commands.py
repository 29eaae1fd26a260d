"""Commands of a conversation, through the whole program but for the screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from typing import Any

import pytest
from dsh_terminal.feed import Feed
from dsh_terminal.looks import _first_line
from dsh_terminal.paint import Look, Painter
from dsh_terminal.screen import Cancel, Line

from dsh.messages import Text
from dsh.session.events import ToolCall, ToolResult

pytest.importorskip("pyte")

NAMES = """help model effort permissions compact clear resume fork rewind sessions export diff cost context plugins
hooks why agents jobs tools skills trust config theme exit tell"""
WRITE = 'call("write", {"file_path": "a.txt", "content": "one\\n"}, id="w1"), text("Written.")'


def sessions(desk: Any) -> list[str]:
    return sorted(path.stem for path in desk.home.glob("sessions/*/*.jsonl"))


def test_looking_at_things(scripted: Any) -> None:
    """Commands that change nothing."""
    screen = scripted(
        'call("bash", {"command": "echo hi"}, id="c1"), '
        'reply("Hello.", usage=TokenUsage(1000, 20, cache_read_tokens=3000))',
        "/help",
        "/help model",
        "/cost",
        "/jobs",
        "/why",
        "greet me",
        "/cost",
        "/context",
        "/tools",
        "/tools bash",
        "/tools bsah",
        "/agents",
        "/jobs",
        "/why",
        "/why turn:9",
        "/theme",
        "/nothing",
        "/hel",
    )
    (start, all_help, help_model, cost0, jobs0, why0, greet, cost, context, tools, bash, bsah, agents, jobs, *more) = (
        screen.said
    )
    why, why9, theme, nothing, hel = more
    assert "lists commands" in start
    for name in re.findall(r"\w+", NAMES):
        assert f"/{name} " in all_help
    assert "Esc, Ctrl-C" in all_help
    assert "which model is asked" in help_model
    assert "nothing has been asked" in cost0
    assert "nothing runs" in jobs0
    assert "nothing has been decided yet" in why0
    assert "✓ bash echo hi" in greet
    assert "Hello." in greet
    assert "scripted/model: 4010 tokens in (3000 cached), 25 out: its price is not known" in cost
    assert "4020 tokens" in context
    assert "system prompt" in context
    assert "bash: " in tools
    assert '"command"' in bash
    assert "did you mean bash?" in bsah
    assert "agent-1: idle" in agents
    assert "nothing runs" in jobs
    assert "turn 1" in why or "denied" in why
    assert "its turns are 1 to 1" in why9
    assert "none now" in theme
    assert "there is no command /nothing" in nothing
    assert "/model" in hel  # the one command that begins so
    assert scripted.code == 0
    assert "74 % cached" in screen.statuses[-1]


def test_commands_of_the_shell(scripted: Any, desk: Any) -> None:
    screen = scripted(
        'text("Hello.")',
        "greet",
        "/sessions",
        "/export out.md",
        "/plugins",
        "/hooks order agent_request",
        "/skills",
        "/trust",
        "/config path",
    )
    _, _, listed, exported, plugins, hooks, skills, trust, config = screen.said
    assert "greet" in listed
    assert (desk.work / "out.md").read_text().count("Hello.") == 1
    assert "out.md" in exported
    assert "terminal" in plugins
    assert "cli.opening" in hooks or "agent_request" in hooks
    assert "skill" in skills
    assert trust.count("\n") > 1
    assert "config.toml" in config


def test_choosing_a_model_and_how_much_it_thinks(scripted: Any) -> None:
    screen = scripted(
        'text("one"), text("two")',
        "/model nobody/x",
        "/effort huge",
        "/effort high",
        "/model scripted",
        "go",
        "/effort default",
        "go on",
        "/model",
        answers=[None],
    )
    assert "nobody" in screen.said[1]
    assert "there is no effort huge" in screen.said[2]
    assert "scripted/model is asked" in screen.said[4]
    first, second = scripted.module.model.requests
    assert (first.reasoning_effort, second.reasoning_effort) == ("high", None)
    assert any("scripted/model (high)" in status for status in screen.statuses)
    assert screen.chosen[0][1] == ["scripted/model"]


def test_a_new_conversation_and_back_again(scripted: Any, desk: Any) -> None:
    screen = scripted(
        'text("first answer"), text("second answer"), text("third answer")',
        "remember the word",
        "/clear",
        "something else",
        "/resume",
        "what was it?",
        "/resume no-such",
        answers=[0],
    )
    assert re.search(r"a new session, \S+; dsh -r", screen.said[2])
    question, choices = screen.chosen[0]
    assert "which session" in question
    assert "remember the word" in choices[0]
    assert "1 turn so far" in screen.said[4]
    last = scripted.module.model.requests[-1]
    texts = [block.text for message in last.messages for block in message.content if hasattr(block, "text")]
    assert "remember the word" in texts
    assert "something else" not in texts
    assert "no session of this folder begins with no-such" in screen.said[6]
    assert len(sessions(desk)) == 2


def test_resume_without_a_person_lists(scripted: Any) -> None:
    screen = scripted('text("a"), text("b")', "one", "/clear", "two", "/resume", "/resume x y", interactive=False)
    assert "one" in screen.said[4]
    assert "/resume ID goes on with one" in screen.said[4]
    assert screen.chosen == []


def test_a_session_that_somebody_else_writes(scripted: Any, desk: Any) -> None:
    """The conversation goes on as it was, and says why."""
    scripted('text("a")', "held by another")
    (held,) = sessions(desk)
    (path,) = desk.home.glob("sessions/*/*.jsonl")

    async def resume(screen: Any) -> None:
        harness = screen.talk.conversation.harness
        handle = await harness.resume_agent(held)
        screen.held = screen.talk.agent.session.id
        screen.enter(__import__("dsh_terminal.screen").screen.Line(f"/resume {held}"))
        await screen.talk.settled()
        assert screen.talk.agent.session.id == screen.held
        await handle.dispose()

    screen = scripted('text("still here")', resume, "are you there?")
    assert "still here" in screen.said[2]
    assert path.read_text().count("held by another") >= 1
    assert held in screen.said[1]


def test_a_damaged_session_is_not_opened(scripted: Any, desk: Any) -> None:
    scripted('text("a")', "one")
    (path,) = desk.home.glob("sessions/*/*.jsonl")
    lines = path.read_bytes().split(b"\n")
    lines[3] = b'{"broken'
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    screen = scripted('text("still here")', f"/resume {path.stem}", "are you there?")
    assert path.read_bytes() == before
    assert "line 4" in screen.said[1] or "damaged" in screen.said[1] or "cannot be read" in screen.said[1]
    assert "still here" in screen.said[2]


@pytest.mark.parametrize("command", ["/clear", "/fork"])
def test_another_conversation_while_a_turn_runs(scripted: Any, desk: Any, command: str) -> None:
    """The turn is stopped and stays in its log; what waited for the next one comes back."""

    async def while_it_runs(screen: Any) -> None:
        from dsh_terminal.screen import Line

        screen.enter(Line("begin"))
        await screen.until("sleep 20")
        screen.enter(Line("and then this", True))
        screen.enter(Line(command))

    screen = scripted('call("bash", {"command": "sleep 20"}, id="c1"), text("after")', while_it_runs, "now what?")
    assert screen.back == ["and then this"]
    assert "after" in screen.said[2]
    assert len(sessions(desk)) == 2
    for path in desk.home.glob("sessions/*/*.jsonl"):
        text = path.read_text()
        assert text.count('"turn/start"') == text.count('"turn/end"')
    assert any("sleep 20" in path.read_text() for path in desk.home.glob("sessions/*/*.jsonl"))


def test_a_fork_goes_on_in_a_session_of_its_own(scripted: Any, desk: Any) -> None:
    screen = scripted('text("a"), text("b"), text("c")', "one", "two", "/fork 1", "three", "/fork 7", "/fork")
    last = scripted.module.model.requests[-1]
    texts = [block.text for message in last.messages for block in message.content if hasattr(block, "text")]
    assert "one" in texts
    assert "two" not in texts
    assert "three" in texts
    assert "1 turn so far" in screen.said[3]
    assert "the turns of this conversation are 1 to 2" in screen.said[5]
    assert len(sessions(desk)) == 3


def test_forks_without_stored_sessions(scripted: Any, desk: Any) -> None:
    screen = scripted('text("a"), text("b")', "one", "/fork", "two", flags=["--no-session"])
    assert "1 turn so far" in screen.said[2]
    assert "b" in screen.said[3]
    assert sessions(desk) == []


def test_rewinding_files_and_conversation(scripted: Any, desk: Any) -> None:
    write = 'call("write", {{"file_path": "a.txt", "content": "{0}\\n"}}, id="w{0}"), text("Written {0}.")'
    script = ", ".join(write.format(n) for n in (1, 2))
    screen = scripted(f'{script}, text("third")', "write 1", "write 2", "/rewind", "go on", answers=[0, 0])
    assert (desk.work / "a.txt").read_text() == "1\n"
    assert screen.chosen[0][1] == ["before turn 2: write 2", "before turn 1: write 1"]
    assert "brought back" in screen.said[3]
    assert screen.back == ["write 2"]
    last = scripted.module.model.requests[-1]
    texts = [block.text for message in last.messages for block in message.content if hasattr(block, "text")]
    assert "write 1" in texts
    assert "write 2" not in texts


def test_rewinding_asks_before_it_overwrites(scripted: Any, desk: Any) -> None:
    async def change(screen: Any) -> None:
        (desk.work / "a.txt").write_text("mine\n")

    screen = scripted(
        WRITE, "write", change, "/rewind 0 files", "/rewind 0 files --force", "/rewind 5", "/rewind 0 conversation"
    )
    assert "left alone" in screen.words(3)
    assert "deleted" in screen.said[4]
    assert not (desk.work / "a.txt").exists()
    assert "1 to 1" in screen.said[5]
    assert "a new session" in screen.said[6]


def test_changes_since_the_last_commit(scripted: Any, desk: Any) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *words], cwd=desk.work, check=True, capture_output=True)

    outside = scripted('text("x")', "/diff")
    assert "git says" in outside.said[1]
    git("init")
    (desk.work / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git("commit", "-m", "first")
    (desk.work / "a.txt").write_text("two\n")
    (desk.work / "new.txt").write_text("new\n")
    screen = scripted('text("x")', "/diff")
    assert "+two" in screen.said[1]
    assert "-one" in screen.said[1]
    assert "new: new.txt" in screen.said[1]


def test_a_command_of_ones_own_is_shown_to_the_model_on_request(scripted: Any) -> None:
    screen = scripted('text("I see.")', "/tell", "!echo mine; exit 3", "/tell what is that?", "!")
    assert "no output to show" in screen.said[1]
    assert "mine" in screen.said[2]
    assert "exit code 3" in screen.said[2]
    (request,) = scripted.module.model.requests
    told = request.messages[-1].content[0].text
    assert "mine" in told
    assert told.endswith("what is that?")
    assert "!command runs" in screen.said[4]


def test_commands_in_files(scripted: Any, desk: Any) -> None:
    folder = desk.work / ".claude" / "commands"
    (folder / "web").mkdir(parents=True)
    (folder / "review.md").write_text("---\ndescription: look at it\n---\nReview $1 for $2. All: $ARGUMENTS\n")
    (folder / "web" / "page.md").write_text("Make a page.\n")
    (folder / "clear.md").write_text("Never.\n")
    (folder / "bad name.md").write_text("x\n")
    (desk.work / ".dsh" / "commands").mkdir(parents=True)
    (desk.work / ".dsh" / "commands" / "run.md").write_text("Run !`rm -rf /` $1\n")
    screen = scripted(
        'text("a"), text("b"), text("c")', '/review "a b" speed', "/web:page of cats", "/run it", "/help", "/clear"
    )
    prompts = [request.messages[-1].content[0].text for request in scripted.module.model.requests]
    assert prompts == [
        'Review a b for speed. All: "a b" speed',
        "Make a page.\n\nof cats",
        "Run !`rm -rf /` it",  # prompt text, and nothing else
    ]
    assert "there is a command /clear already" in screen.words(0)
    assert "is no name for a command" in screen.words(0)
    assert "look at it" in screen.said[4]
    assert "a new session" in screen.said[5]


def test_the_mode_of_permissions(scripted: Any, desk: Any) -> None:
    screen = scripted(
        f"{WRITE}, {WRITE}",
        "/permissions",
        "/permissions plan",
        "write",
        "/permissions accept-edits",
        "/permissions accept-edits yes",
        "write",
        "/permissions bypass yes",
        "/permissions nonsense",
        mode="default",
    )
    assert "mode default" in screen.said[1]
    assert "mode plan from now on" in screen.said[2]
    assert "✗" in screen.said[3]
    assert "accept-edits yes" in screen.said[4]
    assert "mode accept-edits from now on" in screen.said[5]
    assert "✓" in screen.said[6]
    assert (desk.work / "a.txt").exists()
    assert "from its start" in screen.said[7]
    assert "accept-edits" in screen.said[8]
    assert "accept-edits" in screen.statuses[-1]
    modes = [event["data"]["mode"] for event in desk.events() if event["type"] == "permission/mode"]
    assert modes == ["plan", "accept-edits"]
    assert all(event["data"]["turn"] for event in desk.events() if event["type"] == "permission/mode")


def test_bypass_may_come_back_where_it_was_given_at_the_start(scripted: Any) -> None:
    screen = scripted('text("x")', "/permissions default", "/permissions bypass", mode="bypass")
    assert "mode default from now on" in screen.said[1]
    assert "mode bypass from now on" in screen.said[2]


def test_themes(scripted: Any) -> None:
    screen = scripted('text("x")', "/theme light", "/theme nothing", "/theme none")
    assert "theme light" in screen.said[1]
    assert "there is no theme nothing" in screen.said[2]
    assert "monokai" in screen.said[2]
    assert screen.talk.painter.look.colour is False


def test_compact_and_exit(scripted: Any) -> None:
    screen = scripted('text("a")', "one", "/compact", "/exit", "never")
    assert screen.said[2].count("\n") > 1
    assert len(screen.said) == 4
    assert "never" not in screen.said[-1]


def test_a_bell_and_a_notification(scripted: Any) -> None:
    screen = scripted('call("bash", {"command": "sleep 0.1"}), text("x")', "go", bell=0.05, notify=True)
    assert screen.rung == ["dsh is done in work"]


def test_jobs_in_the_background(scripted: Any) -> None:
    screen = scripted(
        'call("bash", {"command": "sleep 60", "run_in_background": True}), text("It runs.")', "start it", "/jobs"
    )
    assert "bash-1: sleep 60" in screen.said[2]
    assert any("1 job" in status for status in screen.statuses)


def test_thoughts_are_folded(scripted: Any) -> None:
    from dsh_terminal.screen import Toggle

    async def unfold(screen: Any) -> None:
        screen.enter(Toggle("reasoning"))

    screen = scripted(
        'reply("One.", reasoning="First this."), reply("Two.", reasoning="Then that.")', "a", unfold, "b", columns=40
    )
    assert "thought for a moment, about 2 words" in screen.said[1]
    assert "First this" not in screen.said[1]
    assert "First this" in screen.said[2]
    assert "· Then that." in screen.said[3]


def test_results_are_shown_whole_one_after_another(scripted: Any) -> None:
    from dsh_terminal.screen import Toggle

    async def more(screen: Any) -> None:
        screen.enter(Toggle("output"))

    screen = scripted(
        'call("bash", {"command": "seq 1 30"}), call("bash", {"command": "seq 40 60"}), text("x")',
        "go",
        more,
        more,
        more,
    )
    assert "│ 60" in screen.said[2]
    assert "│ 30" in screen.said[3]
    assert "no earlier result" in screen.said[4]


def test_a_failed_turn_of_a_pipe_ends_with_one(scripted: Any) -> None:
    scripted('fail("no", code="AUTH")', "go", interactive=False)
    assert scripted.code == 1


def test_a_task_without_a_terminal_is_done_before_it_ends(desk: Any) -> None:
    """``dsh "task" </dev/null``: the end of the input is no reason to cancel what was asked for."""
    model = desk.home.parent / "slow_model.py"
    model.write_text(
        "import trio\nfrom dsh import hookimpl\nfrom dsh.llm.scripted import ScriptedModel, call, text\n\n"
        "@hookimpl\ndef llm_adapters(adapters):\n"
        "    replies = call('bash', {'command': 'sleep 1'}), text('All done.')\n"
        "    adapters.add('scripted', ScriptedModel(*replies))\n"
    )
    argv = [sys.executable, "-m", "dsh", "do it", "-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass"]
    env = {**os.environ, "DSH_HOME": str(desk.home)}
    done = subprocess.run(
        argv, cwd=desk.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout
    assert desk.events()[-1]["data"]["reason"]["kind"] == "completed"


def test_doctor_and_config_speak_of_the_conversation(scripted: Any) -> None:
    """Not of the program beside it, which has neither a terminal nor the mode."""
    screen = scripted('text("x")', "/doctor", "/config", "/config path", "/doctor --nothing")
    doctor = screen.words(1)
    assert re.search(r"ok conversation model scripted/model, bypass; session \S+ 0 turns", doctor)
    assert "ok terminal 80 columns" in doctor
    assert "nobody can be asked" not in doctor
    assert "mode bypass" in doctor
    assert "ok disk" in doctor
    assert "ok plugins" in doctor
    assert doctor.endswith(("all is well", "could be better"))
    assert doctor.count(" permissions ") == 1
    assert "# in this conversation, whatever follows: model scripted/model, bypass" in screen.words(2)
    assert "[hooks]" in screen.said[2]
    assert "config.toml" in screen.said[3]
    assert "# in this conversation" not in screen.said[3]
    assert "unknown flag --nothing" in screen.said[4]
    assert '{"type"' not in screen.said[4]


def test_commands_that_are_entered_wrongly(scripted: Any, desk: Any) -> None:
    """They say what is wrong, and do nothing else."""
    folder = desk.work / ".dsh" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("---\ndescription: mend it\n---\nMend $1.\n")
    (folder / "fi.md").write_text("---\nbroken: [\n---\nNever sent.\n")
    (folder / "empty.md").write_text("")
    screen = scripted(
        'text("x")',
        "/help nothing",
        "/help fix",
        "/help modle",
        "/clear now",
        "/cost all",
        "/exit later",
        "/fi",
        "/empty",
        "/model scripted/",
        "/diff",
        "/tell",
        "/context\n/agents",
    )
    said = [" ".join(words.split()) for words in screen.said]
    assert "there is no command /nothing" in said[1]
    assert "mend it" in said[2]
    assert "Mend $1." in said[2]
    assert "did you mean /model?" in said[3]
    for place, name in ((4, "clear"), (5, "cost"), (6, "exit")):
        assert f"/{name} takes nothing behind it" in said[place]
    assert "fi.md: line 3" in said[7]
    assert "empty.md is empty" in said[8]
    assert "which of its models?" in said[9]
    assert "in no repository" in said[10]
    assert "/context takes nothing behind it" in said[12]
    assert scripted.module.model.requests == []
    assert screen.talk.model == ""


def test_a_session_that_cannot_be_resumed_leaves_the_model_that_was_chosen(scripted: Any, desk: Any) -> None:
    scripted('text("One.")', "first")
    (path,) = desk.home.glob("sessions/*/*.jsonl")
    path.write_text(path.read_text().replace('"type":"turn/start"', '"type":', 1))
    screen = scripted('text("Two.")', "/model scripted/other", f"/resume {path.stem}", "second")
    assert screen.talk.model == "scripted/other"
    assert screen.talk.state.model == "scripted/other"


def test_ones_own_command_is_seen_while_it_runs(scripted: Any) -> None:
    async def look(screen: Any) -> None:
        screen.enter(Line("!sleep 60"))
        await screen.until("!sleep 60")
        assert screen.running
        screen.enter(Cancel())

    screen = scripted('text("x")', look, "!printf 'a\\nb\\n'", "/tell what is it?")
    assert "(stopped: !sleep 60)" in screen.said[1]
    (request,) = scripted.module.model.requests
    assert request.messages[-1].content[0].text.endswith("code 0:\na\nb\n\nwhat is it?")


def test_one_is_no_plural(scripted: Any) -> None:
    screen = scripted(
        'reply("x", reasoning="hm")',
        "go",
        "/context",
        "!seq 1 201",
    )
    assert "about 1 word;" in screen.said[1]
    assert "1 turn;" in screen.said[2]
    assert "1 more line\n" in screen.said[3]


def test_the_time_of_a_call_is_without_the_question() -> None:
    """What a person took to say yes is not what the call took."""
    shown: list[str] = []
    screen: Any = types.SimpleNamespace(show=shown.append, live=lambda parts: None)
    feed = Feed(screen, Painter(Look(colour=False)), session_id="s")
    session: Any = types.SimpleNamespace(id="s")

    def happens(type: str, data: Any) -> None:
        event: Any = types.SimpleNamespace(type=type, data=data, surface_op=None)
        feed.event(session, event, None)

    happens("tool/call", ToolCall(turn=1, step=1, call_id="c", name="bash", arguments='{"command": "true"}'))
    happens("permission/decided", types.SimpleNamespace(call_id="c", ms=3_600_000.0))
    happens("tool/result", ToolResult(turn=1, step=1, call_id="c", content=(Text("done"),), is_error=False))
    assert "true  0.0 s" in "".join(shown)


BROUGHT = """\
from dsh import hookimpl

async def three(agent, text):
    return 3

@hookimpl
def dsh_add_commands(commands):
    commands.add_slash("NAME", "x", three)
"""


def test_a_command_of_a_plugin_that_answers_wrongly(scripted: Any, desk: Any) -> None:
    """The conversation goes on, and the plugin is named."""
    plugin = desk.home.parent / "odd.py"
    plugin.write_text(BROUGHT.replace("NAME", "three"))
    screen = scripted('text("x")', "/three", "go on", flags=["-e", str(plugin)])
    assert "/three of the plugin odd: the int 3" in screen.words(1)
    assert "x" in screen.said[2]


def test_a_plugin_cannot_take_a_command_of_the_conversation(scripted: Any, desk: Any, capsys: Any) -> None:
    plugin = desk.home.parent / "taker.py"
    plugin.write_text(BROUGHT.replace("NAME", "exit"))
    scripted('text("x")', flags=["-e", str(plugin)])
    assert scripted.code != 0
    assert "the plugin taker cannot bring a command /exit: it is one of dsh's own" in capsys.readouterr().err


def test_a_summary_is_no_prompt_to_go_back_to(scripted: Any) -> None:
    screen = scripted(
        'text("word " * 9000), text("b"), text("Words.")', "one", "two", "/compact", "/rewind", answers=[0, 2]
    )
    assert screen.chosen[0][1] == ["before turn 2: two", "before turn 1: one"]
    assert screen.back == ["two"]
    assert "as you asked" in screen.words(3)


def test_a_looser_mode_ends_with_its_conversation(scripted: Any) -> None:
    screen = scripted('text("x")', "/permissions accept-edits yes", "/clear", "/permissions", mode="default")
    assert "mode default again: accept-edits was chosen" in screen.words(2)
    assert "mode default" in screen.words(3)
    screen = scripted('text("x")', "/permissions plan", "/clear", "/permissions", mode="accept-edits")
    assert "mode plan" in screen.words(3)
    screen = scripted('text("x")', "/clear", "/permissions", mode="accept-edits")
    assert "again" not in screen.words(1)
    assert "mode accept-edits" in screen.words(2)


def test_what_waits_for_the_next_turn_is_marked_and_shown_when_it_begins(scripted: Any) -> None:
    async def while_it_runs(screen: Any) -> None:
        screen.enter(Line("begin"))
        await screen.until("sleep 1")
        screen.enter(Line("and this now"))
        screen.enter(Line("and then this", True))

    screen = scripted('call("bash", {"command": "sleep 1"}, id="c1"), text("first"), text("second")', while_it_runs)
    said = screen.said[1]
    places = [said.index(text) for text in ("> begin", "> and this now", "next: and then this")]
    places += [said.index(text) for text in ("first", "> and then this", "second")]
    assert places == sorted(places)
    assert said.count("> and then this") == 1
    assert said.count("> and this now") == 1


def test_a_model_that_the_person_chose_is_no_news(scripted: Any, desk: Any) -> None:
    screen = scripted('text("a"), text("b")', "one", "/model scripted/other", "two")
    assert "b" in screen.said[3]
    assert "beginning changed" not in screen.words(3)
    assert "prefix/changed" in desk.kinds()


def test_descriptions_of_tools_are_cut_between_words() -> None:
    assert _first_line("\nwords in a line\nmore") == "words in a line"
    assert _first_line("word " * 30) == "word " * 20 + "…"
    assert _first_line("") == ""


async def test_the_shell_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z does nothing while somebody asks the person something."""
    from contextlib import asynccontextmanager

    from dsh_terminal import talk as module

    suspended: list[Any] = []

    async def suspend(screen: Any) -> None:
        suspended.append(screen)

    @asynccontextmanager
    async def borrow(*, patient: bool = False) -> Any:
        yield

    monkeypatch.setattr(module, "suspend", suspend)
    talk = object.__new__(module.Talk)
    screen: Any = types.SimpleNamespace(borrow=borrow)
    talk.screen = screen
    talk._asked = 0
    async with talk.terminal_borrow():
        await talk.suspend()
        assert suspended == []
    await talk.suspend()
    assert suspended == [screen]
