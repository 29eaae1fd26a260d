"""What the command line may say.  argparse only; nothing else of dsh is imported to read it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ..errors import ConfigError
from . import Helped

__all__ = [
    "EXPORT_FORMATS",
    "OUTPUT_FORMATS",
    "SESSIONS",
    "Parser",
    "command_parser",
    "common_flags",
    "find_word",
    "is_rule",
    "main_parser",
    "parse",
    "permission_flags",
    "refuse_misspelt",
]

LIMITS = {"max_turns": "max_requests", "max_tokens": "max_tokens", "max_budget_usd": "max_usd", "timeout": "timeout"}
"""Flags that limit a run, as argparse calls them, with the keys of ``[budget]`` that they set."""
OUTPUT_FORMATS = ("text", "json", "stream-json")
AT = "fork: up to that turn's end, or that event; show: what the model sees after the event SEQ"
EXPORT_FORMATS = ("json", "markdown", "html")
PERMISSION_MODES = ("default", "accept-edits", "plan", "dont-ask", "bypass")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SANDBOX_MODES = ("read-only", "workspace-write", "danger-full-access")
SESSIONS = ("list", "show", "path", "search", "fork", "check", "repair", "export", "compact", "delete")
"""What `dsh sessions` can do."""
AUTH = ("check", "set", "remove")
"""What `dsh auth` can do."""
PLUGIN = ("new", "info", "list", "install", "remove", "enable", "disable")
"""What `dsh plugin` can do."""
TRUST = ("show", "list", "add", "remove")
"""What `dsh trust` can do."""


class Parser(argparse.ArgumentParser):
    """A parser that raises its complaints, with a did-you-mean for flags."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, allow_abbrev=False, formatter_class=_Formatter, **more)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Helped(status)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is none of the choices, with the one that may have been meant."""
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        hint = _hint(str(value), names) or f"; there are {', '.join(names)}"
        what = f"{action.option_strings[-1]} {value}" if action.option_strings else f"{self.prog} {value}"
        raise ConfigError(f"{what}: there is no such thing{hint} ({self.prog} --help says more)", code="USAGE")

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()
        if message.startswith("unrecognized") and unknown:
            message = f"{' '.join(unknown)}: nothing of the kind is expected here"
            if unknown[0].startswith("-"):
                message = f"unknown flag {unknown[0]}{_hint(unknown[0], self._option_string_actions)}"
        message = _reworded(message)
        raise ConfigError(f"{message} ({self.prog} --help lists the flags)", code="USAGE")


def _reworded(message: str) -> str:
    """A complaint of argparse's in the words that settings are complained of in."""
    message = message.removeprefix("argument ")
    for theirs, ours in _WORDINGS:
        message = re.sub(theirs, ours, message)
    return message


_WORDINGS = (
    (r": expected (?:one|at least one) argument$", " needs a value"),
    (r": invalid int value: (.*)$", r": expected a whole number, got \1"),
    (r": invalid float value: (.*)$", r": expected a number, got \1"),
    (r"^the following arguments are required: ", "this is missing: "),
    (r": not allowed with argument (.*)$", r" and \1 exclude each other"),
)


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)


def main_parser(commands: Mapping[str, str]) -> Parser:
    """The parser of ``dsh``, without a subcommand."""
    lines = "\n".join(f"  {name:<10} {text}" for name, text in commands.items())
    parser = Parser(
        "dsh",
        usage='dsh ["task"] [flags]\n       dsh -p "task" [flags]\n       dsh COMMAND [flags]',
        description="Run a language model in a loop with tools.",
        epilog=f"commands:\n{lines}\n\n`dsh COMMAND --help` lists a command's flags; --help --all, plugins' commands.",
    )
    parser.formatter_class = _Raw
    _run_flags(parser)
    parser.add_argument("-p", "--print", action="store_true", help="do the task, print the answer, exit")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--all", action="store_true", help="with --help: list plugins' commands, too")
    return parser


class _Raw(_Formatter, argparse.RawDescriptionHelpFormatter):
    pass


