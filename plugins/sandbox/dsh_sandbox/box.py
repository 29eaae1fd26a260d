"""The sandbox of one harness: what there is to confine commands with, and how a command is confined."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import trio
from attrs import evolve, frozen

from dsh.errors import AgentError, ToolError
from dsh.process import Process
from dsh.session.folder import shelves
from dsh_sandbox import bubblewrap
from dsh_sandbox.config import Mode, SandboxConfig, strictest
from dsh_sandbox.confined import Confined
from dsh_sandbox.events import SandboxExempt
from dsh_sandbox.folder import Folder, remove_abandoned
from dsh_sandbox.hooks import Modes, SandboxHooks
from dsh_sandbox.policy import Policy, is_under, policy_for

if TYPE_CHECKING:
    from dsh.agents import Agent
    from dsh.harness import Harness

__all__ = ["OUTSIDE", "Backend", "Sandbox", "SandboxUnavailable"]

OUTSIDE: ContextVar[bool] = ContextVar("outside of the sandbox", default=False)
"""Set while a call runs that a person let out of the sandbox."""

HELPER: Final = str(Path(__file__).resolve().with_name("landlock.py"))


class SandboxUnavailable(ToolError):
    """A sandbox was asked for and cannot be had, so the command does not run."""

    default_code = "SANDBOX_UNAVAILABLE"


@frozen
class Backend:
    """What confines commands.

    Attributes:
        name: ``bubblewrap`` or ``landlock``.
        program: bubblewrap's path; Python's for the helper.
        flags: what bubblewrap is given in any case.
        version: of Landlock.
        filtered: bubblewrap takes a seccomp filter.
        lacks: what it does not keep commands from, in words.
    """

    name: str
    program: str
    flags: tuple[str, ...] = ()
    version: int = 0
    filtered: bool = False
    lacks: tuple[str, ...] = ()


class Sandbox:
    """What confines the commands of one harness.  Nothing is tried before the first of them."""

    def __init__(self, harness: Harness, config: SandboxConfig) -> None:
        self.harness = harness
        self.config = config
        self.default: Mode = "danger-full-access"
        self.exempt: list[tuple[str, str]] = []
        self._found: tuple[Backend | None, str] | None = None
        self._folder: Folder | None = None
        self._lock = trio.Lock()
        self._told: set[str] = set()

    # -- what holds

    @property
    def base(self) -> Mode:
        """The mode of the settings, or the default."""
        return cast(Mode, self.config.mode) if self.config.mode is not None else self.default

    def modes_of(self, agent: Agent | None) -> tuple[Mode, bool]:
        """The mode of an agent's commands, and whether it was asked for, so that it must be had."""
        added = [mode for each in _line(agent) for mode in self._added(each)]
        mode = strictest([self.base, *added])
        return mode, self.config.mode is not None or mode != self.base

    def _added(self, agent: Agent) -> list[Mode]:
        modes = Modes()
        cast(SandboxHooks, agent.hook).sandbox_modes(agent=agent, modes=modes)
        return list(modes)

    def active(self, agent: Agent | None) -> Mode | None:
        """The mode that confines an agent's commands; None where nothing does."""
        mode, _ = self.modes_of(agent)
        return None if mode == "danger-full-access" or not self.possible() else mode

    def possible(self) -> bool:
        """Whether there is something to confine with, as far as can be told without trying."""
        if self._found is not None:
            return self._found[0] is not None
        wanted = self.config.backend
        if wanted != "landlock" and bubblewrap.find() is not None:
            return True
        from dsh_sandbox import landlock  # with ctypes, which a start need not wait for

        return wanted != "bubblewrap" and landlock.version() > 0 and landlock.filters()

    async def backend(self) -> tuple[Backend | None, str]:
        """What confines commands here, found by trying, once; None, and why."""
        async with self._lock:
            if self._found is None:
                await trio.to_thread.run_sync(remove_abandoned)
                folder = self._own_folder()
                self._found = await trio.to_thread.run_sync(find_backend, self.config.backend, folder.room("probe"))
                backend = self._found[0]
                if backend is not None:
                    hooks = cast(SandboxHooks, self.harness.hook)
                    hooks.sandbox_ready(harness=self.harness, text=f"commands run in a sandbox of {describe(backend)}")
            return self._found

    def _own_folder(self) -> Folder:
        if self._folder is None:
            self._folder = Folder()
        return self._folder

    def probe_folder(self) -> str:
        """A directory to try things with."""
        return self._own_folder().room("probe")

    # -- a command

    async def confine(self, agent: Agent | None, process: Process) -> Process:
        """`process` as it may run.

        Raises:
            SandboxUnavailable: a sandbox was asked for and cannot be had.
            ToolError: a process of an agent claims to be a part of the program.
        """
        if process.trusted:
            self._exempted(agent, process)
            return process
        mode, asked = self.modes_of(agent)
        if mode == "danger-full-access" or OUTSIDE.get():
            return process
        backend, why = await self.backend()
        if backend is None:
            if asked:
                raise SandboxUnavailable(
                    f"the command was not run: it must run in a sandbox ({mode}), and none can be had here: {why}"
                )
            self._tell_once(
                f"commands run WITHOUT a sandbox: none can be had here: {why} "
                "(-s workspace-write refuses to go on without, -s danger-full-access says that none is wanted)"
            )
            return process
        policy = self._policy(agent, process, mode)
        if backend.name == "landlock" and backend.lacks:
            self._tell_once(f"the sandbox is Landlock's, which is not all-round: {'; '.join(backend.lacks)}")
        return wrap(backend, policy, process, self._own_folder().nothing, self.harness.warn)

    def _policy(self, agent: Agent | None, process: Process, mode: Mode) -> Policy:
        top = list(_line(agent))[-1].id if agent is not None else ""
        return policy_for(
            self.config,
            mode,
            cwd=process.cwd,
            workspace=(None if agent is None else agent.session.header.cwd) or process.cwd,
            home=str(self.harness.home),
            temp=self._own_folder().room(f"agent {top}"),
            writable=self.added_folders(),
            readable=(*process.readable, *programs(process.env.get("PATH", "")), *self._own_files(agent)),
        )

    def _own_files(self, agent: Agent | None) -> tuple[str, ...]:
        """The directories of dsh's that hold what tools said to this agent at length, for it to look through."""
        return () if agent is None else shelves(self.harness.home, agent.session)

    def added_folders(self) -> list[str]:
        """The directories of ``--add-dir`` and of the settings of permissions that may be believed."""
        config = self.harness.config
        trusted = [layer.data for layer in config.layers if layer.trusted]
        found: list[str] = []
        for data in trusted if config.layers else [config.tables]:
            table = data.get("permissions", {})
            named = table.get("add_dirs", []) if isinstance(table, dict) else []
            found += [folder for folder in named if isinstance(folder, str)]
        return found

    def _exempted(self, agent: Agent | None, process: Process) -> None:
        """Note that a part of the program runs outside."""
        if agent is not None:
            raise ToolError(
                f"{process.purpose or process.argv[0]} was not started: what is started for an agent cannot be left "
                "out of the sandbox",
                code="SANDBOX_TRUST",
            )
        self.exempt.append((process.purpose, process.argv[0]))
        for other in self.harness.agents.list():
            turn = other.session.open_turn
            if turn is not None:
                other.session.append(SandboxExempt(turn, process.purpose, process.argv[0]))

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.harness.warn(text)

    def forget(self, agent: Agent) -> None:
        """Delete the temporary files of the agent's commands, in a task; what cannot be deleted goes with the rest."""
        if self._folder is not None:
            with suppress(AgentError, RuntimeError):
                self.harness.start_soon(trio.to_thread.run_sync, self._folder.clear, f"agent {agent.id}")

    def close(self) -> None:
        """Delete the commands' temporary files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()


def _line(agent: Agent | None) -> Iterator[Agent]:
    """An agent and those above it."""
    while agent is not None:
        yield agent
        agent = agent.parent


def programs(path: str) -> list[str]:
    """Where programs are that would be out of sight with the machine's temporary directory, as in a CI's checkout."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    homes = [os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder for folder in folders]
    hidden = ("/tmp", "/var/tmp", "/run", "/var/run")
    return [
        home
        for home in dict.fromkeys([*homes, sys.prefix, sys.base_prefix])
        if home not in hidden and any(is_under(os.path.realpath(home), folder) for folder in hidden)
    ]


