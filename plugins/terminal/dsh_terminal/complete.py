"""Proposals while a person types: commands behind ``/``, files behind ``@``, and what commands take."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .cells import shown
from .commands import Proposal

__all__ = ["Proposals", "files_below"]

FILES = 5000
SHOWN = 50
FRESH = 5.0
"""Seconds for which a list of files is good."""


class Proposals(Completer):
    """See the module.

    Args:
        commands: the names and what they do, as they are now.
        values: what a command takes, by its name.
        cwd: where files are looked for.
    """

    def __init__(
        self,
        commands: Callable[[], Iterable[Proposal]],
        values: Callable[[str], Sequence[Proposal]],
        cwd: Callable[[], Path],
    ) -> None:
        self._commands = commands
        self._values = values
        self._cwd = cwd
        self._files: tuple[float, Path | None, list[str]] = (0.0, None, [])

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """The proposals for what stands before the cursor; runs in a thread."""
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            name, blank, rest = text[1:].partition(" ")
            if not blank:
                for command in self._commands():
                    if command.text.startswith(name):
                        display = f"/{command.text}"
                        yield Completion(command.text, -len(name), display=display, display_meta=command.meaning)
                return
            wanted = rest.lower()
            fit = (value for value in self._values(name) if wanted in f"{value.text} {value.meaning}".lower())
            for value in islice(fit, SHOWN):
                yield Completion(value.text, -len(rest), display_meta=shown(value.meaning))
            return
        word = text[max(text.rfind(" "), text.rfind("\n")) + 1 :]
        if word.startswith("@"):
            yield from self._paths(word[1:])

    def _paths(self, word: str) -> Iterable[Completion]:
        cwd = self._cwd()
        read, where, names = self._files
        if where != cwd or time.monotonic() - read > FRESH:
            names = files_below(cwd)
            self._files = (time.monotonic(), cwd, names)
        wanted = word.lower()
        begins = [name for name in names if name.lower().startswith(wanted)]
        holds = [name for name in names if wanted in name.lower() and not name.lower().startswith(wanted)]
        for name in islice(filter(_is_writable, [*begins, *holds]), SHOWN):
            quoted = f'"{name}"' if " " in name else name
            yield Completion(quoted, -len(word), display=shown(name))


def _is_writable(name: str) -> bool:
    """Whether a name can stand in a prompt: without ends of lines, signs that steer, and quotation marks."""
    return name.isprintable() and '"' not in name


def files_below(cwd: Path) -> list[str]:
    """Files below a folder, as git knows them, or else all but hidden ones; so many at most."""
    try:
        # a repository that somebody packed may name programs that git is to run
        command = [
            "git",
            "-C",
            str(cwd),
            "-c",
            "core.fsmonitor=false",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        done = subprocess.run(
            command, capture_output=True, timeout=2, check=True, stdin=subprocess.DEVNULL, start_new_session=True
        )
        return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0")[:FILES] if name)
    except (OSError, subprocess.SubprocessError):
        return _walked(cwd)


def _walked(cwd: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(cwd):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        found += [
            os.path.relpath(os.path.join(folder, name), cwd) for name in sorted(names) if not name.startswith(".")
        ]
        if len(found) >= FILES:
            break
    return found[:FILES]
