"""The command `dsh`: finds the subcommand, and turns errors into lines and exit codes.

Nothing but argparse is imported until a subcommand runs, so that ``dsh --help`` is instant.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_BLOCKED = 0, 1, 2, 3
EXIT_UNAVAILABLE, EXIT_LIMIT, EXIT_SIGINT = 75, 124, 130

COMMANDS = {
    "run": "do one task and exit; the same as -p",
    "batch": "do many tasks of a file, several at once",
    "plugins": "list the plugins, and why one is not loaded",
    "plugin": "write a new plugin; install, remove, enable, disable, or look at one",
    "hooks": "list the hooks, and who is called in which order",
    "models": "list models, with context windows, limits of output and prices",
    "auth": "check whether a provider's key and address work; keep its key",
    "sessions": "list, search, show, fork, check, repair, export and delete stored sessions",
    "why": "show which plugins decided about a call, a prompt, a request or a turn",
    "doctor": "say what works here, what does not, and what to do about it",
    "init": "write a file of settings, all of them explained and none of them set",
    "config": "show where settings come from, and what they are",
    "trust": "show, list, add and remove folders whose plugins and settings count",
}
"""The subcommands: each has a module of its name here with ``run(args)``."""


_HARMLESS = "\t\N{NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}\N{NARROW NO-BREAK SPACE}\N{ZERO WIDTH JOINER}"
"""What `str.isprintable` rejects, and people write all the same."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return the exit code."""
    if argv is None:
        # What a start makes stays; looking for garbage in it again and again takes a twentieth of the time.
        gc.set_threshold(20_000)
    words = list(sys.argv[1:] if argv is None else argv)
    _fill_descriptors()
    try:
        code = _dispatch(words)
    except BrokenPipeError:
        code = EXIT_FAILED
        _abandon_stdout(sys.stdout)
    except Helped:
        code = EXIT_OK
    except BaseException as error:
        code = _fail(error, words)
    return code if _flush_stdout() or code else EXIT_FAILED


class Helped(SystemExit):
    """A parser has printed its help, and that was all there was to do."""


def _dispatch(argv: list[str]) -> int:
    from .parser import command_parser, find_word, main_parser, parse

    parser = main_parser(COMMANDS)
    at = find_word(parser, argv)
    word = argv[at] if at is not None else ""
    printing = any(flag in ("-p", "--print") for flag in argv)
    if at is not None and word in COMMANDS and not any(flag in ("-p", "--print") for flag in argv[:at]):
        args = parse(command_parser(word, COMMANDS[word]), [*argv[:at], *argv[at + 1 :]])
        return _run(word, args)
    asks_help = any(flag in ("-h", "--help") for flag in argv)
    if asks_help and "--all" in argv:
        from .extensions import show_all

        return show_all(parser, argv)
    if at is not None and not printing and _may_be_command(word):
        from .extensions import dispatch

        code = dispatch(word, argv, at)
        if code is not None:
            return code
    args = parse(parser, argv)
    if args.version:
        from .. import __version__

        print(f"dsh {__version__}")
        return EXIT_OK
    if not args.print:
        from .parser import refuse_misspelt

        sole = "" if "--" in argv else word
        refuse_misspelt(sole, COMMANDS)
        if [sole] == args.prompt and _may_be_command(sole) and not args.continue_ and args.resume is None:
            _refuse_unattended(sole, args)
        return _run("talk", args)
    return _run("run", args)


