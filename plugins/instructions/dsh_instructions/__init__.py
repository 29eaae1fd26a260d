"""Instructions that people keep in files: AGENTS.md and CLAUDE.md; and ``@path`` in a prompt.

What holds from the start stands before the history of every request, and never changes while an agent lives; the
files of a folder below come into the history when the agent first touches something there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import Accept, Allow, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall, ToolResult
    from dsh.messages import Block, MessageSource
    from dsh.prompt import Prefix

    from .config import InstructionsConfig

_configs: WeakKeyDictionary[Harness, InstructionsConfig] = WeakKeyDictionary()

INTRODUCTION = (
    "Instructions that were written down for work in this place. Follow them. Where two disagree, the later one "
    "counts, and what the person says in the conversation counts more than any of them."
)
BELOW = "Instructions for the folder that was just looked into; they hold for everything below it."


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[instructions]``."""
    from .config import InstructionsConfig

    _configs[harness] = harness.config.section("instructions", InstructionsConfig)


@hookimpl
async def agent_session_prefix(agent: Agent, prefix: Prefix) -> None:
    """Read the files that hold from the start."""
    import trio

    from .documents import Loader, rendered, start_documents

    cwd = agent.session.header.cwd
    if cwd is None:
        return
    harness = agent.harness
    loader = Loader(_configs[harness], Path(cwd), Path.home())
    documents = await trio.to_thread.run_sync(start_documents, loader, harness.home)
    for problem in loader.problems:
        harness.warn(f"instructions: {problem}")
    if documents:
        prefix.add(f"{INTRODUCTION}\n\n{rendered(documents)}", order=10)


@hookimpl  # which waits for nothing: a coroutine with its deadline costs more than what is done for most calls
def tools_post_execute(agent: Agent | None, call: ToolCall, result: ToolResult) -> Accept | None:
    """Add the files of a folder that was touched for the first time."""
    if agent is None or result.is_error or not _configs[agent.harness].nested:
        return None
    cwd = agent.session.header.cwd
    if cwd is None:
        return None
    from .nested import NESTED, Nested, touched

    paths = touched(call, Path(cwd))
    if not paths:
        return None
    nested = agent.stash.get(NESTED, None)
    if nested is None:
        nested = agent.stash[NESTED] = Nested(_configs[agent.harness], Path(cwd), Path.home())
    folders = list(dict.fromkeys(folder for path in paths for folder in nested.folders(path)))
    if not folders:
        return None
    from .documents import rendered

    documents, problems = nested.load(agent, folders, call.turn, call.step)
    for problem in problems:
        agent.harness.warn(f"instructions: {problem}")
    return Accept(context=f"{BELOW}\n\n{rendered(documents)}") if documents else None


@hookimpl(deadline=None)  # a person may be asked whether a file may be read
async def agent_prompt_submit(agent: Agent, content: tuple[Block, ...], source: MessageSource) -> Allow | None:
    """Attach the files that the person named."""
    from dsh.messages import UserSource, text_of

    cwd = agent.session.header.cwd
    if cwd is None or not isinstance(source, UserSource) or not _configs[agent.harness].attach:
        return None
    text = text_of(content)
    if "@" not in text:
        return None
    from .attach import attachments, mentions

    named = mentions(text, Path(cwd))
    if not named:
        return None

    async def judge(path: str) -> str | None:
        return await _refusal(agent, path)

    found = await attachments(named, judge, _configs[agent.harness].max_attachment_bytes)
    return Allow(context="\n\n".join(found))


async def _refusal(agent: Agent, path: str) -> str | None:
    """Ask those who judge tools' calls, as if the model read the file; why not, if it may not be read."""
    from dsh import ToolCall

    from .attach import READING

    place = agent.session.open_turn or 0
    call = ToolCall(f"attach-{path}", READING.name, {"file_path": path}, agent, place, 0, READING)
    verdict = await agent.hook.tools_pre_execute(agent=agent, call=call)
    if isinstance(verdict, Allow):
        return None
    return getattr(verdict, "reason", None) or "it may not be read"
