"""What the command line takes, refuses and documents."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.cli import COMMANDS, _wants_json, code_of, main
from dsh.cli.models import NO_MODEL, choose_model
from dsh.cli.outcome import exit_code, explanation
from dsh.cli.parser import Parser, command_parser, common_flags, find_word, main_parser, parse
from dsh.cli.progress import one_line, size_of
from dsh.cli.prompt import read_prompt
from dsh.errors import ConfigError, DshError, LimitError, LlmError, PluginError, SessionLocked, SessionNotFound
from dsh.session.events import EndReason

DOCS = Path(__file__).parents[1] / "docs" / "cli.md"


def parsed(*argv: str) -> argparse.Namespace:
    return parse(main_parser(COMMANDS), argv)


def parsers() -> Iterator[argparse.ArgumentParser]:
    yield main_parser(COMMANDS)
    for name, text in COMMANDS.items():
        yield command_parser(name, text)


# -- reading


def test_words_and_flags_may_come_in_any_order() -> None:
    args = parsed("fix", "-m", "a/b", "the", "-p", "bug", "--tools", "bash, read,")
    assert args.prompt == ["fix", "the", "bug"]
    assert (args.model, args.print, args.tools) == ("a/b", True, ("bash", "read"))


def test_what_stands_behind_two_dashes_is_text() -> None:
    assert parsed("-p", "--", "-m", "--json", "--").prompt == ["-m", "--json", "--"]
    assert parsed("-p", "-").prompt == ["-"]


def test_repeated_flags_add_up() -> None:
    args = parsed("-p", "x", "-e", "a.py", "--plugin", "b", "--no-plugin", "c", "--config", "a=1", "--config", "b=2")
    assert (args.plugin, args.no_plugin, args.config) == (["a.py", "b"], ["c"], ["a=1", "b=2"])


def test_json_is_an_output_format() -> None:
    assert parsed("-p", "x", "--json").output_format == "json"
    assert parsed("-p", "x").output_format == "text"


@given(
    st.lists(
        st.sampled_from(["-p", "-m", "a/b", "plugins", "--json", "-C", "-q", "--config", "x=1", "task"]), max_size=6
    )
)
def test_the_first_word_is_no_flag_and_no_flags_value(argv: list[str]) -> None:
    at = find_word(main_parser(COMMANDS), argv)
    if at is not None:
        assert not argv[at].startswith("-")
        assert at == 0 or argv[at - 1] not in ("-m", "-C", "--config") or argv[at - 2] in ("-m", "-C", "--config")


# -- refusing


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-p", "x", "--modle", "a"], "unknown flag --modle, did you mean --model? (dsh --help lists the flags)"),
        (["-p", "x", "--output-format", "xml"], "--output-format xml: there is no such thing; there are text, json"),
        (["-p", "x", "-m"], "-m/--model needs a value"),
        (["-p", "x", "--mode", "a/b"], "unknown flag --mode"),
        (["-p", "x", "--permission-mode", "plam"], "--permission-mode plam: there is no such thing, did you mean"),
        (["pluginz"], "there is no command pluginz, did you mean plugin?"),
        (["completion"], "there is no command completion (dsh --help --all lists them); dsh -p"),
        (["statz"], "there is no command statz, did you mean stats?"),
        (["stats", "--days", "x"], "dsh: --days: expected a whole number, got 'x' (dsh stats --help"),
        (["config", "dump", "x"], "x: nothing of the kind is expected here (dsh config --help"),
        (["-p", "x", "--config", "hooks.dedline=3"], "dsh: --config hooks.dedline: unknown key, did you mean"),
        (["batch"], "this is missing: TASKS.jsonl"),
        (["-p", "x", "-c", "-r", "id"], "--continue and --resume exclude each other"),
        (["-p", "x", "-c", "--no-session"], "--continue and --no-session exclude each other"),
        (["-p", "-r"], "--resume needs an ID"),
        (["-p", "x", "--session-id", "../x"], "--session-id: letters, digits"),
        (["-p", "x", "--include-partial"], "--include-partial needs --output-format stream-json"),
        (["-p", "x", "--safe-mode", "-e", "y"], "--safe-mode and --plugin exclude each other"),
        (["-p", "x", "-C", "/nowhere/at/all"], "-C /nowhere/at/all: there is no such directory"),
        (["-p", "x", "-C", __file__], "is no directory"),
        (["-p", "x", "-e", "absent.py"], "--plugin absent.py: there is no such file"),
        (["-p", "x", "-e", "no_such_module"], "--plugin no_such_module: there is no such module, and no such file"),
        (["-p", "x", "--config", "hooks.deadlin=1"], "hooks.deadlin: unknown key, did you mean deadline?"),
        (["sessions", "show"], "sessions show needs the ID of a session"),
        (["sessions", "list", "x"], "sessions list takes no ID"),
        (["sessions", "lst"], "dsh sessions lst: there is no such thing, did you mean list? (dsh sessions --help"),
        (["plugin", "instal", "x"], "dsh plugin instal: there is no such thing, did you mean install?"),
        (["sessions", "-n", "0"], "expected a number from 1, got '0'"),
        (["config", "--", "x"], "nothing may stand behind --"),
        (["hooks", "order"], "hooks order needs the name of a hook"),
        (["-p", "x", "--max-turns", "0"], "expected a number from 1, got '0'"),
        (["-p", "x", "--max-tokens", "1k"], "expected a number from 1, got '1k'"),
        (["-p", "x", "--max-budget-usd", "nan"], "expected a number of dollars above 0, got 'nan'"),
        (["-p", "x", "--timeout", "soon"], "expected a time above 0, as in 90, 10m or 1h30m, got 'soon'"),
        (["trust", "show", "no/such/folder"], "no/such/folder: there is no such directory"),
        (["trust", "remove"], "nothing was said about it"),
    ],
)
def test_a_wrong_line_is_refused_in_a_sentence(
    argv: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("dsh: ")
    assert "Traceback" not in shown.err


def test_a_broken_plugin_file_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSH_HOME", str(tmp_path))
    (tmp_path / "bad.py").write_text("x = 1\ndef (\n")
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "lacks.py").write_text("import no_such_module\n")
    assert main(["-p", "x", "-e", str(tmp_path / "bad.py")]) == 2
    assert "bad.py, line 2: invalid syntax" in capsys.readouterr().err
    assert main(["-p", "x", "-C", str(tmp_path), "-e", "raises.py"]) == 2
    assert "--plugin raises.py: cannot be imported: ZeroDivisionError" in capsys.readouterr().err
    assert main(["-p", "x", "-C", str(tmp_path), "-e", "./lacks.py"]) == 2
    assert "cannot be imported: No module named 'no_such_module'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["-p", "x", "--json"], True),
        (["-p", "x", "--output-format", "stream-json"], True),
        (["-p", "x", "--output-format=json"], True),
        (["-p", "x", "--output-format", "text"], False),
        (["-p", "json"], False),
    ],
)
def test_who_asked_for_json_gets_errors_as_json(argv: list[str], expected: bool) -> None:
    assert _wants_json(argv) is expected


# -- the task


@contextmanager
def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes | None, *, close: bool = True) -> Iterator[None]:
    """A pipe as stdin; None is a closed stdin."""
    if data is None:
        monkeypatch.setattr(sys, "stdin", None)
        yield
        return
    reader, writer = os.pipe()
    os.write(writer, data)
    if close:
        os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield
    if not close:
        os.close(writer)


@pytest.mark.parametrize(
    ("words", "data", "expected"),
    [
        (["fix", "it"], b"", "fix it"),
        (["fix it"], None, "fix it"),
        (["fix it"], b"line 1\nline 2\n", "fix it\n\nline 1\nline 2"),
        ([], b"\n  from a pipe\r\n", "  from a pipe"),
        (["-"], b"from a pipe", "from a pipe"),
        (["first", "-"], b"then", "first\n\nthen"),
        ([], b"\xef\xbb\xbf\xc3\xbc \xff", "ü \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_task_is_the_words_then_stdin(
    words: list[str], data: bytes | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin(monkeypatch, data):
        assert read_prompt(words, lambda message: None) == expected


@pytest.mark.parametrize("data", [None, b"", b" \n\t\n"])
def test_no_task_is_an_error(data: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin(monkeypatch, data), pytest.raises(ConfigError, match="there is no task"):
        read_prompt([], lambda message: None)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh.cli.prompt.PATIENCE", 0.01)
    said: list[str] = []
    with stdin(monkeypatch, b"", close=False):
        assert read_prompt(["fix it"], said.append) == "fix it"
    assert "nothing came from stdin" in said[0]


def test_a_stdin_that_is_no_file_brings_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("x"))
    assert read_prompt(["fix it"], lambda message: None) == "fix it"


# -- the model


def adapter(configured: bool, default: str | None = None, *models: str) -> SimpleNamespace:
    return SimpleNamespace(configured=configured, default_model=default, models=models)


ADAPTERS = {
    "local": adapter(True, "small"),
    "far": adapter(False, "big", "big", "org/huge"),
    "near": adapter(True, "good", "good", "better"),
    "bare": SimpleNamespace(models=()),
}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", "near/good"),
        ("far", "far/big"),
        ("far/anything", "far/anything"),
        ("near/", "near/good"),
        ("better", "near/better"),
        ("bare/x", "bare/x"),
    ],
)
def test_the_model_is_the_one_named_or_the_first_that_is_configured(wanted: str, expected: str) -> None:
    said: list[str] = []
    assert choose_model(ADAPTERS, wanted, said.append) == expected
    assert not said


def test_the_local_model_is_the_last_resort_and_it_is_said() -> None:
    said: list[str] = []
    assert (
        choose_model({"local": adapter(True, "small"), "far": adapter(False, "big")}, "", said.append) == "local/small"
    )
    assert "this machine" in said[0]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("neer/x", "no provider serves the model 'neer/x', did you mean near?"),
        ("bare", "bare has no default model: write bare/MODEL"),
        ("zzz", "no provider serves the model 'zzz'"),
    ],
)
def test_a_model_nobody_serves_is_refused(wanted: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        choose_model(ADAPTERS, wanted, print)


def test_without_any_model_the_ways_on_are_told() -> None:
    with pytest.raises(ConfigError) as caught:
        choose_model({"far": adapter(False, "big")}, "", print)
    assert str(caught.value) == NO_MODEL
    assert "dsh-harness[local]" in NO_MODEL
    assert "DEEPSEEK_API_KEY" in NO_MODEL


# -- the end


@pytest.mark.parametrize(
    ("reason", "unanswered", "expected"),
    [
        (EndReason("completed"), False, 0),
        (EndReason("completed"), True, 3),
        (EndReason("rejected", reason="no"), False, 3),
        (EndReason("max-tokens"), False, 124),
        (EndReason("error", code="UNAVAILABLE"), False, 75),
        (EndReason("error", code="RATE_LIMIT"), False, 75),
        (EndReason("error", code="HTTP_503"), False, 75),
        (EndReason("error", code="HTTP_404"), False, 1),
        (EndReason("error", code="AUTH"), False, 1),
        (EndReason("error", code="STREAM_CLOSED"), False, 75),
        (EndReason("error", code="EMPTY_RESPONSE"), False, 75),
        (EndReason("error", code="LIMIT_TOKENS"), False, 124),
        (EndReason("error"), False, 1),
        (EndReason("aborted"), False, 1),
        (EndReason("disposed"), False, 1),
        (EndReason("of a later version"), False, 1),
        (None, False, 1),
    ],
)
def test_how_a_turn_ended_is_an_exit_code(reason: EndReason | None, unanswered: bool, expected: int) -> None:
    assert exit_code(reason, unanswered=unanswered) == expected
    told = explanation(reason, unanswered=unanswered)
    assert (told is None) == (expected == 0)
    assert told is None or (told["code"] and told["message"])


def test_a_turn_that_was_cancelled_for_a_limit() -> None:
    reason = EndReason("aborted", reason="too long")
    assert exit_code(reason, unanswered=False, limit="LIMIT_TIMEOUT") == 124
    told = explanation(reason, unanswered=False, limit="LIMIT_TIMEOUT")
    assert told == {"code": "LIMIT_TIMEOUT", "message": "too long"}
    assert exit_code(EndReason("completed"), unanswered=False, limit="LIMIT_TIMEOUT") == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("x"), 2),
        (LimitError("x"), 124),
        (PluginError("x"), 2),
        (SessionNotFound("x"), 2),
        (SessionLocked("x"), 1),
        (LlmError("x", code="UNAVAILABLE"), 75),
        (LlmError("x", code="AUTH"), 1),
        (DshError("x"), 1),
        (ValueError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ExceptionGroup("x", [ValueError("x"), ConfigError("y")]), 2),
    ],
)
def test_errors_have_exit_codes(error: BaseException, expected: int) -> None:
    assert code_of(error) == expected


# -- lines


@given(st.text())
def test_a_line_is_one_line_without_control_characters(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 100
    assert all(ord(sign) >= 32 and not 0x7F <= ord(sign) <= 0x9F for sign in line)


@pytest.mark.parametrize(("count", "shown"), [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (5_600_000, "5.6 MB")])
def test_sizes_are_for_people(count: int, shown: str) -> None:
    assert size_of(count) == shown


# -- the documentation


def own_flags(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> list[tuple[str, ...]]:
    """The flags of a parser, without those that every command has; a flag of a common name may be another one."""
    shared = {tuple(action.option_strings): action.help for action in common._actions}
    return [
        tuple(action.option_strings)
        for action in parser._actions
        if action.option_strings
        and action.help != argparse.SUPPRESS
        and shared.get(tuple(action.option_strings)) != action.help
    ]


def choices_of(parser: argparse.ArgumentParser) -> list[str]:
    """The words that a command's first argument may be."""
    return [str(choice) for action in parser._actions if not action.option_strings for choice in action.choices or ()]


