"""What the model is told of the sandbox, and how it asks for one command outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from dsh.decisions import Ask, Deny
from dsh.errors import ConfigError
from dsh_sandbox.box import Sandbox
from dsh_sandbox.config import MODES
from dsh_sandbox.hooks import SandboxHooks

if TYPE_CHECKING:
    from dsh.agents import Agent
    from dsh.decisions import ToolDecision
    from dsh.tools.tool import ToolCall

__all__ = ["add_parameters", "asked", "denied", "learn_default", "section"]

_READ_ONLY: Final = "They cannot write anything but temporary files, in $TMPDIR, which are deleted in the end."
_WRITE: Final = (
    "They can write in the working directory{more} and, temporary files, in $TMPDIR, which is theirs alone and deleted "
    "in the end; all else is read-only, and so are .dsh and git's hooks and settings. Of what other tools keep in /tmp "
    "they may see nothing: use the working directory."
)
_COMMON: Final = (
    "Credentials, such as ~/.ssh, cannot be read, and other programs cannot be reached. A command that fails for this "
    "often says `Read-only file system` or `Permission denied`"
)
_ASK: Final = (
    "Do not look for a way around it. Where a command must do more, call bash with `sandbox` set to `outside` and a "
    "`justification`: a person is asked for this one call, and may say no."
)
_NEVER: Final = "Do not look for a way around it; say what you could not do."


async def learn_default(box: Sandbox) -> None:
    """Ask for the mode that holds where the settings name none.

    Raises:
        ConfigError: there is no such mode.
    """
    mode = await cast(SandboxHooks, box.harness.hook).sandbox_default(harness=box.harness)
    if mode is None:
        return
    if mode not in MODES:
        raise ConfigError(f"there is no mode {mode!r} of the sandbox; there are {', '.join(MODES)}")
    box.default = mode


def section(box: Sandbox, agent: Agent) -> str:
    """The section of the system prompt; empty where nothing is confined."""
    mode = box.active(agent)
    if mode is None:
        return ""
    more = [*box.added_folders(), *box.config.writable]
    files = _READ_ONLY if mode == "read-only" else _WRITE.format(more=f", in {', '.join(more)}" if more else "")
    net = "." if box.config.network == "on" else ". There is no network, nor any host or port of this machine."
    return f"Commands run in a sandbox ({mode}). {files} {_COMMON}{net} {_ASK if _may_ask(box) else _NEVER}"


def add_parameters(box: Sandbox, agent: Agent, parameters: Any) -> None:
    """Add what asks for a command outside to the arguments of ``bash``."""
    if box.active(agent) is None or not _may_ask(box):
        return
    parameters.add(
        "sandbox",
        {
            "type": "string",
            "enum": ["outside"],
            "description": "Only for a command that the sandbox keeps from working: ask to run this one outside of it.",
        },
    )
    parameters.add(
        "justification",
        {"type": "string", "description": "With `sandbox`: why it must be outside, in a sentence for a person."},
    )


def denied(box: Sandbox | None, call: ToolCall) -> Deny | None:
    """Why a call that names the sandbox may not be, if so."""
    if call.name != "bash":
        return None  # another tool's own argument
    wanted, why = call.arguments.get("sandbox"), call.arguments.get("justification")
    if wanted != "outside":
        return Deny(f"sandbox can be `outside` or be left out, not {wanted!r:.80}")
    if not isinstance(why, str) or not why.strip():
        return Deny("a command outside of the sandbox needs a `justification`: why it must be there, for a person")
    if box is None or box.modes_of(call.agent)[0] == "danger-full-access" or _may_ask(box):
        return None
    return Deny(
        "no command may run outside of the sandbox here"
        + (": with --permission-mode bypass nobody would be asked" if box.config.outside == "ask" else "")
    )


def asked(box: Sandbox, call: ToolCall, verdict: ToolDecision) -> ToolDecision:
    """The verdict on a call that names the sandbox: a question, unless it is a denial."""
    if call.name != "bash" or isinstance(verdict, Deny) or box.modes_of(call.agent)[0] == "danger-full-access":
        return verdict
    why = " ".join(str(call.arguments.get("justification")).split())
    also = f" (and: {verdict.reason})" if isinstance(verdict, Ask) and verdict.reason else ""
    return Ask(f"run outside of the sandbox: {why}{also}")


def _may_ask(box: Sandbox) -> bool:
    """Whether there may be somebody to ask: in the mode that asks nobody, the sandbox is all there is."""
    config = box.harness.config
    said = [layer.data for layer in config.layers] if config.layers else [config.tables]
    modes = [table.get("mode") for data in said if isinstance(table := data.get("permissions"), dict)]
    return box.config.outside == "ask" and "bypass" not in modes
