"""What the model reads of skills."""

from __future__ import annotations

from collections.abc import Sequence

from dsh.frontmatter import FrontMatterError, front_matter
from dsh.textfile import read_text

from .catalogue import LIMIT, Skill

__all__ = ["body_of", "content_of", "listing"]

ALL = 32 * 1024
"""Characters of all descriptions together, if that can be had with so"""
FEW = 60
"""many of each."""
INTRODUCTION = (
    "Skills are instructions for particular kinds of work. When one of these fits the task, load it with the tool "
    "`skill` before you begin, and follow it; do not guess what one says that you have not loaded."
)


def listing(skills: Sequence[Skill], most: int) -> str:
    """The skills that the model may load, each with what it is for.

    Args:
        most: characters of a description at most; where there are very many skills, fewer.
    """
    from html import escape  # which brings a table of all entities, and most people have no skills

    lines = [INTRODUCTION, "", "<available_skills>"]
    while (
        most > FEW and sum(min(len(text), most) for skill in skills for text in (skill.description, skill.when)) > ALL
    ):
        most //= 2
    for skill in skills:
        lines.append(f'<skill name="{skill.name}" source="{escape(skill.source)}">')
        lines.append(escape(_cut(skill.description, most), quote=False))
        if skill.when:
            lines.append(f"When to use it: {escape(_cut(skill.when, most), quote=False)}")
        lines.append("</skill>")
    return "\n".join([*lines, "</available_skills>"])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def body_of(skill: Skill) -> str:
    """A skill's text as it is now.

    Raises:
        OSError: its file cannot be read.
        FrontMatterError: it is no skill any more.
    """
    if skill.path is None:
        return skill.text
    found = read_text(skill.path, LIMIT)
    if found.binary:
        raise FrontMatterError("it is no text any more")
    if found.cut:
        raise FrontMatterError(f"it has {found.size} bytes by now; {LIMIT} are read at most")
    return front_matter(found.text).body


def content_of(skill: Skill) -> str:
    """A loaded skill.

    Raises:
        OSError: its file cannot be read.
        FrontMatterError: it is no skill any more.
    """
    lines = [f'<skill_content name="{skill.name}">', f"# Skill: {skill.name}", "", body_of(skill)]
    if skill.folder is not None:
        lines += ["", f"The skill's folder is {skill.folder}; relative paths in it start there."]
    return "\n".join([*lines, "</skill_content>"])