def find_backend(wanted: str, temp: str) -> tuple[Backend | None, str]:
    """What confines commands on this machine; None, and why not."""
    reasons = []
    if wanted in ("auto", "bubblewrap"):
        program = bubblewrap.find()
        if program is None:
            reasons.append("bubblewrap (bwrap) is not installed")
        else:
            flags, why = bubblewrap.flags_that_work(program, temp)
            if flags is not None:
                filtered = bubblewrap.filters(program, flags, temp)
                return Backend("bubblewrap", program, flags, filtered=filtered, lacks=_uncovered(filtered)), ""
            reasons.append(why)
    if wanted in ("auto", "landlock"):
        from dsh_sandbox import landlock

        version = landlock.version()
        if version and landlock.filters():
            return Backend("landlock", sys.executable, version=version, lacks=tuple(_lacks(version))), ""
        what = "of this machine's kind Landlock alone keeps too little" if version else "the kernel offers no Landlock"
        reasons.append(what)
    return None, "; ".join(reasons)


def _uncovered(filtered: bool) -> tuple[str, ...]:
    return (
        () if filtered else ("sockets that are of no network, as those of a virtual machine, and keyrings are reached",)
    )


def _lacks(version: int) -> Iterator[str]:
    yield "git's hooks and settings and .dsh can be written"
    yield "modes, times and owners of the person's other files can be changed"
    yield "other programs are seen"
    if version < 3:
        yield "other files can be cut short"
    if version < 6:
        yield "other programs can be stopped"


