"""dsh: an agent harness in which everything is a plugin.

A plugin is a module with functions marked by `hookimpl`, found through an entry point.  This is
all of one that keeps the model away from a command:

    # dsh_nosudo.py
    from dsh import Deny, hookimpl

    @hookimpl
    def tools_pre_execute(call):
        if call.name == "bash" and "sudo" in call.arguments["command"]:
            return Deny("no sudo here")

    # pyproject.toml
    [project]
    name = "dsh-nosudo"
    version = "1.0"
    dependencies = ["dsh-harness"]
    [project.entry-points.dsh]
    nosudo = "dsh_nosudo"

``pip install .`` and it is heard; ``dsh plugins`` lists it.  The hooks, with what each gets and
answers, are the methods of `dsh.hookspecs.Hooks`; ``docs/hooks.md`` shows a plugin for every one.

A program runs an agent of its own like this:

    async with dsh.open_harness() as harness:
        handle = harness.create_agent(options=dsh.AgentOptions(model="deepseek/deepseek-v4-flash"))
        result = await handle.agent.run("Say hello")
        print(result.text)

The names below are public; what they are imported from may change.  They are imported when first
used, so that ``import dsh`` costs next to nothing.
"""

import sys


def _leave_working_directory() -> None:
    """Take off the path what ``python -m dsh`` put there: what was cloned could stand in for any module."""
    started = getattr(sys, "argv", [])[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in ("dsh", "-mdsh")
    if started and not sys.flags.safe_path:
        del sys.path[0]


_leave_working_directory()  # importing anything else, even __future__, would be too late

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    from .agents import Agent, AgentFactory, AgentHandle, AgentOptions, AgentRequest, RunResult
    from .config import Config
    from .decisions import Accept, Allow, Ask, Block, Continue, Deny, GiveUp, NextStep, Retry, Stop
    from .errors import (
        AgentError,
        ConfigError,
        CorruptSession,
        DshError,
        HookError,
        LimitError,
        LlmError,
        PluginError,
        PromptError,
        SessionError,
        SessionLocked,
        SessionNotFound,
        ToolArgsError,
        ToolError,
        ToolNotFoundError,
    )
    from .harness import Harness, open_harness
    from .hooks.markers import gate, hookimpl, hookspec
    from .hookspecs import Hooks
    from .llm.adapter import Adapter, Request
    from .messages import (
        USER,
        CallConfig,
        FinishReason,
        HookContext,
        Message,
        OtherBlock,
        PluginSource,
        Reasoning,
        Text,
        TokenUsage,
        ToolCallBlock,
        ToolResultBlock,
        ToolSchema,
        UserSource,
    )
    from .process import Process
    from .session.log import Session
    from .stash import Stash, StashKey
    from .tools.restrict import restrict_tools, tool_allowed
    from .tools.signature import tool
    from .tools.tool import Tool, ToolCall, ToolErrorInfo, ToolResult

_HOMES = {
    "agents": ("Agent", "AgentFactory", "AgentHandle", "AgentOptions", "AgentRequest", "RunResult"),
    "config": ("Config",),
    "decisions": ("Accept", "Allow", "Ask", "Block", "Continue", "Deny", "GiveUp", "NextStep", "Retry", "Stop"),
    "errors": (
        "AgentError",
        "ConfigError",
        "CorruptSession",
        "DshError",
        "HookError",
        "LimitError",
        "LlmError",
        "PluginError",
        "PromptError",
        "SessionError",
        "SessionLocked",
        "SessionNotFound",
        "ToolArgsError",
        "ToolError",
        "ToolNotFoundError",
    ),
    "harness": ("Harness", "open_harness"),
    "hooks.markers": ("gate", "hookimpl", "hookspec"),
    "hookspecs": ("Hooks",),
    "llm.adapter": ("Adapter", "Request"),
    "messages": (
        "USER",
        "CallConfig",
        "FinishReason",
        "HookContext",
        "Message",
        "OtherBlock",
        "PluginSource",
        "Reasoning",
        "Text",
        "TokenUsage",
        "ToolCallBlock",
        "ToolResultBlock",
        "ToolSchema",
        "UserSource",
    ),
    "process": ("Process",),
    "session.log": ("Session",),
    "stash": ("Stash", "StashKey"),
    "tools.restrict": ("restrict_tools", "tool_allowed"),
    "tools.signature": ("tool",),
    "tools.tool": ("Tool", "ToolCall", "ToolErrorInfo", "ToolResult"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "USER",
    "Accept",
    "Adapter",
    "Agent",
    "AgentError",
    "AgentFactory",
    "AgentHandle",
    "AgentOptions",
    "AgentRequest",
    "Allow",
    "Ask",
    "Block",
    "CallConfig",
    "Config",
    "ConfigError",
    "Continue",
    "CorruptSession",
    "Deny",
    "DshError",
    "FinishReason",
    "GiveUp",
    "Harness",
    "HookContext",
    "HookError",
    "Hooks",
    "LimitError",
    "LlmError",
    "Message",
    "NextStep",
    "OtherBlock",
    "PluginError",
    "PluginSource",
    "Process",
    "PromptError",
    "Reasoning",
    "Request",
    "Retry",
    "RunResult",
    "Session",
    "SessionError",
    "SessionLocked",
    "SessionNotFound",
    "Stash",
    "StashKey",
    "Stop",
    "Text",
    "TokenUsage",
    "Tool",
    "ToolArgsError",
    "ToolCall",
    "ToolCallBlock",
    "ToolError",
    "ToolErrorInfo",
    "ToolNotFoundError",
    "ToolResult",
    "ToolResultBlock",
    "ToolSchema",
    "UserSource",
    "gate",
    "hookimpl",
    "hookspec",
    "open_harness",
    "restrict_tools",
    "tool",
    "tool_allowed",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'dsh' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
