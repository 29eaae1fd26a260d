"""Programs that run others: which command they run, read from their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from .git import git_moves, runs_of_git
from .options import ODD, Args, Dynamic, options_of
from .words import DYNAMIC, Word

__all__ = ["SHELLS", "Inner", "Unclear", "program", "unwrap"]

SHELLS = frozenset(
    [*("ash", "bash", "busybox", "dash", "fish", "ksh", "ksh93", "lksh", "mksh", "posh", "rbash", "sh", "yash", "zsh")]
)
ANYTHING = Word(DYNAMIC, plain=False)


@frozen
class Unclear:
    """It runs something, and the text alone does not tell what."""

    reason: str


@frozen
class Inner:
    """What a program runs.

    Attributes:
        words: the inner command; None where `script` is text for a shell.
        script: that text.
        assignments: variables that it gets, as ``NAME=value``.
        also: the outer program is judged, too, since it does more than to run the inner one.
        odd: there are options that are not known, so that it may be another command.
        away: it may run in another folder.
    """

    words: tuple[Word, ...] | None = None
    script: str | None = None
    assignments: tuple[str, ...] = ()
    also: bool = False
    odd: bool = False
    away: bool = False


Found: TypeAlias = "Inner | Unclear | None"


def program(word: Word) -> str:
    """The name of the program that `word` calls; empty if only a run knows."""
    return word.text.rpartition("/")[2] if word.static and not word.glob else ""


def unwrap(words: Args) -> list[Inner | Unclear]:
    """What the command `words` runs; nothing for a command that runs no other."""
    name, args = program(words[0]), words[1:]
    found: Found | list[Inner | Unclear]
    if name in SHELLS:
        found = _shell(name, args)
    elif name == "find":
        return list(_find(args))
    elif name == "xargs":
        return list(_xargs(args))
    elif name == "git":
        away = git_moves(args)
        return [_by_git(run, away) for run in runs_of_git(args)]
    elif name in ("fd", "fdfind"):
        return list(_fd(args))
    else:
        wrapper = _WRAPPERS.get(name)
        if wrapper is None:
            return []
        found = wrapper(args)
    return [] if found is None else [found]


def _plainly(
    short: str = "",
    long: Sequence[str] = (),
    *,
    skip: int = 0,
    attached: str = "",
    also: bool = False,
    flags: str = "",
    names: Sequence[str] = (),
) -> Callable[[Args], Found]:
    """A program that takes options, `skip` arguments, and a command."""

    def read(args: Args) -> Found:
        if [word.text for word in args] in (["--version"], ["--help"]):
            return None
        try:
            at, options = options_of(args, short, long, attached, flags, names)
        except Dynamic:
            return Unclear("the command that it runs is only known in a run")
        at += skip
        rest = tuple(args[at:])
        return Inner(rest, also=also, odd=ODD in options) if rest else None

    return read


def _env(args: Args) -> Found:
    try:
        at, options = options_of(
            args,
            "uCSP",
            ("unset", "chdir", "split-string"),
            flags="i0v",
            names=("ignore-environment", "null", "debug", *_SIGNALS),
        )
    except Dynamic:
        return Unclear("the command that it runs is only known in a run")
    for name, _ in options:
        if name in ("S", "C", "P", "split-string", "chdir"):
            return Unclear("env with options that change what is found")
    taken = []
    while at < len(args) and (args[at].text == "-" or re.match(r"[A-Za-z_]\w*=", args[at].text)):
        if args[at].text != "-":
            taken.append(args[at].text)
        at += 1
    if at < len(args) and not args[at].static and (DYNAMIC in args[at].text.partition("=")[0]):
        return Unclear("the command that it runs is only known in a run")
    rest = tuple(args[at:])
    return Inner(rest, assignments=tuple(taken), odd=ODD in options) if rest else None


def _time(args: Args) -> Found:
    if any(word.text.startswith(("-o", "--o", "-a", "-vo")) for word in args[:2]):
        return Unclear("time that writes to a file")
    return _plainly("f", ("format",), flags="pqvV", names=("portability", "quiet", "verbose"))(args)


def _command(args: Args) -> Found:
    try:
        at, options = options_of(args, "", flags="pvV")
    except Dynamic:
        return Unclear("the command that it runs is only known in a run")
    if any(name in "vV" for name, _ in options):
        return None
    rest = tuple(args[at:])
    return Inner(rest, odd=ODD in options) if rest else None


def _sudo(args: Args) -> Found:
    try:
        at, options = options_of(
            args,
            "ugUChpRDTrt",
            ("user", "group", "host", "prompt", "chroot", "chdir", "close-from", "role", "type", "command-timeout"),
            flags="AbBEeHiKklnPSsVv",
            names=(
                *("askpass", "background", "bell", "preserve-env", "edit", "set-home", "login", "remove-timestamp"),
                *("reset-timestamp", "list", "non-interactive", "preserve-groups", "stdin", "shell", "validate"),
            ),
        )
    except Dynamic:
        return Unclear("the command that it runs is only known in a run")
    taken = []
    while at < len(args) and re.match(r"[A-Za-z_]\w*=", args[at].text):
        taken.append(args[at].text)
        at += 1
    rest = tuple(args[at:])
    if not rest:
        return None
    if any(name in ("s", "i", "shell", "login") for name, _ in options):
        return _joined(rest, also=True)
    return Inner(rest, assignments=tuple(taken), also=True, odd=ODD in options)


def _xargs(args: Args) -> Iterator[Inner | Unclear]:
    try:
        at, options = options_of(
            args,
            "adEILnPs",
            ("arg-file", "delimiter", "max-args", "max-chars", "max-procs", "process-slot-var"),
            attached="eil",
            flags="0oprtx",
            names=(
                "null",
                "eof",
                "max-lines",
                "replace",
                "open-tty",
                "interactive",
                "no-run-if-empty",
                "verbose",
                "exit",
                "show-limits",
            ),
        )
    except Dynamic:
        yield Unclear("the command that it runs is only known in a run")
        return
    if any(name in ("a", "arg-file", "?") for name, _ in options):
        yield Unclear("xargs takes what it gives from a file")
    rest = tuple(args[at:]) or (Word("echo"),)
    marks = [value or "{}" for name, value in options if name in ("I", "i", "replace")]
    inner = tuple(_replaced(word, marks[-1]) for word in rest) if marks else (*rest, ANYTHING)
    numbered = tuple(f"{value}={DYNAMIC}" for name, value in options if name == "process-slot-var")
    yield Inner(inner, assignments=numbered)


def _replaced(word: Word, mark: str) -> Word:
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, DYNAMIC), word.glob, False)


def _joined(rest: Args, also: bool = False) -> Found:
    if not all(word.static for word in rest):
        return Unclear("the text that it gives to a shell is only known in a run")
    return Inner(script=" ".join(word.text for word in rest), also=also)


def _text_for_shell(
    short: str,
    long: Sequence[str] = (),
    *,
    skip: int = 0,
    also: bool = False,
    flags: str = "",
    names: Sequence[str] = (),
) -> Callable[[Args], Found]:
    def read(args: Args) -> Found:
        try:
            at, options = options_of(args, short, long, "", flags, names)
        except Dynamic:
            return Unclear("the text that it gives to a shell is only known in a run")
        rest = args[at + skip :]
        found = _joined(rest, also) if rest else None
        return evolve(found, odd=ODD in options) if isinstance(found, Inner) else found

    return read


def _parallel(args: Args) -> Found:
    return Unclear("parallel builds its commands in a run")


def _su(args: Args) -> Found:
    for place, word in enumerate(args):
        if word.text in ("-c", "--command") and place + 1 < len(args):
            return _joined(args[place + 1 : place + 2], also=True)
        if word.text.startswith("--command="):
            return _joined([Word(word.text.partition("=")[2])], also=True)
    return Unclear("a shell of another user")


def _shell(name: str, args: Args) -> Found:
    if name == "busybox":
        return Inner(tuple(args)) if args else None
    if name == "fish":
        return Unclear(_ELSE)
    at, wants = 0, False
    while at < len(args):
        word = args[at]
        if not word.static or word.glob:
            return Unclear("what the shell runs is only known in a run")
        text = word.text
        if text in ("--version", "--help") and len(args) == 1:
            return None
        if text.startswith("--") and text not in ("--", "--noprofile", "--norc", "--posix", "--restricted"):
            return Unclear("a shell with options that change what it runs")
        if text == "--" or text == "-":
            at += 1
            break
        if not text.startswith(("-", "+")):
            break
        at += 1
        if text.startswith("--"):
            continue
        wants = wants or (text.startswith("-") and "c" in text)
        if "i" in text or "l" in text:
            return Unclear("a shell that reads start-up files first")
        named = args[at : at + text.count("o")]
        at += len(named)
        if not _SHELL_FLAGS.fullmatch(text) or any(word.text not in _SHELL_OPTIONS for word in named):
            return Unclear("a shell with options that change how it reads")
    if wants:
        if at >= len(args):
            return None
        text = args[at].text
        if (name in _POSIX and not _READS_ALIKE.fullmatch(text)) or (name in _OTHERS and not _PLAIN.fullmatch(text)):
            return Unclear("a shell that reads this in another way than bash")
        return _joined(args[at : at + 1])
    return Unclear("the commands come from a file or from another program") if at >= len(args) else None


def _find(args: Args) -> Iterator[Inner | Unclear]:
    at, unclear = 0, False
    while at < len(args):
        text = args[at].text
        at += 1
        if not unclear and not args[at - 1].static and (at < 2 or args[at - 2].text not in _FIND_VALUES):
            unclear = True
            yield Unclear("find with arguments that are only known in a run")
        if text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        start = at
        while at < len(args) and args[at].text != ";" and not (args[at].text == "+" and args[at - 1].text == "{}"):
            at += 1
        rest = tuple(evolve(_replaced(word, "{}"), tame=True) for word in args[start:at])  # which begins with a folder
        if not rest:
            yield Unclear("find without a command to run")
        else:
            yield Inner(rest, also=True, away=text in ("-execdir", "-okdir"))


_FIND_VALUES = frozenset(
    ["-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-newer", "-size", "-mtime", "-user"]
)


def _by_git(run: str | tuple[Word, ...], away: bool) -> Inner | Unclear:
    if isinstance(run, tuple):
        return Inner(run, also=True, away=away)
    return (
        Unclear("the text that git gives to a shell is only known in a run")
        if DYNAMIC in run
        else Inner(script=run, also=True, away=away)
    )


def _fd(args: Args) -> Iterator[Inner | Unclear]:
    for place, word in enumerate(args):
        if word.text in ("-x", "-X", "--exec", "--exec-batch") or word.text.startswith(("--exec=", "--exec-batch=")):
            rest = [other for other in args[place + 1 :] if other.text != ";"]
            if "=" in word.text or not rest:
                yield Unclear("the command that fd runs")
            else:
                yield Inner((*(_replaced(other, "{}") for other in rest), ANYTHING), also=True)
            return
        if re.match(r"-\w+[xX]|--exe", word.text):
            yield Unclear("the command that fd runs")
            return


_SHELL_FLAGS = re.compile(r"[-+][cefuvxnCo]+")
_SHELL_OPTIONS = frozenset(["errexit", "noclobber", "noexec", "noglob", "nounset", "pipefail", "verbose", "xtrace"])
_POSIX = frozenset(["ash", "dash", "sh"])
_OTHERS = frozenset(["ksh", "ksh93", "lksh", "mksh", "posh", "yash", "zsh"])
_READS_ALIKE = re.compile(r"(?:(?!\[\[|(?<!\$)\(\(|\$'|[<>]\(|&>|<<<|\|&|>&[^\d-]).)*", re.DOTALL)
"""Text without what a plain shell takes for something else: tests, arithmetic, quotes of bash."""
_PLAIN = re.compile(r"(?:[\w\s./,:@%+;&|-]|'[^'\n]*')*")
"""Text that means the same to all shells."""
_ELSE = "a shell of another language"
_TRACED = "a command under another program"
_AWAY = "a command in surroundings of its own"
_TEXT = "commands in a language of their own"
_CHRT = "abdfimorRGv"
_CHRT_LONG = ("batch", "deadline", "fifo", "idle", "other", "rr", "reset-on-fork", "all-tasks", "max", "verbose")
_TIMEOUT = ("preserve-status", "foreground", "verbose")
_SIGNALS = ("default-signal", "ignore-signal", "block-signal", "list-signal-handling")


_WRAPPERS: dict[str, Callable[[Args], Found]] = {
    **dict.fromkeys(("csh", "elvish", "fish", "nu", "pwsh", "rc", "tcsh", "xonsh"), lambda args: Unclear(_ELSE)),
    **dict.fromkeys(("perf", "rr", "script", "setarch", "strace", "ltrace", "valgrind"), lambda args: Unclear(_TRACED)),
    **dict.fromkeys(("nsenter", "unshare", "bwrap", "firejail", "machinectl"), lambda args: Unclear(_AWAY)),
    **dict.fromkeys(("at", "batch", "crontab", "entr", "expect", "socat"), lambda args: Unclear(_TEXT)),
    **dict.fromkeys(("linux32", "linux64", "i386", "x86_64"), _plainly()),
    **dict.fromkeys(("runuser", "su", "sg"), lambda args: _su(args)),
    **dict.fromkeys(("chronic", "torsocks", "tsocks", "unbuffer"), _plainly(also=True)),
    "builtin": _plainly(),
    "catchsegv": _plainly(),
    "chroot": _plainly(long=("userspec", "groups"), skip=1, also=True, names=("skip-chdir",)),
    "chrt": _plainly(
        "pTPD", ("sched-runtime", "sched-period", "sched-deadline"), skip=1, flags=_CHRT, names=_CHRT_LONG
    ),
    "command": _command,
    "coproc": lambda args: Unclear("a coprocess"),
    "dbus-run-session": _plainly(long=("config-file", "dbus-daemon"), also=True),
    "doas": _plainly("uC", also=True, flags="Lns"),
    "env": _env,
    "eval": lambda args: _joined([word for n, word in enumerate(args) if n or word.text != "--"]) if args else None,
    "exec": _plainly("a", flags="cl"),
    "flock": _plainly(
        "wE",
        ("timeout", "conflict-exit-code", "wait"),
        skip=1,
        also=True,
        flags="sexnuoFv",
        names=("shared", "exclusive", "nonblock", "nb", "unlock", "close", "no-fork", "verbose"),
    ),
    "ionice": _plainly("cnpPu", ("class", "classdata"), flags="t", names=("ignore",)),
    "nice": _plainly("n", ("adjustment",), flags="0123456789"),
    "nohup": _plainly(),
    "numactl": _plainly("iNmCp", ("interleave", "membind", "cpunodebind", "physcpubind", "preferred"), also=True),
    "parallel": _parallel,
    "pkexec": _plainly(long=("user",), also=True, names=("disable-internal-agent", "keep-cwd")),
    "prlimit": lambda args: Unclear(_TRACED),
    "proxychains": _plainly("f", also=True, flags="q"),
    "proxychains4": _plainly("f", also=True, flags="q"),
    "rlwrap": lambda args: Unclear(_TEXT),
    "sem": _parallel,
    "setpriv": lambda args: Unclear(_AWAY),
    "setsid": _plainly(flags="cfw", names=("ctty", "fork", "wait")),
    "ssh": _text_for_shell("BbcDEeFIiJLlmOopQRSWw", skip=1, also=True, flags="46AaCfGgKkMNnqsTtVvXxYy"),
    "start-stop-daemon": lambda args: Unclear(_AWAY),
    "stdbuf": _plainly("ioe", ("input", "output", "error")),
    "sudo": _sudo,
    "systemd-run": lambda args: Unclear(_AWAY),
    "taskset": _plainly(skip=1, flags="acp", names=("all-tasks", "cpu-list", "pid")),
    "time": _time,
    "timeout": _plainly("ks", ("kill-after", "signal"), skip=1, flags="fpv", names=_TIMEOUT),
    "toybox": lambda args: Inner(tuple(args)) if args else None,
    "trap": lambda args: _trap(args),
    "watch": _text_for_shell(
        "nq",
        ("interval", "equexit"),
        flags="bcCdegptwxr",
        names=(
            *("beep", "color", "no-color", "differences", "errexit", "chgexit", "precise", "no-title", "no-wrap"),
            *("exec", "no-rerun"),
        ),
    ),
    "xvfb-run": lambda args: Unclear(_TRACED),
}


def _trap(args: Args) -> Found:
    if not args or args[0].text in ("-l", "-p", "-", ""):
        return None
    return _joined(args[1:2] if args[0].text == "--" else args[:1])
