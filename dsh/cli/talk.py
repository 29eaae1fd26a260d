"""``dsh`` and ``dsh "task"``: a conversation, held by whichever plugin answers the hook ``dsh_conversation``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio
from attrs import define, evolve

from ..conversation import Conversation
from ..errors import AgentError, ConfigError
from ..terminal import person_present
from . import report
from .opening import Opening
from .prompt import read_prompt
from .run import check_flags, started
from .start import Start, opened

if TYPE_CHECKING:
    from ..agents import AgentHandle
    from ..harness import Harness

__all__ = ["run"]

PASSED_ON = ("cd", "config", "profile", "plugin", "no_plugin", "safe_mode", "trust")
"""Flags that a subcommand beside the conversation is run with, too."""


def run(args: argparse.Namespace) -> int:
    """Open a conversation and hold it until the person leaves."""
    check_flags(args, may_choose=True)
    if args.output_format != "text":
        raise ConfigError("--output-format is for -p; a conversation is for people", code="USAGE")
    start = started(args)
    prompt = " ".join(args.prompt)
    if prompt.strip() == "-":
        prompt = read_prompt(args.prompt, start.warn)
    try:
        return trio.run(_Talk(args, start, prompt).main)
    except BaseException as error:
        failed = error
    # Not while it is handled: what fails while a person is asked would name it as a cause.
    from .first import answered

    try:
        again = answered(failed, start, lambda: started(args))
        return report(failed, debug=args.debug)[0] if again is None else trio.run(_Talk(args, again, prompt).main)
    except BaseException as error:
        return report(error, debug=args.debug)[0]


@define
class _Talk:
    args: argparse.Namespace
    start: Start
    prompt: str
    conversation: Conversation | None = None

    def warn(self, message: str) -> None:
        """Tell the person, wherever they look."""
        tell = None if self.conversation is None else self.conversation.tell
        if tell is not None and not self.args.quiet:
            tell(message)
        else:
            self.start.warn(message)

    async def main(self) -> int:
        opening = Opening(self.args, self.start, one_turn=False)
        plugins: dict[str, object] = {"cli.opening": opening}
        if self.args.debug:
            from .debug import RequestDigests

            plugins["cli.debug"] = RequestDigests()
        async with opened(evolve(self.start, warn=self.warn), plugins, attended=person_present()) as harness:
            try:
                handle = await opening.first(harness)
            except AgentError as error:  # there is no loop
                raise ConfigError(error.message, code=error.code) from error
            opening.say_first(harness)
            opening.check_tools(handle.agent)
            if problem := opening.keyless(harness):
                self.start.warn(problem)

            async def change(session_id: str | None, *, fork: bool = False, turn: int | None = None) -> AgentHandle:
                return await opening.open(harness, session_id, fork, turn)

            conversation = Conversation(harness, handle, self.prompt, self.start.cwd, change, self.shell)
            self.conversation = conversation
            try:
                code = await self._held(harness, conversation)
            finally:
                conversation.tell = None
                with trio.CancelScope(shield=True):
                    await conversation.handle.dispose()
        return code

    async def _held(self, harness: Harness, conversation: Conversation) -> int:
        code = await harness.hook.dsh_conversation(harness=harness, conversation=conversation)
        if code is None:
            raise ConfigError(
                'nobody holds conversations here: the plugin terminal is not loaded; dsh -p "..." does a task'
            )
        return code

    async def shell(self, words: Sequence[str]) -> str:
        """Run ``dsh words`` with the settings of this program; what it prints, and what it complains of."""
        command = [sys.executable, "-m", "dsh", *words]
        for name in PASSED_ON:
            value = getattr(self.args, name)
            flag = f"--{name.replace('_', '-')}"
            if value is True:
                command.append(flag)
            elif isinstance(value, list):
                command += [part for item in value for part in (flag, item)]
            elif value:
                command += [flag, str(self.start.cwd) if name == "cd" else value]
        done = await trio.run_process(
            command, stdin=b"", capture_stdout=True, capture_stderr=True, check=False, start_new_session=True
        )
        return (done.stdout + done.stderr).decode("utf-8", "replace").rstrip()
