"""The first start: no model can be asked yet, and somebody is there to say which.

At most three questions: which service, its key, and where the service has none by itself, which of its
models.  What is answered is kept in ``$DSH_HOME/config.toml`` and ``credentials.toml``, so that nothing is
asked a second time.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from ..credentials import FILE, read_credentials, write_credentials
from ..errors import ConfigError, DshError, LlmError
from ..layers import read_bytes
from ..llm.http.keys import check_key
from ..structure import did_you_mean
from ..terminal import TTY, person_present, visible
from ..textfile import replace_file
from ..tomledit import with_top
from .auth import ask_key, keep_key
from .catalogue import SECONDS
from .choice import Service, Unsettled
from .models import LOCAL
from .start import Start, opened

if TYPE_CHECKING:
    from ..harness import Harness

__all__ = ["answered"]

NUMBERED = 5
INSTALL = "pip install 'dsh-harness[local]'"


def answered(error: BaseException, start: Start, again: Callable[[], Start]) -> Start | None:
    """Ask which model to use, if that is what `error` is about and somebody is there.

    Args:
        again: reads the settings anew.

    Returns:
        What to start with instead; None where nothing was asked.

    Raises:
        ConfigError: the person settled on nothing, or the answers cannot be kept.
        KeyboardInterrupt: instead of an answer.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if not isinstance(error, Unsettled) or not error.services or not person_present():
        return None
    if not _Questions(start, error.services).ask():
        raise ConfigError("no model is set up yet", code="NO_MODEL")
    return again()


class _Questions:
    def __init__(self, start: Start, found: Sequence[Service]) -> None:
        self.start = start
        keyed = [service for service in found if service.needs_key]
        self.first, self.others = keyed[:NUMBERED], keyed[NUMBERED:]
        self.others += [service for service in found if service not in keyed and service.name != LOCAL]
        self.local = next((service for service in found if service.name == LOCAL), None)
        self.all = {service.name: service for service in found}

    def ask(self) -> bool:
        """Whether a model was settled on, and kept."""
        service = self._service()
        if service is None:
            return False
        if service.name == LOCAL and not service.ready:
            _say(f"It comes with a package of about 500 MB; then start dsh again:\n\n  {INSTALL}\n")
            return False
        if service.needs_key and not service.ready and not self._key(service):
            return False
        model = service.model or self._model(service)
        if model is None:
            return False
        self._keep(LOCAL if service.name == LOCAL else f"{service.name}/{model}")
        return True

    def _service(self) -> Service | None:
        lines = ["", "No model is set up yet. Whom shall dsh ask?", ""]
        lines += [f"  {number}  {service.title}" for number, service in enumerate(self.first, 1)]
        chosen: dict[str, Service] = {str(number): service for number, service in enumerate(self.first, 1)}
        if self.local is not None:
            number = str(len(self.first) + 1)
            chosen[number] = self.local
            state = "it is here" if self.local.ready else "500 MB to install"
            lines.append(f"  {number}  a small model on this machine, to look around; {state}")
        if self.others:
            lines.append(f"     or by name: {', '.join(service.name for service in self.others)}")
        _say("\n".join([*lines, ""]))
        while True:
            answer = _line("Number or name (Enter leaves): ").lower()
            if not answer:
                return None
            service = chosen.get(answer) or self.all.get(answer)
            if service is not None:
                return service
            hint = did_you_mean(answer, self.all) or f"; type a number from 1 to {len(chosen)}, or one of the names"
            _say(f"There is no {answer}{hint}")

    def _key(self, service: Service) -> bool:
        """Whether there is a key now."""
        variable = service.variable or ""
        where = f", from {service.keys_at}" if service.keys_at else ""
        _say(
            f"\nThe key for {service.title}{where}. It is not shown while you type or paste it, and kept in "
            f"{_short(self.start.home / FILE)} for you alone to read. Enter alone leaves; set {variable} yourself then."
        )
        while True:
            key, problem = check_key("this", ask_key("Key: "))
            if key is None:
                if problem is not None and not problem.startswith("there is no key"):
                    _say("That is no key: there is a space, or a letter outside of ASCII in it.")
                    continue
                _say(f"\n  export {variable}=...\n\nand start dsh again.")
                return False
            before = read_credentials(self.start.home).keys
            keep_key(self.start, variable, key)
            refusal = self._refusal(service)
            if refusal is None:
                return True
            write_credentials(self.start.home, before)
            _say(f"{refusal}\nIt was not kept; try again.")

    def _refusal(self, service: Service) -> str | None:
        """What the service says of a key that it does not take; None if it takes it, or does not tell."""
        try:
            if self._listed(service):
                _say(f"{service.title} accepts it.")
        except LlmError as error:
            if error.code == "AUTH":
                return error.message
            _say(f"Whether the key is good could not be asked: {error.message}")
        return None

    def _model(self, service: Service) -> str | None:
        try:
            names = self._listed(service)
        except LlmError as error:
            _say(f"{error.message}")
            return None
        if names:
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            _say(f"\n{service.title} has: {shown}")
        return _line(f"Which of its models{' (Enter leaves)' if not names else f' (Enter takes {names[0]})'}: ") or (
            names[0] if names else None
        )

    def _listed(self, service: Service) -> list[str]:
        """The models that a service says it has.

        Raises:
            LlmError: it does not answer, or refuses the key.
        """

        async def main() -> list[str]:
            async with opened(evolve(self.start, warn=_nothing)) as harness:
                return await _names(harness, service.name)

        return trio.run(main)

    def _keep(self, model: str) -> None:
        """Write the model into the settings."""
        from .init import USER, write_new

        path = self.start.home / "config.toml"
        present = read_bytes(path, str(path))
        text = with_top(USER if present is None else present.decode("utf-8-sig"), "model", model)
        if text is None:
            raise ConfigError(f"{path} cannot be changed without losing some of it; write into it: model = {model!r}")
        if present is None:
            write_new(path, text)
        else:
            replace_file(path, text.encode())
        _say(f"\nFrom now on {model} is asked; `model` in {_short(path)} says so.\n")


async def _names(harness: Harness, provider: str) -> list[str]:
    from .catalogue import problem_of

    try:
        problem = problem_of(harness.llm.adapters[provider])
        if problem is not None:
            raise LlmError(problem, code="CONFIG")
        with trio.move_on_after(SECONDS):
            return [model.name for model in await harness.models.listed(provider) or ()]
    except LlmError as error:
        raise LlmError(harness.secrets.mask(error.message), code=error.code) from None
    except DshError as error:
        raise LlmError(harness.secrets.mask(error.message), code="CONFIG") from None
    raise LlmError(f"{provider} does not answer", code="TIMEOUT")


def _say(text: str) -> None:
    with open(TTY, "wb", buffering=0) as terminal:
        width = max(20, os.get_terminal_size(terminal.fileno()).columns or 80)
        lines = [part for line in visible(text).split("\n") for part in _wrapped(line, width) or [""]]
        terminal.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))


def _wrapped(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    if re.match(r" +\d+  ", line):
        indent += "   "
    return textwrap.wrap(line, width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _short(path: Path) -> str:
    """A path, with ``~`` for the person's home."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _line(question: str) -> str:
    """What a person types; an end of input is an empty answer."""
    with open(TTY, "rb", buffering=0) as source, open(TTY, "wb", buffering=0) as shown:
        shown.write(question.encode())
        return source.readline(200).decode("utf-8", "replace").strip()


def _nothing(message: str) -> None:
    pass
