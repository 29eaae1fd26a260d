"""Lines that are put together at random: what is denied stays denied, however it is written and wherever it stands."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from dsh_permissions.commands.parse import Command, parse
from dsh_permissions.judge import Judge
from dsh_permissions.rules import RuleSet, parse_rule
from dsh_permissions.verdict import Verdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FOLDER = tempfile.gettempdir()
ALLOWED = RuleSet(
    [
        *(parse_rule(f"bash({name} *)", "allow", "test") for name in ("good", "echo", "cat", "true", "xargs", "find")),
        parse_rule("write(**)", "allow", "test"),
        parse_rule("bash(bad *)", "deny", "test"),
    ]
)
JUDGE = Judge(ALLOWED, "default", FOLDER, (), "/nowhere/home")

good = st.sampled_from(["good", "good a", "echo 'b; bad'", 'echo "bad x"', "true", "cat <<'E'\nbad\nE", "good # bad"])


def spelled(name: str) -> st.SearchStrategy[str]:
    """The name in all quotes that mean the same."""

    def sign(letter: str) -> st.SearchStrategy[str]:
        return st.sampled_from(
            [
                letter,
                f"\\{letter}",
                f"'{letter}'",
                f'"{letter}"',
                f"$'\\x{ord(letter):x}'",
                f"''{letter}",
                f'{letter}""',
            ]
        )

    return st.tuples(*map(sign, name)).map("".join)


bad = st.tuples(
    st.sampled_from(["", "", "/bin/", "/usr/bin/", "./", "../x/"]),
    spelled("bad"),
    st.sampled_from(["", " x", " -f 'y z'", " >/dev/null", " 2>&1", " </dev/null"]),
).map("".join)

WRAPPERS = [
    *("{}", "( {} )", "{{ {}; }}", "! {}", "true && {}", "{} || true", "true; {}", "true | {}", "{} | true", "{} &"),
    *(
        "true\n{}",
        "if {}; then true; fi",
        "if true; then {}; fi",
        "for i in a b; do {}; done",
        "while {}; do true; done",
    ),
    *("case a in a) {};; esac", "f() {{ {}; }}; f", "echo $({})", 'echo "$({})"', "x=$({})", "echo ${{x:-$({})}}"),
    *(
        "cat <<E\n$({})\nE",
        "cat <({})",
        "[ -n $({}) ]",
        "good $({}) > out",
        "( true; {} ) > out",
        "until {}; do true; done",
    ),
]
PREFIXES = [
    *(
        "command {}",
        "env {}",
        "env -i A=1 {}",
        "nohup {}",
        "nice -n 3 {}",
        "timeout 5 {}",
        "time {}",
        "exec {}",
        "sudo {}",
    ),
    *("A=1 {}", "xargs {}", "builtin command {}", "find . -exec {} \\;", "stdbuf -o0 {}", "setsid {}", "{}"),
]


@st.composite
def hidden(draw: st.DrawFn) -> str:
    """A command that is denied, under a few layers."""
    text = draw(bad)
    if not any(sign in text for sign in "<>"):
        text = draw(st.sampled_from(PREFIXES)).replace("{}", text)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.integers(0, 4))
        if kind == 0:
            text = draw(st.sampled_from(["bash -c {}", "sh -c {}", "eval {}", "sudo bash -xc {}"])).format(
                shlex.quote(text)
            )
        else:
            text = draw(st.sampled_from(WRAPPERS)).format(text)
    return text


def judged(line: str) -> Verdict:
    return JUDGE.judge("bash", {"command": line}, "execute", "command")


@SETTINGS
@given(st.lists(good, max_size=3), hidden(), st.lists(good, max_size=3), st.sampled_from(["; ", " && ", " || ", "\n"]))
def test_a_denied_command_is_never_let_through(before: list[str], middle: str, after: list[str], glue: str) -> None:
    glue = "\n" if any("<<" in part or "#" in part for part in (*before, middle)) else glue
    line = glue.join([*before, middle, *after])
    assert judged(line).kind != "allow"
    bypassed = Judge(ALLOWED, "bypass", FOLDER, (), "/nowhere/home")
    assert bypassed.judge("bash", {"command": line}, "execute", "command").kind == "deny"


@SETTINGS
@given(st.lists(good, min_size=1, max_size=5))
def test_allowed_commands_together_are_allowed(parts: list[str]) -> None:
    assert judged("\n".join(parts)).kind == "allow"


TOKENS = [
    *(
        "good",
        "bad",
        " bad",
        " ",
        "\n",
        ";",
        "&&",
        "|",
        "&",
        "(",
        ")",
        "{ ",
        "; }",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "\\\n",
    ),
    *(
        " #",
        "<<E",
        "<<'E'",
        "\nE\n",
        "if ",
        "; then ",
        "; fi",
        "for i in a; do ",
        "; done",
        "x=",
        "$x",
        "${x:-",
        "}",
        "$'",
    ),
    *(
        "[[ ",
        " ]]",
        "! ",
        ">f",
        "2>&1",
        "<f",
        "<<<",
        "eval ",
        "command ",
        "env ",
        "\t",
        "b'ad'",
        "\\bad",
        '"$(bad)"',
        "=",
        "a",
    ),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=9).map("".join))
def test_bash_itself_runs_nothing_denied_in_what_is_allowed(soup: str) -> None:
    """Whatever the judge lets pass is given to bash: the denied program must not run."""
    if judged(soup).kind != "allow" or "bad" not in soup:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, body in (("good", "exit 0"), ("bad", f": >{folder}/ran")):
            program = Path(folder, "bin", name)
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{body}\n")
            program.chmod(0o755)
        work = Path(folder, "work")
        work.mkdir()
        subprocess.run(
            ["timeout", "20", "bash", "-c", soup],
            cwd=work,
            env={"PATH": f"{folder}/bin:{os.defpath}", "HOME": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert not Path(folder, "ran").exists(), soup


WORDS = st.text(alphabet="ab \\'\"$x{},;|&<>()#~*=!\n`", min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=3))
def test_words_are_read_as_bash_reads_them(raw: list[str]) -> None:
    line = "printf '%s\\0' " + " ".join(raw)
    script = parse(line, {})
    found = [item for item in script.items if isinstance(item, Command) and item.words]
    if len(script.items) != 1 or len(found) != 1 or not all(word.static for word in found[0].words):
        return
    if any(word.glob for word in found[0].words):
        return
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if b"syntax error" in ran.stderr:
        return  # bash runs nothing of it
    assert ran.returncode == 0, ran.stderr
    given_words = [word.text for word in found[0].words[2:]]
    expected = ran.stdout.decode().split("\0")[:-1]
    assert (given_words or [""]) == expected
