"""Ways to run what was not judged: each kind as a few lines, and everyday lines of the same look that need no rule."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from dsh_permissions.globs import command_pattern, path_pattern

TESTS = [  # a test that gets -v from a value evaluates the word behind it
    "x='-v a[$(touch${IFS}m)0]'; [ $x ]",
    "x='1 -o -v a[$(touch${IFS}m)0]'; [ $x ]",
    "x='1 -o -v a[$(touch${IFS}m)0]'; [ -z $x ]",
    ": '-v a[$(touch${IFS}m)0]'; [ $_ ]",
    "[ $(echo -v 'a[$(touch m)0]') ]",
    "read x <<< '-v a[$(touch${IFS}m)0]'; [ $x ]",
    "f() { [ $1 ]; }; f '-v a[$(touch${IFS}m)0]'",
    "x=$(cat README.md); [ $x = a ]",
    "for f in *; do [ -f $f ] && echo x; done",
    "eval 'x=\"-v a[\\$(touch m)0]\"'; [ $x ]",
    "bash -c '[ $x ]'",
    "[ * ]",
]
LISTS = [  # a list in quotes is evaluated where the variable is a list
    "declare -a x='($(touch m))'",
    "declare -A x='([a]=$(touch m))'",
    "readonly -a x='($(touch m))'",
    "typeset -a x='($(touch m))'",
    "f() { local -a x='($(touch m))'; }; f",
    "declare -a x; declare x='($(touch m))'",
    "y='($(touch m))'; declare -a x; declare x=$y",
    "x=(); y='($(touch m))'; declare x=$y",
    "read -a x <<< 1; y='($(touch m))'; declare x=$y",
]
NUMBERS = [  # what bash keeps numbers in evaluates what it is given
    "RANDOM='a[$(touch m)0]'",
    "OPTIND='a[$(touch m)0]'",
    "HISTCMD='a[$(touch m)0]'",
    "for RANDOM in 'a[$(touch m)0]'; do ls; done",
    "read OPTIND <<< 'a[$(touch m)0]'",
    ": ${OPTIND:='a[$(touch m)0]'}",
    "RANDOM=$x",
]
FUNCTIONS = [  # a function stands in for a program only where it is one
    "python3 x.py; python3() { ls; }",
    "(python3() { ls; }); python3 x.py",
    "bash -c 'python3() { ls; }'; python3 x.py",
    "false && python3() { ls; }; python3 x.py",
    "python3() { ls; }; command python3 x.py",
    "python3() { ls; }; env python3 x.py",
    "python3() { ls; }; unset -f python3; python3 x.py",
    "python3() { ls; }; ls | xargs python3",
    "source() { ls; }; command source x.sh",
]
SHELLS = [  # options by which a shell reads its text in another way
    "bash -kc 'ls LD_PRELOAD=./x.so'",
    "bash -o keyword -c 'ls LD_PRELOAD=./x.so'",
    "bash -ac 'ls'",
    "bash -o allexport -c ls",
    "bash -sc ls",
]
PLACES = [  # commands that run in another folder than they seem to
    "find . -name key.txt -execdir cat key.txt \\;",
    "find . -name key.txt -okdir head -1 key.txt \\;",
    "echo a | xargs --process-slot-var=PATH echo",
    "echo a | xargs --process-slot-var PATH echo",
]
VERSIONS = [  # what is a version's name for one program is a script for another
    "make version",
    "node version",
    "python3 version",
    "bash version",
    "bun version",
    "pytest version",
    "gcc version",
    "make -V",
    "pytest --version",
]
FILES = [  # files that are read although they do not look like an argument
    "strings @.env",
    "git grep -f.env x",
    "git blame -S.env README.md",
    "git diff -O.env",
    "ag -C x .env",
    "who .env",
    "ps -e -o environ",
    "ps -o pid,environ",
]
PIPES = [  # in the value of an expansion, too, bash starts what stands in a pipe
    "echo ${x:-<(touch m)}",
    "echo ${x:->(touch m)}",
    "echo ${x:-a${y:-<(touch m)}}",
    "x=a; echo ${x#<(touch m)}",
    "x=a; echo ${x/a/<(touch m)}",
    'x=a; echo "${x#<(touch m)}"',
]


@pytest.mark.parametrize(
    "line",
    [*TESTS, *LISTS, *NUMBERS, *FUNCTIONS, *SHELLS, *PLACES, *VERSIONS, *FILES, *PIPES],
    ids=lambda line: line[:60],
)
def test_what_runs_something_else_is_asked_about(ground: Any, line: str) -> None:
    verdict = ground.bash(line)
    assert verdict.kind == "ask", verdict
    assert ground.bash(line, mode="plan").kind != "allow"


JOINED = [  # bash takes the end of a line out before it looks for substitutions
    'echo "$\\\n({})"',
    'echo "$\\\n\\\n({})"',
    'echo "a$\\\n({})b" > /dev/null',
    'x="$\\\n({})"',
    "echo ${{x:-$\\\n({})}}",
    'wc <<< "$\\\n({})"',
    '[[ "$\\\n({})" ]]',
    'for i in "$\\\n({})"; do ls; done',
    "bash -c 'echo \"$\\\n({})\"'",
    "cat <<E\n$\\\n({})\nE",
    "cat <<E\na\\\nE\n: '\n$({})\nE\n: '\n",
    "cat <<-E\na\\\n\tE\n: '\n$({})\nE\n: '\n",
    "cat <<E\nE\\\n\n: '\n$({})\nE\n: '\n",
]


@pytest.mark.parametrize("line", JOINED)
def test_what_an_end_of_line_hides_is_found(ground: Any, line: str) -> None:
    assert ground.bash(line.format("touch m")).kind == "ask"
    for mode in ("default", "accept-edits", "plan", "dont-ask"):
        assert ground.bash(line.format("rm -f v"), mode=mode, deny=["bash(rm *)"]).kind != "allow"
    assert ground.bash(line.format("rm -f v"), mode="bypass", deny=["bash(rm *)"]).kind == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "x() { ls; }; x='a[$(touch m)0]'; echo $(\\\n(x))",
        "x() { ls; }; x='a[$(touch m)0]'; (\\\n(x))",
        "x='a[$(touch m)0]'; echo \"$\\\n((x))\"",
        "x='a[$(touch m)0]'; echo \"$\\\n[x]\"",
        "x='$(touch m)'; echo \"$\\\n{x@P}\"",
        'cat "$HOME\\\nX/README.md"',
    ],
)
def test_an_end_of_line_makes_no_other_expansion(ground: Any, line: str) -> None:
    assert ground.bash(line).kind == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "ls \\\n  -l \\\n  src",
        "ls && \\\n  pwd",
        "ls | \\\n  wc",
        'echo "a \\\n b"',
        "cat <<E\nls \\\n  -l\nE",
        "cat <<'E'\na\\\nE\nls",
        "cat <<E\na\\\\\nE\nls",
    ],
)
def test_a_line_may_go_on_in_the_next(ground: Any, line: str) -> None:
    assert ground.bash(line).kind == "allow", ground.bash(line)


@pytest.mark.parametrize(
    "line",
    [
        "[ $x = a ] && ls",
        "[ -z $x ]",
        "[ $? -eq 0 ]",
        "[ $# -gt 1 ]",
        "[ ${#x} -gt 2 ]",
        "[ $((1 + 1)) -eq 2 ]",
        '[ -n "$x" -a "$y" = b ]',
        '[ "$(ls)" = x ]',
        "[ $(ls | wc -l) -gt 3 ]",
        "[ -e *.txt ]",
        "[ ! -d src ] || ls",
        "x=abc; [ $x = abc ]",
        "n=$(wc -l < README.md); [ $n -gt 3 ]",
        "for f in a b; do [ $f = a ] && echo $f; done",
        'for f in *.md; do [ -f "$f" ] && echo x; done',
        "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done",
        "declare -a x=(a b); echo ${x[0]}",
        "declare x=$y",
        'f() { local d="$1"; ls; }; f x',
        "SECONDS=0; ls; echo $SECONDS",
        "OPTIND=1",
        "RANDOM=42; echo $RANDOM",
        "no_such_program() { ls; }; no_such_program",
        "bash -euo pipefail -c 'ls | wc -l'",
        "bash -o errexit -c ls",
        "echo a | xargs -P 2 -n 1 echo",
        "find . -name '*.py' -exec ls \\;",
        "go version",
        "git version",
        "python3 -V",
        "node --version",
        "cargo --version",
        "yarn --version",
        "strings README.md",
        "who",
        "echo HEAD@{1.day.ago}",
        "git log -n3 --format=%h",
    ],
)
def test_everyday_lines_of_the_same_look_are_not(ground: Any, line: str) -> None:
    assert ground.bash(line).kind == "allow", ground.bash(line)


def test_a_denied_file_is_not_read_from_its_own_folder(ground: Any) -> None:
    deny = ["read(secrets/**)"]
    for line in ("find . -name key.txt -execdir cat key.txt \\;", "find . -name secrets -execdir rg x secrets \\;"):
        assert ground.bash(line, deny=deny, allow=["bash(find *)", "bash(cat *)", "bash(rg *)"]).kind != "allow", line
        assert ground.bash(line, deny=deny, mode="bypass").kind == "deny", line


def test_a_repository_whose_settings_lie_elsewhere_is_asked_about(ground: Any) -> None:
    """Such a folder needs no more than two files, which can be in any repository."""
    (ground.work / "evil").mkdir()
    (ground.work / "evil/HEAD").write_text("ref: refs/heads/main\n")
    (ground.work / "evil/commondir").write_text("../other\n")
    for line in ("cd evil && git diff HEAD~1 HEAD", "git -C evil log", "cd evil; git status"):
        assert ground.bash(line).kind == "ask", line
    assert ground.bash("git status").kind == "allow"


def test_an_empty_git_folder_does_not_hide_such_a_repository(ground: Any) -> None:
    for name in ("objects", "refs", ".git"):
        (ground.work / "src" / name).mkdir()
    assert ground.bash("cd src && git status").kind == "ask"


@pytest.mark.parametrize(
    ("line", "file"),
    [("cargo --version", "rust-toolchain.toml"), ("rustc --version", "rust-toolchain"), ("yarn --version", ".yarnrc")],
)
def test_a_program_that_a_file_puts_another_in_place_of_is_asked_about(ground: Any, line: str, file: str) -> None:
    assert ground.bash(line).kind == "allow"
    (ground.work / file).write_text("x")
    assert ground.bash(line).kind == "ask"
    assert ground.bash(f"cd src && {line}").kind == "ask"


RULES = [f"bash({name} *)" for name in ("git", "sort", "rg", "tar", "find", "curl", "cat", "echo", "xargs")]


@pytest.mark.parametrize(
    "line",
    [
        "x='-osrc/a.py'; sort $x README.md",
        "x='README.md -osrc/a.py'; sort $x",
        "for x in -osrc/a.py; do sort $x README.md; done",
        "read -r x < README.md; rg $x y",
        "sort $(cat x)",
        "echo -osrc/a.py | xargs sort",
        "x='-c core.fsmonitor=./evil'; git $x status",
        "x=--output=src/a.py; git log $x",
        "tar cf a $(echo -I./x)",
        "curl $(echo -osrc/a.py) h",
        'f() { rg "$1" x; }; f --pre=./evil',
    ],
)
def test_a_rule_does_not_allow_an_option_that_only_a_run_knows(ground: Any, line: str) -> None:
    """What makes more of a program than its name says has to be named, also where it comes out of a variable."""
    assert ground.bash(line, allow=RULES, mode="accept-edits").kind == "ask", line


@pytest.mark.parametrize(
    "line",
    [
        'git commit -m "$msg"',
        'git add "$f"',
        'git push -u origin "$(git branch --show-current)"',
        'git log -n "$n"',
        "git diff HEAD..$x",
        'git checkout "$branch"',
        'rg "$pattern" src',
        "x=a.py; sort $x",
        'for f in a.py b.py; do rg x "$f"; done',
        'sort -- "$(cat x)"',
        "find src -exec sort {} \\;",
        'tar czf "$out" src',
        'curl "$url"',
    ],
)
def test_a_rule_goes_on_allowing_what_is_surely_no_option(ground: Any, line: str) -> None:
    assert ground.bash(line, allow=RULES).kind == "allow", ground.bash(line, allow=RULES)


@pytest.mark.parametrize(
    "line",
    [
        "git clone -u 'rm -f v;' . y",
        "git fetch --upload-pack='rm -f v;' . y",
        "git push --receive-pack 'rm -f v;' . y",
        "make test CC='rm -f v;'",
        "make test SHELL='/bin/sh -c rm'",
        "go build -toolexec='rm -f v' .",
        "go vet -vettool='rm -f v' .",
        "gcc -wrapper rm,-f,v a.c",
        "less --lesskey-content='#env;LESSOPEN=|rm -f v' README.md",
        "man -C 'rm x' ls",
    ],
)
def test_what_a_rule_denies_is_not_run_by_an_option(ground: Any, line: str) -> None:
    allow = [f"bash({name} *)" for name in ("git", "make", "go", "gcc", "less", "man")]
    assert ground.bash(line, allow=allow, deny=["bash(rm *)"]).kind != "allow"


@pytest.mark.parametrize(
    "line", ["make test V=1", "make PREFIX=/usr all", "make CFLAGS=-O2", "go build ./...", "gcc -O2 a.c"]
)
def test_plain_options_are_still_allowed(ground: Any, line: str) -> None:
    assert ground.bash(line, allow=["bash(make *)", "bash(go *)", "bash(gcc *)"]).kind == "allow"


@pytest.mark.parametrize("line", ["git commit -F.env", "some-tool -f.env", "git commit -F../outside/x"])
def test_a_file_that_is_written_to_its_flag_is_seen(ground: Any, line: str) -> None:
    allow = ["bash(git *)", "bash(gcc *)", "bash(some-tool *)"]
    (ground.outside / "x").write_text("x")
    assert ground.bash(line, allow=allow).kind == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "echo " + "{" * 15_000,
        "echo " + "{a" * 5_000,
        "echo " + "{a.b" * 3_500,
        "echo {" + "," * 15_000,
        ";".join(f"cd d{n}" for n in range(299)),
        "for i in 1; do " + ";".join(f"cd d{n}; cat f{n}" for n in range(140)) + "; done",
        "git log " + "a:b " * 3_500,
        "cat " + " ".join(["*"] * 7_000),
        "cat " + " ".join(f"*{n}" for n in range(2_000)),
        "cat " + "*a" * 5_000,
        "find . " + "$x " * 5_000,
    ],
    ids=lambda line: line[:12],
)
def test_no_line_keeps_the_judge_busy(ground: Any, line: str) -> None:
    """Each of them once took longer than the age of the machine, or grew with every command."""
    for n in range(50):
        (ground.work / f"file{n}").write_text("")
    assert ground.bash(line, allow=["bash(*a*b*c*d*)"], deny=["bash(*x*y*z*)", "read(**/x*y*z*)"]).kind in (
        "allow",
        "ask",
    )


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*rm *", "xrmy rm z", True),
        ("*rm *", "xrmy", False),
        ("a*b*c", "abbcbc", True),
        ("a*b*c", "acb", False),
        ("*a*a*", "a", False),
        ("*a*a*", "aa", True),
        ("a?*c", "ac", False),
        ("**", "", True),
        ("ls *", "ls", True),
        ("ls * x *", "ls a x", True),
        ("*ab*ab", "ab", False),
        ("*ab*ab", "abxab", True),
    ],
)
def test_stars_find_what_they_always_found(pattern: str, text: str, matches: bool) -> None:
    assert (command_pattern(pattern).fullmatch(text) is not None) is matches


def test_stars_in_paths_find_what_they_always_found() -> None:
    def match(pattern: str, path: str) -> bool:
        return path_pattern(pattern, "/w", "/h", False, False).fullmatch(path) is not None

    assert match("a*b*c.py", "/w/abbcbc.py")
    assert match("src/*x*/y", "/w/src/axb/y")
    assert not match("src/*x*/y", "/w/src/ax/b/y")
    assert match("*[ab]*c", "/w/xbc")
    assert not match("*[ab]*c", "/w/xc")


def test_a_pattern_is_a_name_too(ground: Any) -> None:
    """After ``set -f`` it is nothing else."""
    os.symlink(".env", ground.work / "[R]EADME.md")
    assert ground.bash("set -f; cat [R]EADME.md").kind == "ask"


def test_the_program_of_a_function_is_looked_for(ground: Any) -> None:
    assert shutil.which("python3") is not None
    assert ground.bash("python3() { ls; }; python3 x.py", allow=["bash(python3 *)"]).kind == "allow"
