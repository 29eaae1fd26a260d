"""Which of git's commands only look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from .words import DYNAMIC, Word

__all__ = ["assess_git", "git_moves", "is_loose", "runs_of_git", "without_globals"]

_LOOKS = frozenset(
    [
        *("status", "log", "diff", "show", "blame", "annotate", "describe", "rev-parse", "rev-list", "ls-files"),
        *("ls-tree", "cat-file", "merge-base", "name-rev", "show-ref", "for-each-ref", "shortlog", "count-objects"),
        *("diff-tree", "diff-index", "diff-files", "whatchanged", "grep", "cherry", "check-ignore", "check-attr"),
        *("var", "version", "range-diff", "show-branch", "verify-commit", "verify-tag"),
    ]
)
_DANGER = (
    *("output", "ext-diff", "textconv", "open-files-in-pager", "exec", "upload-pack", "receive-pack", "filters"),
    *("no-index", "show-signature", "git-dir", "work-tree", "config-env", "exec-path", "paginate", "template"),
)
_LISTS: dict[str, tuple[str, ...]] = {
    "branch": (
        *("-a", "-r", "-v", "-vv", "-l", "--list", "--all", "--remotes", "--verbose", "--show-current", "--no-color"),
        *("--merged", "--no-merged", "--no-column"),
    ),
    "tag": ("-l", "--list", "-n", "--no-column"),
    "remote": ("-v", "--verbose"),
    "stash": (),
    "worktree": (),
    "submodule": (),
    "reflog": (),
    "notes": (),
    "bisect": (),
    "config": (
        "--list",
        "-l",
        "--get",
        "--get-all",
        "--get-regexp",
        "--show-origin",
        "--global",
        "--local",
        "--system",
    ),
    "symbolic-ref": ("--short", "-q"),
}
_SECOND: dict[str, tuple[str, ...]] = {
    "remote": ("get-url",),
    "stash": ("list", "show"),
    "worktree": ("list",),
    "submodule": ("status",),
    "reflog": ("show", "exists"),
    "notes": ("list", "show"),
    "bisect": ("log",),
    "config": ("get", "list"),
}
_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix")


def without_globals(words: Sequence[Word]) -> tuple[Word, ...]:
    """A command of git without the options before its subcommand: what it does, wherever and however."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in _VALUED else 1
    return (words[0], *words[at:])


def assess_git(args: Sequence[Word]) -> tuple[bool, str, str, tuple[Word, ...]]:
    """Whether it only looks; why not; the flag that makes more of it; its arguments that are files."""
    paths: list[Word] = []
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        if text == "-C" and at + 1 < len(args):
            paths.append(args[at + 1])
            at += 2
        elif text in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"):
            at += 1
        elif text in ("--version", "--help"):
            return text == "--version", "git help opens a pager", "", ()
        else:
            return False, f"git with {text} may run any program", text.partition("=")[0], tuple(paths)
    if at >= len(args):
        return True, "", "", tuple(paths)
    name, rest = args[at].text, args[at + 1 :]
    danger = ""
    for word in rest:
        text = word.text
        if text == "--":
            break
        flag = text[2:].partition("=")[0] if text.startswith("--") else ""
        if (len(flag) > 1 and any(other.startswith(flag) for other in _DANGER) and flag not in ("no", "text")) or (
            name == "grep" and re.match(r"-[A-Za-z]*O", text)
        ):
            danger = text.partition("=")[0]
    for word in rest:
        paths += _files(word)
    if danger:
        return False, f"git {name} with {danger} may write, or run a program", danger, tuple(paths)
    dynamic = any(not word.static for word in rest) or DYNAMIC in name
    if dynamic:
        return False, f"git {name.replace(DYNAMIC, '…')} with arguments that are only known in a run", "", tuple(paths)
    if name in _LOOKS:
        return True, "", "", tuple(paths)
    if name not in _LISTS:
        return False, "", "", tuple(paths)
    texts = [word.text for word in rest]
    operands = [text for text in texts if not text.startswith("-")]
    flags = [text for text in texts if text.startswith("-")]
    second = _SECOND.get(name, ())
    if operands and operands[0] in second and (name != "config" or "--" not in " ".join(flags)):
        return True, "", "", tuple(paths)
    shows = bool(flags) and any(
        flag in ("--list", "-l", "--get", "--get-all", "--get-regexp", "--contains") for flag in flags
    )
    known = all(
        flag in _LISTS[name] or re.match(r"--(?:contains|sort|format|points-at|merged)\b", flag) for flag in flags
    )
    bare = name in ("branch", "tag", "remote", "reflog") or (name == "symbolic-ref" and len(operands) == 1)
    if known and (shows or (bare and (not operands or name == "symbolic-ref"))):
        return True, "", "", tuple(paths)
    return False, "", "", tuple(paths)


