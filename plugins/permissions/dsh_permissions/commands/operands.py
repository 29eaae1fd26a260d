"""Arguments that may be files, of programs of which nothing is known."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from .words import DYNAMIC, Word

__all__ = ["operands"]


def operands(args: Sequence[Word]) -> list[Word]:
    """Arguments that look like files: with a ``/``, or that are there."""
    found = []
    for word in args:
        text = word.text
        named = re.match(
            r"(?:-[A-Za-z]|(?:--[\w-]+=)?[\w.-]*=?)[@<]([^@].*)|(?:-[^/]*=)?file:(?://[^/]*)?(/.*)", text, re.DOTALL
        )
        if named:
            found.append(Word(named[1] or named[2], word.glob, word.plain))
        if text.startswith("-"):
            _, equals, value = text.partition("=")
            if equals:
                text = value
            elif len(text) > 2 and not text.startswith("--"):
                text = text[2:]
            else:
                continue
        elif re.match(r"[A-Za-z_][\w.-]*=", text):
            text = text.partition("=")[2]
        if not text or "://" in text:
            continue
        if text.startswith("/") and DYNAMIC not in text:
            top = "/" + text.lstrip("/").split("/")[0]
            if not os.path.lexists(top) and not word.glob:
                continue
        if re.match(r"[\w.+-]+@[\w.-]+:|[\w.-]+:[^/]*$", text) and not text.startswith("."):
            continue
        if "\n" in text or len(text) > 1000:
            continue
        found.append(Word(text, word.glob, word.plain))
    return found