def describe(backend: Backend) -> str:
    """A backend, for people."""
    return f"Landlock, version {backend.version}" if backend.name == "landlock" else f"bubblewrap ({backend.program})"


def wrap(
    backend: Backend, policy: Policy, process: Process, nothing: str, tell: Callable[[str], None] = print
) -> Process:
    """`process` inside of `backend`; `tell` hears what the person should know when it has ended."""
    code = bubblewrap.filter_for(policy) if backend.filtered else b""
    confined = Confined(backend.name, policy, tell, code) if process.managed else None
    if backend.name == "landlock":
        report = "-1" if confined is None else str(confined.fds[0])
        fields = [f"cwd={policy.cwd}", f"temp={policy.temp}", *(["network=on"] if policy.network else [])]
        fields += [f"{name}={path}" for name in ("writable", "hidden", "readable") for path in getattr(policy, name)]
        fields += [] if process.managed else ["new_session=on"]
        argv = [backend.program, "-I", "-S", HELPER, report, *fields, "--", *process.argv]
        env = {name: value for name, value in process.env.items() if name not in bubblewrap.UNSET}
        env["TMPDIR"] = policy.temp
    else:
        more = list(bubblewrap.ALONE) if confined is None else ["--json-status-fd", str(confined.fds[0])]
        if code:
            more += ["--seccomp", "4" if confined is None else str(confined.filter)]
        argv = bubblewrap.arguments(
            backend.program, backend.flags, policy, process.argv, nothing=nothing, named=process.cwd, more=more
        )
        if confined is None:
            argv = [*bubblewrap.kept_by(code), *argv]
        env = bubblewrap.environment(process.env, policy)
    return evolve(process, argv=tuple(argv), env=env, confinement=confined)
