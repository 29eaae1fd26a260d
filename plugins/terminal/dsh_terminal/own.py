"""``!command``: the person's own commands, beside what the agent does; the model sees nothing until it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .feed import Running

if TYPE_CHECKING:
    from .talk import Talk

__all__ = ["OwnCommands"]

LINES = 200
"""Lines of output that are shown at once."""
HINT = """\
!command runs a command of your own, without a terminal of its own; /tell shows its output to the model.
Ctrl-Z is for programs that need a terminal: it brings your shell."""


@define
class OwnCommands:
    """Those of a conversation.

    Attributes:
        output: what the last one printed, to be shown to the model; empty where there is nothing.
    """

    talk: Talk
    output: str = ""
    _running: list[trio.CancelScope] = field(factory=list)

    def __bool__(self) -> bool:
        return bool(self._running)

    def cancel(self) -> None:
        """Stop those that run."""
        for scope in self._running:
            scope.cancel()

    async def run(self, command: str) -> None:
        """Run one and show what it prints.  Cancelling ends it."""
        talk = self.talk
        if not command:
            talk.screen.show(talk.painter.notice(HINT))
            return
        from .shell import run_shell

        done = None
        running = Running("", f"!{' '.join(command.split())}", 0)
        with trio.CancelScope() as scope:
            self._running.append(scope)
            talk.feed.own.append(running)
            talk.moved()
            try:
                done = await run_shell(command, talk.conversation.cwd)
            finally:
                self._running.remove(scope)
                talk.feed.own.remove(running)
                talk.moved()
        if done is None:
            talk.screen.show(talk.painter.notice(f"(stopped: {running.title})"))
            return
        talk.feed.results.add(f"!{command}", done.output)
        output = done.output.rstrip("\n")
        self.output = f"I ran `{command}` myself. It ended with code {done.code}:\n{output}"
        talk.screen.show(talk.painter.output(output or "(no output)", LINES))
        words = f"exit code {done.code}; " if done.code else ""
        talk.screen.show(talk.painter.notice(f"{words}/tell shows this to the model"))
