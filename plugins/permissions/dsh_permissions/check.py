"""``dsh permissions``: what would become of a call, and which rules there are."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import asdict, evolve

from dsh import Config, ConfigError, open_harness
from dsh.config import dsh_home
from dsh.jsonvalue import dumps
from dsh.layers import Layer
from dsh.structure import did_you_mean
from dsh.tools.tool import ToolCall

from .guard import KNOWN, Guard, tools_of
from .rules import split_rules
from .settings import read_permissions
from .verdict import MODES, Verdict

if TYPE_CHECKING:
    from dsh.jsonvalue import Json

__all__ = ["configure", "run"]

_CALL = re.compile(r"([A-Za-z0-9_.-]+)(?:\((.*)\))?", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh permissions``."""
    parser.add_argument(
        "action", nargs="?", choices=("check", "list"), default="list", metavar="check|list", help="list, if not given"
    )
    parser.add_argument(
        "calls", nargs="*", metavar="CALL", help="check: a call, as in 'bash(git push)' or 'read(.env)'"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--permission-mode", choices=MODES, metavar="MODE", help="as if it ran in this mode")
    parser.add_argument("--allowed-tools", action="append", default=[], metavar="RULE", help="with this rule, too")
    parser.add_argument("--disallowed-tools", action="append", default=[], metavar="RULE", help="with this rule, too")
    parser.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="as if this folder were added")


def run(args: argparse.Namespace, config: Config) -> int:
    """Check calls, or list the rules."""
    cwd = str(Path(args.cd or ".").resolve())
    config = evolve(config, layers=(*config.layers, *_flags(args, Path(cwd))))
    guard = Guard(read_permissions(config), dsh_home(os.environ))
    if args.action == "list":
        if args.calls:
            raise ConfigError("dsh permissions list takes no call; to judge one: dsh permissions check", code="USAGE")
        _list(guard, args.json)
        return 0
    if not args.calls:
        raise ConfigError("dsh permissions check needs a call, as in 'bash(git push)'", code="USAGE")
    calls = [(text, _call(text)) for text in args.calls]
    absent = trio.run(_absent, args, config, {call.name for _, call in calls} - KNOWN.keys())
    for text, call in calls:
        verdict = _judge(guard, call, cwd)
        if args.json:
            print(dumps(as_json(verdict)).decode())
        else:
            _show(text, verdict, absent.get(call.name))
    return 0


async def _absent(args: argparse.Namespace, config: Config, names: set[str]) -> dict[str, str]:
    """What to say of those of `names` that no tool has; nothing where that cannot be told."""
    by_hand = args.plugin or config.plugins.load or (config.folder is not None and config.folder.plugins)
    if not names or by_hand:  # plugins that are not installed have tools of their own
        return {}
    try:
        async with open_harness(evolve(config, agents=()), safe_mode=args.safe_mode, warn=_unheard) as harness:
            known = {*tools_of(harness.create_unstored("check").agent), *KNOWN}
    except Exception:
        return {}  # something else is wrong, which other commands say
    return {name: f"there is no tool {name}{did_you_mean(name, known)}" for name in names - known}


def _unheard(message: str) -> None:
    """Only a list of tools is wanted."""


def _flags(args: argparse.Namespace, cwd: Path) -> Iterator[Layer]:
    """What the flags say, as settings."""
    said = {
        ("--permission-mode", "mode"): args.permission_mode,
        ("--allowed-tools", "allow"): [rule for text in args.allowed_tools for rule in split_rules(text)],
        ("--disallowed-tools", "deny"): [rule for text in args.disallowed_tools for rule in split_rules(text)],
        ("--add-dir", "add_dirs"): [str(cwd / Path(text).expanduser()) for text in args.add_dir],
    }
    for (flag, key), value in said.items():
        if value:
            yield Layer(flag, {"permissions": {key: value}})


def _call(text: str) -> ToolCall:
    found = _CALL.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is no call; write the tool's name and its subject, as in 'read(src/a.py)'", code="USAGE"
        )
    name, value = found[1], found[2]
    _, subject = KNOWN.get(name, (None, "subject"))
    arguments: dict[str, Json] = {} if value is None or subject is None else {subject: value}
    return ToolCall("check", name, arguments)


def _judge(guard: Guard, call: ToolCall, cwd: str) -> Verdict:
    effect, subject = KNOWN.get(call.name, (None, "subject" if call.arguments else None))
    return guard.judge_in(cwd).judge(call.name, call.arguments, effect, subject)


def as_json(verdict: Verdict) -> Mapping[str, Any]:
    """A verdict for programs."""
    return {
        "verdict": verdict.kind,
        "rule": verdict.rule,
        "source": verdict.source,
        "reason": verdict.reason,
        "suggestion": verdict.suggestion,
        "parts": [
            {"verdict": part.kind, **asdict(part, filter=lambda field, value: field.name not in ("kind", "veiled"))}
            for part in verdict.parts
        ],
    }


def _show(text: str, verdict: Verdict, absent: str | None) -> None:
    rule = f" by {verdict.rule} ({verdict.source})" if verdict.rule else ""
    print(f"{verdict.kind}: {text}{rule}")
    print(f"  {verdict.reason}")
    if len(verdict.parts) > 1:
        for part in verdict.parts:
            rule = f" by {part.rule} ({part.source})" if part.rule else ""
            print(f"  {part.kind}: {part.what} {part.text}{rule}")
    if absent is not None:
        print(f"  {absent}")
        return
    for suggestion in verdict.suggestions:
        print(f"  to allow it: {suggestion}")


def _list(guard: Guard, json: bool) -> None:
    if json:
        rules = [{"verdict": rule.kind, "rule": rule.text, "source": rule.source} for rule in guard.rules.rules]
        settings = guard.settings
        print(
            dumps(
                {
                    "mode": {"mode": guard.mode, "source": settings.mode_source},
                    "rules": rules,
                    "add_dirs": list(settings.add_dirs),
                    "ignored": list(guard.ignored),
                }
            ).decode()
        )
        return
    print(f"mode {guard.mode} ({guard.settings.mode_source})")
    for kind in ("deny", "ask", "allow"):
        for rule in guard.rules.rules:
            if rule.kind == kind:
                print(f"{kind:<5} {rule.text}  ({rule.source})")
    for folder in guard.settings.add_dirs:
        print(f"dir   {folder}")
    for text in guard.ignored:
        print(f"not in force, since the folder is not trusted: {text}")
