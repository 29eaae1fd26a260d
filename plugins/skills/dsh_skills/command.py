"""``dsh skills``: which skills hold here, and what is wrong with some."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import attrs
import trio

from dsh import Config, ConfigError, open_harness
from dsh.frontmatter import FrontMatterError
from dsh.jsonvalue import dumps

from .catalogue import Catalogue, Skill, collect
from .service import SkillsConfig, SkillService
from .words import body_of

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh skills``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this skill's text")
    parser.add_argument("--json", action="store_true", help="print JSON, a line each")


def run(args: argparse.Namespace, config: Config) -> int:
    """Print the list, or one skill.

    Raises:
        ConfigError: there is no skill of that name, or it cannot be read.
    """
    return trio.run(_run, args, config, str(Path(args.cd or ".").resolve()))


async def _run(args: argparse.Namespace, config: Config, cwd: str) -> int:
    async with open_harness(attrs.evolve(config, agents=()), safe_mode=args.safe_mode) as harness:
        service = SkillService(harness, harness.config.section("skills", SkillsConfig))
        catalogue = await trio.to_thread.run_sync(collect, service.places(cwd), service.given())
    if args.name is not None:
        print(_text(catalogue, args.name))
        return 0
    for skill in catalogue.skills.values():
        print(_json(skill) if args.json else _line(skill))
    for problem in catalogue.problems:
        print(f"skills: {problem}", file=sys.stderr)
    if not catalogue.skills and not args.json:
        print("no skills here; one is a file .dsh/skills/NAME/SKILL.md, with its name and description in front")
    return 0


def _text(catalogue: Catalogue, name: str) -> str:
    skill = catalogue.skills.get(name)
    if skill is None:
        known = ", ".join(catalogue.skills) or "none"
        raise ConfigError(f"there is no skill {name} here (there are: {known})", code="USAGE")
    try:
        return body_of(skill)
    except (OSError, FrontMatterError) as error:
        raise ConfigError(f"the skill {name} cannot be read: {error}") from error


def _line(skill: Skill) -> str:
    hidden = ", not for the model" if skill.hidden else ""
    short = skill.description if len(skill.description) <= 80 else skill.description[:79] + "…"
    return f"{skill.name}  ({skill.source}{hidden})  {short}"


def _json(skill: Skill) -> str:
    record = {
        "name": skill.name,
        "description": skill.description,
        "when": skill.when or None,
        "source": skill.source,
        "path": None if skill.path is None else str(skill.path),
        "hidden": skill.hidden,
    }
    return dumps(record).decode()
