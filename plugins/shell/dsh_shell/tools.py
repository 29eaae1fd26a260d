"""The tools: ``bash``, ``bash_output``, ``bash_kill``.

What runs commands is imported with the first of them, so that it costs nothing before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from attrs import evolve

from dsh.errors import AgentError, ToolArgsError
from dsh.jsonvalue import dumps
from dsh.messages import PluginSource
from dsh.process import Process, scrubbed_environment
from dsh.tools.tool import Tool, ToolCall, ToolResult
from dsh_shell.config import ShellConfig
from dsh_shell.errors import ShellError

if TYPE_CHECKING:
    from dsh.agents import Agent
    from dsh.harness import Harness
    from dsh_shell.executor import Executor, Owner, Prepare, Spec, Task
    from dsh_shell.spill import Outputs

__all__ = ["SECTION", "ShellTools"]

SECTION: Final = """\
Commands run with the `bash` tool, each in a new shell. A command that failed is no error of the tool: its result ends \
in a line such as `[exit code: 1]`, `[killed by SIGKILL]` or `[timed out after …]`. Look at the end of every result, \
and find out what went wrong before you go on. No such line means that the command succeeded."""

_BASH: Final = """\
Run a command with bash and get what it prints. Each call starts a fresh shell: variables, functions and `cd` of \
earlier calls are gone. Choose the directory with `workdir` instead of `cd`. There is no input and no terminal, so \
pass flags that keep programs from asking. Of long output you get the beginning and the end, with the name of a file \
that holds all of it. With `run_in_background` you get the id of a task at once, for `bash_output` to read and \
`bash_kill` to stop; use it for servers and whatever else shall go on while you work. Background tasks end with the \
session."""

_STRING: Final = {"type": "string"}
_TASK_ID: Final = {
    "type": "object",
    "properties": {"task_id": {**_STRING, "description": "The id that bash gave, as in bash-1."}},
    "required": ["task_id"],
}


class ShellTools:
    """The three tools of one harness.

    Args:
        config: the limits.
        shell: the path of the shell.
        harness: whose secrets stay out of the commands' environment, and who owns what runs for no agent.
    """

    def __init__(self, config: ShellConfig, shell: str, harness: Harness | None = None) -> None:
        self._config = config
        self._shell = shell
        self._harness = harness
        self._executor: Executor | None = None
        self.tools = (self._bash_tool(), self._output_tool(), self._kill_tool())
        self._extended: tuple[bytes, tuple[Tool, ...]] = (dumps([]), self.tools)

    @property
    def executor(self) -> Executor:
        """What runs the commands."""
        if self._executor is None:
            from dsh_shell.executor import Executor

            self._executor = Executor(self._config, self._shell, self._outputs())
        return self._executor

    def _outputs(self) -> Outputs:
        from dsh_shell.spill import Outputs

        harness, limit = self._harness, self._config.max_file_bytes
        if harness is None:
            return Outputs(limit=limit)
        return Outputs(harness.home, harness.secrets.mask_output, harness.secrets.pending, limit)

    def forget(self, session_id: str) -> None:
        """Delete the files of a session that nobody stores."""
        if self._executor is not None:
            self._executor.outputs.forget(session_id)

    async def close(self) -> None:
        """Stop what still runs.  Cancelling waits for that, the grace and a few seconds at most."""
        if self._executor is not None:
            await self._executor.close()

    def tools_of(self, agent: Agent) -> tuple[Tool, ...]:
        """The tools, ``bash`` with the arguments that plugins add for this agent."""
        from dsh_shell.hooks import Parameters, ShellHooks

        added = Parameters()
        cast(ShellHooks, agent.hook).shell_parameters(agent=agent, parameters=added)
        # The same tools as long as the same is added: each step asks for them, and compares them with the last ones.
        wanted = dumps(list(added))
        if self._extended[0] != wanted:
            bash, *rest = self.tools
            own = bash.parameters["properties"]
            assert isinstance(own, Mapping)
            properties = {**{name: schema for name, schema in added if name not in own}, **own}
            self._extended = (wanted, (evolve(bash, parameters={**bash.parameters, "properties": properties}), *rest))
        return self._extended[1]

    def _bash_tool(self) -> Tool:
        config = self._config
        limits = f"default {config.timeout_ms:.15g}, at most {config.max_timeout_ms:.15g}"
        properties = {
            "command": {**_STRING, "description": "What bash shall run."},
            "description": {**_STRING, "description": "What the command does, in 5 to 10 words, for the user to read."},
            "timeoutMs": {"type": "number", "description": f"Stop it after so many milliseconds ({limits})."},
            "workdir": {**_STRING, "description": "The directory to run in, if not the session's own."},
            "run_in_background": {"type": "boolean", "description": "Return at once and let the command run on."},
        }
        return Tool(
            name="bash",
            description=_BASH,
            parameters={"type": "object", "properties": properties, "required": ["command"]},
            execute=self.bash,
            present_call=_late("present_bash_call"),
            present_result=_late("present_bash_result"),
            effect="execute",
            subject="command",
        )

    def _output_tool(self) -> Tool:
        return Tool(
            name="bash_output",
            description="Read what a background task printed since you last read it, and whether it still runs.",
            parameters=_TASK_ID,
            execute=self.bash_output,
            present_call=_late("present_output_call"),
            present_result=_late("present_block"),
            effect="none",
        )

    def _kill_tool(self) -> Tool:
        return Tool(
            name="bash_kill",
            description="Stop a background task and all processes that it started.",
            parameters=_TASK_ID,
            execute=self.bash_kill,
            present_call=_late("present_kill_call"),
            present_result=_late("present_block"),
            effect="none",
        )

    def running_for(self, agent: Agent) -> list[Task]:
        """What runs in the background for an agent."""
        return [] if self._executor is None else self._executor.running(agent.session.id)

    # -- what they do

    async def bash(self, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
        """Run a command.  Cancelling stops it and all that it started.

        Raises:
            ToolArgsError: the arguments are wrong.
            ShellError: the command was not started.
        """
        from dsh_shell import report

        spec = self._spec(arguments, call.agent)
        prepare = self._preparing(call.agent)
        if arguments.get("run_in_background") is True:
            if call.agent is None:
                raise ShellError("run_in_background needs an agent, to own the task and to stop it", code="NO_OWNER")
            task = await self.executor.start(spec, self._owner(call.agent), prepare)
            return ToolResult(
                f"Started in the background as task {task.id}. "
                "Read its output with bash_output, stop it with bash_kill; you are told when it ends."
            )
        owner = self._owner(call.agent) if call.agent is not None or self._harness is not None else None
        outcome = await self.executor.run(spec, owner, prepare)
        return report.foreground_result(outcome)

    async def bash_output(self, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
        """Read a task.

        Raises:
            ToolArgsError: there is no id.
            ShellError: there is no such task, or it is another session's.
        """
        from dsh_shell import report

        return report.read_result(self._task(arguments, call))

    async def bash_kill(self, arguments: Mapping[str, Any], call: ToolCall) -> str:
        """Stop a task.  Cancelling waits for its end, which takes the grace and a few seconds at most.

        Raises:
            ToolArgsError: there is no id.
            ShellError: there is no such task, or it is another session's.
        """
        from dsh_shell import report

        task = self._task(arguments, call)
        if await self.executor.kill(task):
            return f"Task {task.id} was stopped. {report.status_line(task)}"
        return f"Task {task.id} was over already. {report.status_line(task)}"

    # -- parts

    def _spec(self, arguments: Mapping[str, Any], agent: Agent | None) -> Spec:
        from dsh_shell.executor import Spec

        # Only what is named here: a model's own `env`, `stdin` or `owner` has no effect.
        command = arguments.get("command")
        if not isinstance(command, str) or not command.strip():
            raise _wrong("command must be a text that is not empty")
        if "\0" in command:
            raise _wrong("command holds a NUL character, which no program takes as an argument")
        workdir = arguments.get("workdir")
        if workdir is not None and not isinstance(workdir, str):
            raise _wrong("workdir must be a text")
        return Spec(
            command=command,
            cwd=_directory(workdir, agent),
            env=self._environment(),
            timeout_ms=_timeout(arguments),
        )

    def _environment(self) -> dict[str, str]:
        # Of what is left the core takes away what holds a known secret.
        return scrubbed_environment(keep=() if self._harness is None else self._harness.secrets.config.keep_env)

    def _preparing(self, agent: Agent | None) -> Prepare:
        hook = agent.hook if agent is not None else None if self._harness is None else self._harness.hook

        async def prepare(process: Process) -> Process:
            if hook is None:
                return process
            prepared: Process = await hook.process_prepare(agent=agent, process=process, default=lambda: process)
            return prepared

        return prepare

    def _owner(self, agent: Agent | None) -> Owner:
        from dsh_shell.executor import Owner

        if agent is None:
            assert self._harness is not None
            return Owner(None, self._harness.start_soon)
        return Owner(agent.session.id, agent.start_soon, lambda task: _notify(agent, task))

    def _task(self, arguments: Mapping[str, Any], call: ToolCall) -> Task:
        task_id = arguments.get("task_id")
        if not isinstance(task_id, str) or not task_id.strip():
            raise _wrong("task_id must be the id of a background task, as in bash-1")
        task = self.executor.get(task_id)
        if task is None:
            raise ShellError(f"there is no background task {task_id}", code="UNKNOWN_TASK")
        caller = None if call.agent is None else call.agent.session.id
        if task.owner.id is not None and task.owner.id != caller:
            raise ShellError(f"the background task {task_id} belongs to another session", code="FOREIGN_TASK")
        return task


def _directory(workdir: str | None, agent: Agent | None) -> str:
    base = (None if agent is None else agent.session.header.cwd) or os.getcwd()
    return os.path.normpath(os.path.join(base, os.path.expanduser(workdir))) if workdir else base


def _timeout(arguments: Mapping[str, Any]) -> float | None:
    value, unit = arguments.get("timeoutMs"), 1.0
    if value is None:
        # Models that know other harnesses say `timeout`, in seconds or in milliseconds; no command may take
        # a thousand seconds, and nobody means less than one.
        value = arguments.get("timeout")
        if not _is_number(value):
            return None
        unit = 1000.0 if value < 1000 else 1.0
    if not _is_number(value) or not math.isfinite(value) or value <= 0:
        raise _wrong(f"timeoutMs must be a positive number of milliseconds, not {value!r}")
    return float(value) * unit


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _late(name: str) -> Any:
    """A presenter, imported when a user interface asks it."""

    def present(*arguments: Any) -> Any:
        from dsh_shell import views

        return getattr(views, name)(*arguments)

    return present


def _notify(agent: Agent, task: Task) -> None:
    from dsh_shell import report

    try:
        agent.inject(report.notice_text(task), PluginSource("shell"))
    except AgentError:
        if agent.status != "disposed":
            raise


def _wrong(violation: str) -> ToolArgsError:
    return ToolArgsError(f"the arguments do not fit: {violation}", [violation])
