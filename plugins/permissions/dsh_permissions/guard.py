"""What a harness knows of permissions: its rules, what was granted, and what was found about calls."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import evolve

from dsh import ConfigError, ToolArgsError
from dsh.paths import note_judged
from dsh.session.folder import shelves
from dsh.structure import did_you_mean
from dsh.tools.schema import check_arguments
from dsh.tools.tool import Effect, Tool, ToolCall, Tools

from .judge import Judge
from .rules import BUILT_IN, Rule, RuleSet, parse_rule
from .settings import Permissions, read_permissions
from .verdict import Mode, Verdict

if TYPE_CHECKING:
    from dsh import Agent, Harness
    from dsh.checks import Checks

__all__ = ["KNOWN", "Guard", "guard_of", "load_grammar", "only_guard", "root_of", "tools_of"]

CANARIES = RuleSet(
    [
        Rule("deny", "bash", "dsh-canary *", "bash(dsh-canary *)", BUILT_IN),
        Rule("deny", "write", "/dsh-canary", "write(/dsh-canary)", BUILT_IN),
    ]
)
"""What no mode lets pass, so that it can be shown that the guard guards."""

_guards: WeakKeyDictionary[Harness, Guard] = WeakKeyDictionary()


def guard_of(harness: Harness) -> Guard:
    """The guard of a harness, made when it is first asked for.

    Raises:
        ConfigError: a rule, a mode or a folder is wrong.
    """
    guard = _guards.get(harness)
    if guard is None:
        guard = _guards[harness] = Guard(read_permissions(harness.config), harness.home)
    return guard


async def load_grammar(call: ToolCall) -> None:
    """Load what reads commands, the first time that it is needed, while others go on; it takes a while."""
    command = call.arguments.get("command")
    if not isinstance(command, str) or _LOADED:
        return
    parsing = sys.modules.get(f"{__package__}.commands.parse")
    if parsing is not None and parsing.is_one_command(command):
        return
    import trio

    if await trio.to_thread.run_sync(_load_for, command):
        _LOADED.append(True)


def _load_for(command: str) -> bool:
    from .commandrules import CommandJudge  # noqa: F401 - it is what takes long
    from .commands.parse import grammar, is_one_command

    if is_one_command(command):
        return False
    with suppress(Exception):  # judging tells what is wrong with it
        grammar()
    return True


_LOADED: list[bool] = []


def only_guard() -> Guard | None:
    """The guard of the one harness that there is; None where there are several, or none."""
    return next(iter(_guards.values())) if len(_guards) == 1 else None


def root_of(agent: Agent) -> Agent:
    """The agent at the top, whose person is asked."""
    while agent.parent is not None:
        agent = agent.parent
    return agent


class Guard:
    """Judges the calls of one harness's agents.

    Args:
        settings: the rules and the mode.
        home: where dsh keeps its files.
    """

    def __init__(self, settings: Permissions, home: Path) -> None:
        self.settings = settings
        self.first_mode = settings.mode
        self.home = home
        self.said: set[str] = set()
        self._judges: dict[str, Judge] = {}
        self._grants: WeakKeyDictionary[Agent, list[Rule]] = WeakKeyDictionary()
        self._verdicts: WeakKeyDictionary[ToolCall, Verdict] = WeakKeyDictionary()

    @property
    def rules(self) -> RuleSet:
        """The rules in force."""
        return self.settings.rules

    @property
    def mode(self) -> Mode:
        """What becomes of calls that no rule is about."""
        return self.settings.mode

    def switch(self, mode: Mode, source: str = "chosen in the conversation") -> None:
        """Let another mode hold from the next call on, for all agents."""
        self.settings = evolve(self.settings, mode=mode, mode_source=source)
        for judge in self._judges.values():
            judge.mode = mode

    @property
    def ignored(self) -> tuple[str, ...]:
        """What folders that are not trusted would allow."""
        return self.settings.ignored

    def judge_in(self, workspace: str) -> Judge:
        """The judge for agents that work in `workspace`."""
        judge = self._judges.get(workspace)
        if judge is None:
            rules = self.rules.plus(CANARIES.rules)
            judge = Judge(rules, self.mode, workspace, self.settings.add_dirs, Path.home(), self.home)
            self._judges[workspace] = judge
        return judge

    def judge(self, agent: Agent | None, call: ToolCall) -> Verdict | None:
        """What becomes of `call`; None for a tool that the agent does not have, which nothing is run for."""
        tool = call.tool or _find(agent, call.name)
        if tool is None:
            effect, subject = KNOWN.get(call.name, (None, None))
            if agent is not None and call.name not in KNOWN and not any(self.rules.of("deny", call.name)):
                return None
        else:
            effect, subject = tool.effect, tool.subject
            if subject is not None and not isinstance(call.arguments.get(subject), str) and _is_refused(tool, call):
                return None  # the model reads what is wrong with its arguments; nobody has to be asked
        cwd = agent.session.header.cwd if agent is not None else None
        judge = self.judge_in(cwd or os.getcwd())
        # Most calls name no path, and following links to these folders takes longer than all the rest.
        judge.places.shelves = tuple if agent is None else partial(shelves, self.home, agent.session)
        grants = () if agent is None else self.grants(agent)
        verdict = judge.judge(call.name, call.arguments, effect, subject, grants)
        self._verdicts[call] = verdict
        if effect in ("read", "write") and verdict.parts:
            note_judged(call, verdict.parts[-1].text)
        return verdict

    def verdict(self, call: ToolCall) -> Verdict | None:
        """What was found about exactly this call."""
        return self._verdicts.get(call)

    def grant(self, agent: Agent, text: str) -> Rule:
        """Allow something for the session of the agent at the top, and all that it starts.

        Raises:
            ConfigError: `text` is no rule.
        """
        rule = parse_rule(text, "allow", "this session")
        self._grants.setdefault(root_of(agent), []).append(rule)
        return rule

    def grants(self, agent: Agent) -> tuple[Rule, ...]:
        """What was allowed for the agent's session."""
        return tuple(self._grants.get(root_of(agent), ()))

    def check(self, checks: Checks) -> None:
        """Find out whether commands can be parsed and are denied where they should be; and tell the mode."""
        command = "true && echo \"$(env -i ds'h-canary' x)\""
        try:
            verdict = self.judge_in("/").judge("bash", {"command": command}, "execute", "command")
        except Exception as error:
            why = f"commands cannot be parsed ({type(error).__name__}: {error}), so each of them is denied"
            checks.error("permissions", why, "install tree-sitter and tree-sitter-bash anew")
            return
        if verdict.kind != "deny":
            checks.error("permissions", "a command that must be denied is not", "install tree-sitter-bash anew")
            return
        rules = f"{len(self.rules.rules)} rule{'' if len(self.rules.rules) == 1 else 's'}"
        checks.ok("permissions", f"commands are parsed and judged; mode {self.mode}, {rules}")

    def check_names(self, agent: Agent) -> list[str]:
        """Complaints about rules that no tool of the agent's is meant by.

        Raises:
            ConfigError: a rule's name is that of a tool but for its spelling, or its pattern has nothing to match.
        """
        tools = tools_of(agent)
        missing = []
        for rule in self.rules.rules:
            if any(sign in rule.tool for sign in "*?["):
                continue
            tool = tools.get(rule.tool)
            if tool is not None and rule.pattern is not None and tool.subject is None and tool.effect == "none":
                raise ConfigError(
                    f"{rule.source}: permissions.{rule.kind}: {rule.text!r}: matches nothing, since {rule.tool} has"
                    f" no argument that rules look at; write {rule.tool}"
                )
            if tool is None and rule.tool not in KNOWN:
                hint = did_you_mean(rule.tool.lower(), tools)
                text = f"{rule.source}: permissions.{rule.kind}: {rule.text!r}: there is no tool {rule.tool}{hint}"
                if rule.tool.lower() in tools or rule.tool.lower() in KNOWN:
                    raise ConfigError(text)
                missing.append(text)
        return missing


KNOWN: dict[str, tuple[Effect | None, str | None]] = {
    "bash": ("execute", "command"),
    "read": ("read", "file_path"),
    "write": ("write", "file_path"),
    "edit": ("write", "file_path"),
    "web_fetch": ("fetch", "url"),
    "web_search": ("fetch", None),
}
"""What the tools of bundled plugins say of themselves, for calls that are judged without an agent's tools."""


def _is_refused(tool: Tool, call: ToolCall) -> bool:
    """Whether the call's arguments are none of the tool's, so that it will not run."""
    try:
        check_arguments(tool, call.arguments)
    except ToolArgsError:
        return True
    return False


def tools_of(agent: Agent) -> dict[str, Tool]:
    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    return tools.by_name()


def _find(agent: Agent | None, name: str) -> Tool | None:
    if agent is None:
        return None
    found: dict[str, Any] = tools_of(agent)
    return found.get(name)
