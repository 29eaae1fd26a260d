"""What the model reads of a compaction: the question for a summary, and the frame around it."""

from __future__ import annotations

__all__ = ["CLOSING", "OPENING", "framed", "question", "unframed"]

OPENING, CLOSING = "<compacted-summary>", "</compacted-summary>"

QUESTION = """\
Stop working on the task for this one answer. The conversation above is about to be replaced by what you write now, \
and whoever goes on will have nothing else of it: write a checkpoint from which the work can be resumed without loss. \
Answer with plain text only and call no tool.

Use exactly these eight headings, in this order, and write "none" where there is nothing:

1. Request: what the user wants, in their own words where the wording matters, with later corrections.
2. Surroundings: languages, frameworks, versions, commands to build and test, and where things are.
3. Files: each file read, made or changed, why, and what matters in it (names, signatures, short excerpts).
4. Problems: what failed, the exact message, what cured it, and what was tried in vain.
5. Open: what is still to be done.
6. Now: what was being done when this was asked.
7. Next: the single next action.
8. Decisions: choices made and why, and limits that were set by the user or by instructions.

Keep paths, names, numbers, commands and error messages exactly as they are. Write English whatever the conversation's \
language is; quotations stay as they are. Do not mention this request or that a summary is made. If the conversation \
begins with an earlier <compacted-summary>, bring it up to date and merge it; do not copy what no longer holds."""

FRAME = """\
What follows is a checkpoint that the program made: it takes the place of the messages before this point, to keep the \
conversation within the model's context window. It is background, not a message to answer; go on with the work where \
it stands, without mentioning the checkpoint.

{opening}
{summary}
{closing}"""

KEPT = """\


Kept word for word from the messages that were replaced:

{pinned}"""


def question(more: str = "", complaint: str = "") -> str:
    """The message that asks for a summary.

    Args:
        more: what a person wants kept.
        complaint: why the answer before could not be used.
    """
    text = QUESTION
    if more:
        text += f"\n\nThe user asks to take special care of this: {more}"
    if complaint:
        text += f"\n\nYour last answer could not be used: {complaint}."
    return text


def unframed(text: str) -> str:
    """A summary without tags of ours that the model put around it, and with none inside that would end the frame."""
    text = text.strip()
    if text.startswith(OPENING):
        text = text.removeprefix(OPENING).removesuffix(CLOSING).strip()
    return text.replace(CLOSING, "</ compacted-summary>")


def framed(summary: str, pinned: str) -> str:
    """The message that takes the place of what was summarised."""
    text = FRAME.format(opening=OPENING, summary=summary, closing=CLOSING)
    return text + (KEPT.format(pinned=pinned) if pinned else "")