@pytest.fixture(scope="module")
def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands but ``run``: dsh's own, and those that bundled plugins bring."""
    from dsh.cli.extensions import brought, command_line
    from dsh.cli.start import settle

    start = settle(parsed("--safe-mode"))
    found: dict[str, argparse.ArgumentParser] = {
        name: command_parser(name, text) for name, text in COMMANDS.items() if name != "run"
    }
    return found | {name: command_line(command) for name, command in brought(start).items()}


@pytest.fixture(scope="module")
def common() -> argparse.ArgumentParser:
    parser = Parser("dsh")
    common_flags(parser)
    return parser


ROWS = re.findall(r"^\| `dsh ([a-z]+)` \| (.*?) \| .+ \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
"""Of the flags of single commands: the command, and the cell with the flags."""


def flags_in(cell: str) -> set[str]:
    return set(re.findall(r"`(--?[A-Za-z-]+)", cell))


def test_every_flag_of_a_run_and_every_exit_code_is_documented(common: argparse.ArgumentParser) -> None:
    text = DOCS.read_text(encoding="utf-8")
    for parser in (main_parser(COMMANDS), common, command_parser("batch", COMMANDS["batch"])):
        for action in parser._actions:
            for flag in action.option_strings:
                assert re.search(rf"^\| .*`{flag}\b.*?\|", text, re.MULTILINE), f"{flag} is not in docs/cli.md"
    for code in (0, 1, 2, 3, 75, 124, 129, 130, 143):
        assert re.search(rf"^\| {code} \|", text, re.MULTILINE), f"exit code {code} is not in docs/cli.md"


def test_every_command_and_its_flags_are_documented(
    commands: dict[str, argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert {"stats", "rewind", "sandbox", "skills", "permissions"} <= set(commands)
    for name, parser in commands.items():
        assert f"| `dsh {name}" in text, f"dsh {name} is not in docs/cli.md"
        if name == "batch":
            continue
        cells = [cell for command, cell in ROWS if command == name]
        for flags in own_flags(parser, common):
            assert any(set(flags) <= flags_in(cell) for cell in cells), f"dsh {name} {flags} is not in docs/cli.md"
        for choice in choices_of(parser):
            place = rf"^\| .*`(dsh )?({name} )?{choice}[ `].*?\|"
            lines = [line for line in re.findall(r"^\| `dsh .*", text, re.MULTILINE) if f"`dsh {name}" in line]
            assert any(re.search(place, line) for line in lines), f"dsh {name} {choice} is not in docs/cli.md"


def test_no_flag_is_documented_that_does_not_exist(
    commands: dict[str, argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    for name, cell in ROWS:
        known = {flag for flags in own_flags(commands[name], common) for flag in flags}
        assert flags_in(cell) <= known, f"docs/cli.md has {cell} of dsh {name}"
    known = {flag for parser in parsers() for action in parser._actions for flag in action.option_strings}
    text = DOCS.read_text(encoding="utf-8")
    for flag in re.findall(r"^\| `(--?[a-z-]+)", text, re.MULTILINE):
        assert flag in known, f"docs/cli.md has {flag}"


def test_the_help_of_every_command_is_printed(
    home: Path, commands: dict[str, argparse.ArgumentParser], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, parser in commands.items():
        assert main([name, "--help"]) == 0
        assert capsys.readouterr().out == parser.format_help()
