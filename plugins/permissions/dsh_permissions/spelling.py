"""How commands and patterns are spelled, so that they can be compared, and what a folder looks like to git."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence

from .commands.words import Word

__all__ = ["canonical", "glob", "in_system", "is_bare", "is_program", "lies_above", "narrow", "on_one_line", "wide"]

_BUILTINS = frozenset(
    [
        *("alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt"),
        *("continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc"),
        *("fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd"),
        *("printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source"),
        *("suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait"),
    ]
)
_BINARIES = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")


def is_bare(folder: str) -> bool:
    """Whether git would find a repository there, or above, that is in no ``.git``."""
    while folder != "/":
        git = f"{folder}/.git"
        if os.path.lexists(git) and (os.path.lexists(f"{git}/HEAD") or not os.path.isdir(git)):
            return False
        if os.path.lexists(f"{folder}/commondir"):  # it names the folder that has the rest
            return True
        if os.path.isdir(f"{folder}/objects") and os.path.isdir(f"{folder}/refs"):
            return True
        folder = os.path.dirname(folder)
    return False


def in_system(text: str) -> str:
    """The bare name of a program that is called by it, or by its place in the system; else nothing."""
    if "/" not in text:
        return text
    folder, _, name = text.rpartition("/")
    return name if os.path.normpath(folder) in _BINARIES and ".." not in folder else ""


def is_program(name: str) -> bool:
    """Whether there is a program or a builtin of that name: without a function of that name, it would be run."""
    return name in _BUILTINS or shutil.which(name) is not None


def lies_above(folder: str, names: Sequence[str]) -> bool:
    """Whether one of the files lies in the folder, or in one above."""
    while True:
        if any(os.path.lexists(f"{folder}/{name}") for name in names):
            return True
        if folder in ("/", ""):
            return False
        folder = os.path.dirname(folder)


def _quoted(text: str) -> str:
    return f"'{text}'" if not text or re.search(r"[\s'\"]", text) else text


def canonical(words: Sequence[Word]) -> str:
    """The words with one blank between them, and quotes where they are needed."""
    return " ".join(_quoted(word.text) for word in words)


def glob(pattern: str) -> str:
    """A pattern with its prefix, as in ``git push:*``, written as ``git push *``."""
    return f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern


def narrow(pattern: str) -> tuple[str, ...]:
    """For rules that allow: as it is written."""
    return (glob(pattern),)


def wide(pattern: str) -> tuple[str, ...]:
    """For rules that forbid: also with anything behind."""
    pattern = glob(pattern)
    bare = pattern[:-2] if pattern.endswith(" *") else pattern
    return (pattern, bare, f"{bare} *") if not bare.endswith("*") else (pattern,)


def on_one_line(text: str) -> str:
    """`text` on one line, not too long."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:180]} ..."