def _fill_descriptors() -> None:
    """Open what was started closed, or the next file or socket would be somebody's stdin or stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _may_be_command(word: str) -> bool:
    return word.isascii() and word.islower() and word.replace("-", "").replace("_", "").isalnum()


def _refuse_unattended(word: str, args: argparse.Namespace) -> None:
    """Refuse a lone word where nobody sits at stdin: a script that means a command would talk to a model instead.

    Raises:
        ConfigError: nobody sits there.
    """
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        return
    from ..errors import ConfigError
    from .extensions import brought
    from .parser import refuse_misspelt
    from .start import settle

    refuse_misspelt(word, brought(settle(args)))
    raise ConfigError(
        f'there is no command {word} (dsh --help --all lists them); dsh -p "{word}" asks the model, and '
        f"dsh -- {word} talks to it",
        code="USAGE",
    )


def _run(command: str, args: argparse.Namespace) -> int:
    from importlib import import_module

    code: int = import_module(f".{command}", __name__).run(args)
    return code


def _fail(error: BaseException, argv: Sequence[str]) -> int:
    """Tell the person, and a program that reads JSON; return the exit code."""
    code, failure = report(error, debug="--debug" in argv)
    if _wants_json(argv):
        from ..jsonvalue import dumps

        result = {"type": "result", "session_id": None, "text": "", "reason": None, "exit_code": code, "error": failure}
        print(dumps(result).decode())
    return code


def report(error: BaseException, *, debug: bool = False) -> tuple[int, dict[str, str]]:
    """Tell the person of an error on stderr; return the exit code, and code and message for a program."""
    from ..errors import DshError, error_code, error_message

    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if debug:
        import traceback

        traceback.print_exception(error)
    text = error_message(error)
    if _is_interrupt(error):
        return EXIT_SIGINT, {"code": "ABORTED", "message": "interrupted"}
    if isinstance(error, DshError):
        complain(text)
    elif isinstance(error, SystemExit):
        text = f"a plugin wanted to end the program (SystemExit: {error.code})"
        complain(text)
    else:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        text = f"unexpected {type(error).__name__}: {text}{notes}"
        complain(text if debug else f"{text}; --debug shows where")
    return code_of(error), {"code": error_code(error) or "ERROR", "message": text}


def code_of(error: BaseException) -> int:
    """The exit code of an error that ended the program."""
    from ..errors import ConfigError, DshError, LlmError, SessionNotFound
    from .outcome import is_limit, is_mistake, is_unavailable

    if isinstance(error, BaseExceptionGroup):
        return max(code_of(inner) for inner in error.exceptions)
    if isinstance(error, KeyboardInterrupt):
        return EXIT_SIGINT
    if isinstance(error, ConfigError | SessionNotFound):
        return EXIT_USAGE
    if isinstance(error, LlmError) and is_mistake(error.code):
        return EXIT_USAGE
    if isinstance(error, LlmError) and is_unavailable(error.code):
        return EXIT_UNAVAILABLE
    if isinstance(error, DshError) and is_limit(error.code):
        return EXIT_LIMIT
    return EXIT_FAILED


def _is_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def complain(text: str) -> None:
    """Print `text` to stderr, each line as ``dsh: ...``."""
    try:
        print("\n".join(f"dsh: {clean(line)}" for line in text.splitlines() or [text]), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody reads it, or it is closed
        _abandon_stdout(sys.stderr)


def clean(line: str) -> str:
    """`line` without signs that steer a terminal or turn the direction of what it shows."""
    return "".join(sign if sign.isprintable() or sign in _HARMLESS else "\N{REPLACEMENT CHARACTER}" for sign in line)


def _wants_json(argv: Sequence[str]) -> bool:
    following = zip(argv, [*argv[1:], ""], strict=False)
    return "--json" in argv or any(
        flag in ("--output-format=json", "--output-format=stream-json")
        or (flag == "--output-format" and value in ("json", "stream-json"))
        for flag, value in following
    )


def _flush_stdout() -> bool:
    """Write out what is buffered; whether that worked, or nobody was there to read it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout(sys.stdout)
    except OSError as error:
        complain(f"cannot write to stdout: {error.strerror or error}")
        _abandon_stdout(sys.stdout)
        return False
    return True


def _abandon_stdout(stream: TextIO | None) -> None:
    """Let what is still buffered go nowhere, so that the interpreter's exit does not complain."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