_RUNNING_SETTINGS = re.compile(
    r"alias\..*|.*(?:pager|editor|command|cmd|helper|fsmonitor|external|textconv|program|askpass|driver|clean|smudge"
    r"|process|gitproxy)|filter\..*|pager\..*",
    re.IGNORECASE,
)
_FILTERS = re.compile(r"--[a-z-]+-filter")


def runs_of_git(args: Sequence[Word]) -> list[str | tuple[Word, ...]]:
    """What a command of git runs: text for a shell, or the words of a command."""
    found: list[str | tuple[Word, ...]] = []
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        if text == "-c" and at + 1 < len(args):
            key, _, value = args[at + 1].text.partition("=")
            if _RUNNING_SETTINGS.fullmatch(key) and (value.startswith("!") or not key.startswith("alias.")):
                found.append(value.removeprefix("!"))
        at += 2 if text in _VALUED else 1
    rest = args[at + 1 :]
    texts = [word.text for word in rest]
    match args[at].text if at < len(args) else "":
        case "rebase":
            found += _values(texts, ("-x", "--exec"))
        case "difftool":
            found += _values(texts, ("-x", "--extcmd"))
        case "filter-branch":
            found += [after for flag, after in pairwise(texts) if _FILTERS.fullmatch(flag)]
        case "bisect" if texts[:1] == ["run"] and len(rest) > 1:
            found.append(tuple(rest[1:]))
        case "clone":
            found += _values(texts, ("-u", "--upload-pack"))
        case "fetch" | "fetch-pack" | "ls-remote" | "pull" | "push" | "send-pack" | "archive":
            found += _values(texts, ("--upload-pack", "--receive-pack", "--exec"))
        case "submodule" if "foreach" in texts:
            inner = [word for word in rest[texts.index("foreach") + 1 :] if word.text != "--recursive"]
            found += [inner[0].text] if len(inner) == 1 else [tuple(inner)] if inner else []
        case "config":
            found += [text[1:] for text in texts if text.startswith("!")]
    found += [text[5:] for text in texts if text.startswith("ext::")]
    return found


def is_loose(args: Sequence[Word]) -> bool:
    """Whether what only a run knows may be an option that has git write files, or run programs."""
    rest = without_globals((Word("git"), *args))[1:]
    if any(word.loose for word in args[: len(args) - len(rest) + 1]):
        return True
    if not rest or rest[0].text not in (*_LOOKS, "archive", "clone", "difftool", "rebase", "stash"):
        return False
    for before, word in pairwise(rest):
        if before.text == "--":
            return False
        if word.loose and not re.fullmatch(r"-[A-Za-z]", before.text):
            return True
    return False


def git_moves(args: Sequence[Word]) -> bool:
    """Whether what the command runs may run in another folder than the command."""
    rest = without_globals((Word("git"), *args))[1:]
    before = args[: len(args) - len(rest)]
    elsewhere = any(re.match(r"-C|--git-dir|--work-tree|--bare", word.text) for word in before)
    return elsewhere or (bool(rest) and rest[0].text == "submodule")


def _values(texts: Sequence[str], flags: tuple[str, ...]) -> list[str]:
    """The values of some flags, behind them or in the same word."""
    found = [after for flag, after in pairwise(texts) if flag in flags]
    joined = [(text, flag) for text in texts for flag in flags if text.startswith(flag) and text != flag]
    return found + [text[len(flag) :].removeprefix("=") for text, flag in joined]


def _files(word: Word) -> list[Word]:
    """What of an argument may be a file: itself, or what stands behind a revision or a flag."""
    text = word.text
    if text.startswith("-"):
        _, equals, value = text.partition("=")
        named = [Word(value)] if equals and value else []
        return named if text.startswith("--") or len(text) < 3 else [*named, Word(text[2:])]
    if ":" in text and "://" not in text and not text.startswith(":("):
        return [Word(text.partition(":")[2])] if text.partition(":")[2] else []
    return [word]
