"""What dsh's own commands do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from dsh import ConfigError
from dsh.session.events import ToolResult
from dsh.structure import did_you_mean

from . import looks
from .about import config, doctor
from .looks import split
from .paint import THEMES, styles

if TYPE_CHECKING:
    from dsh.commands import SlashCommand

    from .talk import Talk

__all__ = ["OWN", "Slash", "rewind"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WHAT = ("both", "files", "conversation")
Values: TypeAlias = "Sequence[str | tuple[str, str]]"


@frozen
class Slash:
    """A command; what it answers is shown.

    Attributes:
        values: what may stand behind its name, each maybe with its meaning; called in another thread.
    """

    help: str
    run: Callable[[Talk, str], Awaitable[str]]
    values: Values | Callable[[Talk], Values] = ()


def _shelled(*words: str, takes: bool = False) -> Callable[[Talk, str], Awaitable[str]]:
    """A command that is a subcommand of ``dsh``."""

    async def call(talk: Talk, rest: str) -> str:
        return await talk.conversation.shell([*words, *(split(rest) if takes else [])])

    return call


# -- the program


async def _help(talk: Talk, rest: str) -> str:
    return talk.book.help(talk, rest)


async def _exit(talk: Talk, rest: str) -> str:
    talk.leave("")
    return ""


async def _theme(talk: Talk, rest: str) -> str:
    if talk.screen.look.plain:
        return "there are no colours here"
    if not rest:
        now = talk.painter.theme if talk.painter.look.colour else "none"
        return f"{now} now; /theme {'|'.join(THEMES)}|none, or a style of Pygments; [terminal] theme keeps it"
    if not talk.painter.choose_theme(rest):
        raise ConfigError(
            f"there is no theme {rest}{did_you_mean(rest, [*THEMES, 'none', *styles()])}\n"
            f"/theme {'|'.join(THEMES)}|none, or a style of Pygments: {', '.join(styles())}",
            code="USAGE",
        )
    talk.screen.show(talk.painter.markdown('```python\ndef greet(name: str) -> str:\n    return f"Hello, {name}"\n```'))
    return f"theme {rest} for this conversation; [terminal] theme = {rest!r} keeps it"


# -- which conversation


async def _clear(talk: Talk, rest: str) -> str:
    return await talk.sessions.change(None)


async def _fork(talk: Talk, rest: str) -> str:
    turn = _turn(talk, rest) if rest else None
    before = talk.agent
    if turn is None and before.status == "running":
        # what runs belongs to the fork, too, so it has to end first
        talk.cancel("the conversation was forked")
        await before.when_idle()
    return await talk.sessions.change(before.session.id, fork=True, turn=turn)


async def _resume(talk: Talk, rest: str) -> str:
    found = await talk.sessions.find()
    if not found:
        return "there is no other session in this folder"
    if rest:
        matches = [info.id for info in found if info.id.startswith(rest)]
        if rest == talk.agent.session.id:
            matches = [rest]
        if len(matches) != 1:
            many = f"{len(matches)} sessions of this folder begin" if matches else "no session of this folder begins"
            raise ConfigError(f"{many} with {rest}; /resume alone lists them", code="USAGE")
        wanted = matches[0]
    elif not talk.screen.interactive:
        return "\n".join([*(info.line() for info in found[:20]), "/resume ID goes on with one"])
    else:
        chosen = await talk.screen.choose("Go on with which session?", [info.line() for info in found])
        if chosen is None:
            return ""
        wanted = found[chosen].id
    before = talk.model, talk.effort
    talk.model, talk.effort = "", None  # it goes on with its own
    try:
        return await talk.sessions.change(wanted)
    except BaseException:
        talk.model, talk.effort = before
        raise


def _turn(talk: Talk, text: str) -> int:
    last = talk.agent.session.last_turn
    if not text.isdecimal() or int(text) > last:
        raise ConfigError(f"{text}: the turns of this conversation are 1 to {last}", code="USAGE")
    return int(text)


async def rewind(talk: Talk, rest: str, files: SlashCommand | None) -> str:
    """``/rewind [TURN] [both|files|conversation] [--force]``: as it was at the end of that turn.

    Args:
        files: the command that brings files back; None where no plugin keeps them.

    Raises:
        DshError: there is no such turn, or it cannot be.
    """
    words = split(rest)
    force = "--force" in words
    words = [word for word in words if word != "--force"]
    what = next((word for word in words if word in WHAT), None)
    words = [word for word in words if word != what]
    said = looks.prompts_of(talk.agent.session)
    if len(words) > 1 or (words and not words[0].isdecimal()):
        raise ConfigError(
            "/rewind [TURN] [both|files|conversation] [--force]; turn 0 is before the first", code="USAGE"
        )
    if not said:
        return "nothing has been said yet"
    if words:
        turn = _turn(talk, words[0])
    elif talk.screen.interactive:
        lines = [f"before turn {number}: {text}" for number, text in said.items()]
        chosen = await talk.screen.choose("Back to where?", lines[::-1])
        if chosen is None:
            return ""
        turn = list(said)[::-1][chosen] - 1
    else:
        lines = [f"{number}: {text}" for number, text in said.items()]
        return "\n".join([*lines, "/rewind N goes back to the end of turn N; 0 is before the first"])
    if files is None:
        what = what or "conversation"
    if what is None and talk.screen.interactive and not words:
        kinds = ["files and conversation", "files only", "conversation only"]
        chosen = await talk.screen.choose("What is to go back?", kinds)
        if chosen is None:
            return ""
        what = WHAT[chosen]
    return await _rewound(talk, turn, what or "both", force, files)


async def _rewound(talk: Talk, turn: int, what: str, force: bool, files: SlashCommand | None) -> str:
    agent = talk.agent
    if agent.status == "running":
        talk.cancel("the conversation goes back to an earlier turn")
        await agent.when_idle()
    told: list[str] = []
    if what != "conversation":
        if files is None:
            raise ConfigError("no plugin keeps files before they are changed: checkpoints is not loaded")
        told.append(await files.call(agent, f"{turn}{' --force' if force else ''}"))
    if what != "files":
        told.append(
            await (talk.sessions.change(agent.session.id, fork=True, turn=turn) if turn else talk.sessions.change(None))
        )
        if prompt := looks.prompt_of(agent.session, turn + 1):
            talk.screen.put_back(prompt)
    return "\n".join(told)


# -- the model


async def _model(talk: Talk, rest: str) -> str:
    llm = talk.conversation.harness.llm
    names = looks.models_of(talk)
    if not rest:
        if not talk.screen.interactive or not names:
            return "\n".join([f"{talk.state.model} now; /model NAME takes another:", *(f"  {name}" for name in names)])
        chosen = await talk.screen.choose(f"{talk.state.model} now; which one?", names)
        if chosen is None:
            return ""
        rest = names[chosen]
    if "/" not in rest and rest in llm.adapters:
        default = getattr(llm.adapters[rest], "default_model", None)
        rest = f"{rest}/{default}" if default else rest
    if rest.endswith("/"):
        raise ConfigError(f"{rest}: which of its models? /model PROVIDER/NAME", code="USAGE")
    llm.resolve(rest)  # raises, with a hint, if nobody serves it
    talk.model = talk.state.model = rest
    return f"{rest} is asked from the next request on"


async def _effort(talk: Talk, rest: str) -> str:
    if not rest:
        now = talk.state.effort or "the model's own"
        return f"{now} now; /effort {'|'.join(EFFORTS)} takes another, /effort default the model's own"
    if rest not in (*EFFORTS, "default"):
        raise ConfigError(f"there is no effort {rest}{did_you_mean(rest, [*EFFORTS, 'default'])}", code="USAGE")
    talk.effort = "" if rest == "default" else rest
    talk.state.effort = talk.effort or None
    return f"effort {rest} from the next request on"


async def _tell(talk: Talk, rest: str) -> str:
    if not talk.own.output:
        return "there is no output to show to the model; !command makes some"
    output, talk.own.output = talk.own.output, ""
    talk.say(f"{output}\n\n{rest}".strip())
    return ""


async def _export(talk: Talk, rest: str) -> str:
    session = talk.agent.session
    await talk.conversation.harness.sessions.flush(session)
    words = split(rest)
    if words and not words[0].startswith("-"):
        words = ["-o", *words]
    told = await talk.conversation.shell(["sessions", "export", session.id, *words])
    return told or f"written to {words[words.index('-o') + 1] if '-o' in words else 'the file'}"


async def _why(talk: Talk, rest: str) -> str:
    return looks.why(talk, rest)


def _sessions_to_resume(talk: Talk) -> Values:
    return [(info.id, info.title) for info in list(talk.sessions.others)]


def _turns(talk: Talk) -> Values:
    said = looks.prompts_of(talk.agent.session)
    return [(str(number - 1), f"before: {text}") for number, text in reversed(said.items())]


def _calls(talk: Talk) -> Values:
    found = [
        (f"call:{event.data.call_id}", "a failed call")
        for event in talk.agent.session.events[-2000:]
        if isinstance(event.data, ToolResult) and event.data.is_error
    ]
    return ["denied", *(f"turn:{n}" for n in range(talk.agent.session.last_turn, 0, -1)), *found[::-1]]


OWN: dict[str, Slash] = {
    "help": Slash("[NAME]: what can be entered", _help),
    "exit": Slash("leave", _exit),
    "clear": Slash("a new conversation", _clear),
    "resume": Slash("[ID]: another conversation of this folder", _resume, _sessions_to_resume),
    "fork": Slash("[TURN]: go on in a new session that begins as this one did", _fork, _turns),
    "rewind": Slash(
        "[TURN] [both|files|conversation] [--force]: go back to the end of a turn",
        lambda talk, rest: rewind(talk, rest, None),
        _turns,
    ),
    "sessions": Slash("[list|show ID|search TEXT|...]: the sessions of this folder", _shelled("sessions", takes=True)),
    "export": Slash("[FILE] [FLAGS]: this session as a document, as `dsh sessions export`", _export),
    "model": Slash("[PROVIDER/NAME]: which model is asked", _model, lambda talk: looks.models_of(talk)),
    "effort": Slash("[LEVEL]: how much the model thinks", _effort, (*EFFORTS, "default")),
    "permissions": Slash("the rules and the mode", _shelled("permissions", "list")),
    "cost": Slash("tokens and dollars of this conversation", looks.cost),
    "context": Slash("how full the model's window is, and with what", looks.context),
    "tools": Slash("[NAME]: the tools of the model", looks.tools, lambda talk: looks.tool_names(talk)),
    "agents": Slash("the agents that there are", looks.agents),
    "jobs": Slash("what runs in the background", looks.jobs),
    "skills": Slash("[NAME]: the skills that hold here", _shelled("skills", takes=True)),
    "plugins": Slash("[--json]: the plugins, and what is wrong with them", _shelled("plugins", takes=True)),
    "hooks": Slash("[order NAME]: the hooks", _shelled("hooks", takes=True), ("order", "list")),
    "why": Slash("[call:ID|turn:N|denied]: which plugins decided", _why, _calls),
    "trust": Slash(
        "[show|add|remove|list]: what this folder brings, and whether it counts from the next start on",
        _shelled("trust", takes=True),
        ("show", "add", "remove", "list"),
    ),
    "config": Slash("[path]: the settings, or the files they come from", config, ("path",)),
    "doctor": Slash("[--online]: what works here and what does not", doctor, ("--online",)),
    "diff": Slash("[FILE]: what has changed since the last commit", looks.diff),
    "tell": Slash("[TEXT]: show the output of your last !command to the model", _tell),
    "theme": Slash("[NAME]: colours", _theme, (*THEMES, "none", "monokai", "solarized-light", "github-dark")),
}