def command_parser(name: str, text: str) -> Parser:
    """The parser of a subcommand of dsh's own."""
    parser = Parser(f"dsh {name}", description=f"{text[0].upper()}{text[1:]}.")
    if name == "run":
        _run_flags(parser)
        parser.add_argument("-p", "--print", action="store_true", help=argparse.SUPPRESS)
        return parser
    if name == "batch":
        _batch_flags(parser)
    common_flags(parser)
    if name in ("plugins", "sessions", "trust", "models", "auth", "why", "plugin", "doctor"):
        parser.add_argument("--json", action="store_true", help="print JSON")
    if name in ("plugins", "batch"):
        return parser
    if name == "models":
        parser.add_argument(
            "provider", nargs="?", metavar="PROVIDER[/PART]", help="only this one's, with PART in the name"
        )
        return parser
    if name == "init":
        parser.add_argument("--project", action="store_true", help="the project's .dsh/config.toml instead of yours")
        return parser
    if name == "doctor":
        parser.add_argument("--online", action="store_true", help="ask each provider that is configured, too")
        return parser
    if name == "plugin":
        parser.add_argument("action", nargs="?", choices=PLUGIN, default="list", metavar="|".join(PLUGIN))
        parser.add_argument(
            "names",
            nargs="*",
            metavar="NAME",
            help="new: the plugin's name, and a folder, else dsh-NAME; install: what pip takes, also -e FOLDER; "
            "else: plugins",
        )
        parser.add_argument("-U", "--upgrade", action="store_true", help="install: newer versions, too")
        return parser
    if name == "why":
        parser.add_argument(
            "words",
            nargs="*",
            metavar="[ID] [seq:N|turn:N|call:ID|denied|last]",
            help="the session, by its id or how it begins, else the last of this directory; and what to explain, else "
            "the last denial, or the last turn where nothing was denied",
        )
        return parser
    actions = {
        "hooks": (("list", "order"), "[NAME]", "the hook of `order`"),
        "sessions": (SESSIONS, "[ID|TEXT]", "the session, by its id or how it begins; what to `search` for"),
        "auth": (
            AUTH,
            "[PROVIDER]",
            "whose key; for `check` also PROVIDER/MODEL, and without it all that are configured",
        ),
        "config": (("dump", "path"), None, ""),
        "trust": (TRUST, "[DIR]", "the folder; without it, the working directory's project"),
    }
    choices, target, target_help = actions[name]
    parser.add_argument("action", nargs="?", choices=choices, default=choices[0], metavar="|".join(choices))
    if target:
        parser.add_argument("target", nargs="?", metavar=target.strip("[]"), help=target_help)
    if name == "sessions":
        _sessions_flags(parser)
    return parser


def _sessions_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to do it with")
    group.add_argument(
        "--all",
        action="store_true",
        help="list, search: those of other directories and of subagents, too; check: every session",
    )
    group.add_argument("-n", "--limit", type=_count, metavar="N", help="list, search: at most so many")
    group.add_argument("--regex", action="store_true", help="search: TEXT is a regular expression")
    group.add_argument("--at", metavar="TURN|seq:SEQ", help=AT)
    group.add_argument(
        "--format", choices=EXPORT_FORMATS, help="export: by default as FILE is called, or else markdown"
    )
    group.add_argument("-o", "--output", metavar="FILE", help="export: write to FILE instead of stdout")
    group.add_argument("-y", "--yes", action="store_true", help="delete: do not ask")


