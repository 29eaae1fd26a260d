"""Small languages inside of arguments: what of ``sed`` and ``awk`` only prints."""

from __future__ import annotations

import re

from dsh.patterns import late

__all__ = ["awk_is_plain", "sed_is_plain"]

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SIMPLE = late(rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?)?\s*!?\s*(?:[pdqQ=nNxgGhHDP]\d*|[lz])?")
_SUBSTITUTE = late(rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?)?\s*!?\s*([sy])([^\w\s\\])")
_FLAGS = late(r"[gpiI\d]*")
_BRACKETED = re.compile(r"\[\^?\]?[^\]]*\]")


def sed_is_plain(script: str) -> bool:
    """Whether a script of ``sed`` is made of commands that print, delete or substitute, and neither write nor run."""
    at = 0
    while at < len(script):
        if script[at] in "; \n\t":
            at += 1
            continue
        found = _SUBSTITUTE.match(script, at)
        if found:
            end = _past(script, found.end(), found[2])
            if end is None:
                return False
            flags = _FLAGS.match(script, end)
            assert flags is not None
            at = flags.end()
        else:
            simple = _SIMPLE.match(script, at)
            if simple is None or simple.end() == at:
                return False
            at = simple.end()
        if at < len(script) and script[at] not in "; \n\t":
            return False
    return True


def _past(script: str, at: int, sign: str) -> int | None:
    """Behind the second `sign` from `at` on that is not escaped."""
    left = 2
    while at < len(script):
        if script[at] == "\\":
            at += 1
        elif script[at] == "\n":
            return None
        elif (inside := _BRACKETED.match(script, at)) and sign in inside[0]:
            return None  # whether it ends the pattern there is not the same everywhere
        elif script[at] == sign:
            left -= 1
            if not left:
                return at + 1
        at += 1
    return None


_AWK = re.compile(
    r"[|>@`]|\b(?:system|getline|close|fflush|include|load|ENVIRON|PROCINFO|ARGV|ARGC|ARGIND|SYMTAB|FUNCTAB)\b|\\\n"
)


def awk_is_plain(script: str) -> bool:
    """Whether a program of ``awk`` neither writes to files nor runs programs; a comparison is not told apart."""
    return _AWK.search(script) is None