def common_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command: where settings and plugins come from."""
    group = parser.add_argument_group("settings and plugins")
    group.add_argument("-C", "--cd", metavar="DIR", help="work in DIR")
    group.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, as in hooks.deadline=30; may be repeated",
    )
    group.add_argument("--profile", metavar="NAME", help="lay the settings of [profiles.NAME] over the others")
    group.add_argument(
        "-e",
        "--plugin",
        action="append",
        default=[],
        metavar="PATH|MODULE",
        help="load one more plugin; may be repeated",
    )
    group.add_argument(
        "--no-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="run without a plugin, even a required one; may be repeated",
    )
    group.add_argument("--safe-mode", action="store_true", help="run without third parties' plugins")
    group.add_argument(
        "--trust", action="store_true", help="trust the folder as it is now: its plugins, and all of its settings"
    )
    group = parser.add_argument_group("messages on stderr")
    group.add_argument("-q", "--quiet", action="store_true", help="only errors")
    group.add_argument("-v", "--verbose", action="count", default=0, help="more of what tools answer")
    group.add_argument(
        "--debug",
        action="store_true",
        help="tracebacks of dsh's own errors, a line about every model request, and checks of what dsh promises",
    )


def _run_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="*", metavar="TASK", help="what to do; - or a pipe: read from stdin")
    group = parser.add_argument_group("session")
    group.add_argument(
        "-c", "--continue", dest="continue_", action="store_true", help="go on with the last session of this directory"
    )
    group.add_argument("-r", "--resume", nargs="?", const="", metavar="ID", help="go on with session ID")
    group.add_argument(
        "--fork",
        action="store_true",
        help="with -c or -r: go on in a new session that begins as that one did up to its last finished turn",
    )
    group.add_argument("--session-id", metavar="ID", help="the id of the new session")
    group.add_argument("--no-session", action="store_true", help="store nothing")
    _task_flags(parser, "limits, over all agents of the run; exit code 124")
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="what stdout carries: the answer, one document, or a record a line",
    )
    group.add_argument(
        "--json", dest="output_format", action="store_const", const="json", help="the same as --output-format json"
    )
    group.add_argument("--include-partial", action="store_true", help="with stream-json: the model's chunks, too")
    common_flags(parser)


def _batch_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", metavar="TASKS.jsonl", help="a JSON object a line: prompt, and id, model, cwd, ...")
    group = parser.add_argument_group("batch")
    group.add_argument("-j", "--jobs", type=_count, default=4, metavar="N", help="N tasks at once; 4 if not given")
    group.add_argument(
        "-o", "--out", metavar="FILE", help="write results to FILE; TASKS.results.jsonl if not given; - is stdout"
    )
    group.add_argument("--retry-failed", action="store_true", help="do tasks again whose recorded result is a failure")
    group.add_argument("--no-session", action="store_true", help="store no sessions")
    _task_flags(parser, "limits, of each task")


def _task_flags(parser: argparse.ArgumentParser, limits: str) -> None:
    """The flags about who does a task, and how."""
    group = parser.add_argument_group("model and tools")
    group.add_argument(
        "-m", "--model", metavar="PROVIDER[/MODEL]", help="the model; without MODEL the provider's default"
    )
    group.add_argument(
        "--effort",
        choices=EFFORTS,
        metavar="LEVEL",
        help=f"how much the model thinks: {', '.join(EFFORTS)}; those that it knows",
    )
    group.add_argument(
        "--fallback-model",
        type=_names,
        action="extend",
        metavar="P/M[,P/M]",
        help="ask these, one after the other, when the model's provider is overloaded or not there",
    )
    group.add_argument("--system-prompt", metavar="TEXT", help="take the place of the persona in the system prompt")
    group.add_argument("--append-system-prompt", metavar="TEXT", help="stand at the end of the system prompt")
    group.add_argument("--tools", type=_names, metavar="A,B", help="only these tools")
    permission_flags(parser)
    parser.add_argument(
        "-s",
        "--sandbox",
        choices=SANDBOX_MODES,
        metavar="MODE",
        help=f"what commands may do: {', '.join(SANDBOX_MODES)}; not given, workspace-write where that can be had",
    )
    group = parser.add_argument_group(limits)
    group.add_argument("--max-turns", type=_count, metavar="N", help="ask the model N times at most")
    group.add_argument(
        "--max-tokens", type=_count, metavar="N", help="stop after N tokens, in and out, cached ones too"
    )
    group.add_argument("--max-budget-usd", type=_money, metavar="USD", help="stop when so many dollars are spent")
    group.add_argument("--timeout", type=_duration, metavar="TIME", help="stop after TIME: seconds, or 10m, 1h30m")
    group.add_argument(
        "--strict-prefix", action="store_true", help="end a turn whose requests do not begin as the one before"
    )


def permission_flags(parser: argparse.ArgumentParser) -> None:
    """The flags about what may be done unasked."""
    group = parser.add_argument_group("permissions")
    group.add_argument(
        "--permission-mode",
        choices=PERMISSION_MODES,
        metavar="MODE",
        help=f"who decides about calls that no rule names: {', '.join(PERMISSION_MODES)}",
    )
    group.add_argument(
        "--allowed-tools",
        type=_rules,
        action="extend",
        default=[],
        metavar="A,B",
        help="run these unasked: rules such as bash(git status *) or edit(src/**)",
    )
    group.add_argument(
        "--disallowed-tools",
        type=_rules,
        action="extend",
        default=[],
        metavar="A,B",
        help="not these tools; with a pattern, as in bash(rm *), not these calls",
    )
    group.add_argument(
        "--add-dir", action="append", default=[], metavar="DIR", help="a folder to work in beside the working directory"
    )


def _rules(text: str) -> tuple[str, ...]:
    """What commas part, but for those inside of parentheses."""
    parts, depth = [""], 0
    for sign in text:
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts if part.strip())


def is_rule(text: str) -> bool:
    """Whether one of ``--disallowed-tools`` is a rule about calls, and not a tool's plain name."""
    return any(sign in text for sign in "(*?[")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)


def _money(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of dollars above 0, got {text!r}")
    return value


def _duration(text: str) -> float:
    from ..durations import seconds_in

    try:
        return seconds_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Read `argv`; what stands behind ``--`` is text, however it looks.

    Raises:
        ConfigError: with code ``USAGE``.
    """
    words = list(argv)
    literal: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, literal = words[:at], words[at + 1 :]
    args = parser.parse_intermixed_args(words)
    if literal and getattr(args, "target", "") is None and len(literal) == 1:
        args.target = literal[0]
    elif literal:
        if not hasattr(args, "prompt"):
            parser.error(f"nothing may stand behind --: {' '.join(literal)}")
        args.prompt = [*args.prompt, *literal]
    return args


def find_word(parser: argparse.ArgumentParser, argv: Sequence[str]) -> int | None:
    """The index of the first word of `argv` that is neither a flag nor a flag's value."""
    skip = False
    for at, word in enumerate(argv):
        if skip:
            skip = False
        elif word == "--":
            return None
        elif not word.startswith("-") or word == "-":
            return at
        else:
            action = parser._option_string_actions.get(word)
            skip = action is not None and action.nargs in (None, 1)
    return None


def refuse_misspelt(word: str, commands: Iterable[str]) -> None:
    """Refuse what is a command with a slip of the finger rather than a task.

    Raises:
        ConfigError: it is.
    """
    hint = _hint(word, commands) if word and " " not in word else ""
    if hint:
        raise ConfigError(
            f"there is no command {word}{hint} To talk about it: dsh -- {word}; to do a task: dsh -p {word}",
            code="USAGE",
        )


def _hint(word: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), 1, 0.7)
    return f", did you mean {close[0]}?" if close else ""
