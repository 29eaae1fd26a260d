"""Rules: ``tool`` or ``tool(pattern)``, each with the file or flag that it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from attrs import field, frozen

from dsh import ConfigError

from .verdict import Kind

__all__ = ["BUILT_IN", "Rule", "RuleSet", "parse_rule", "split_rules"]

_RULE = re.compile(r"([A-Za-z0-9_.*?\[\]-]+)(?:\((.*)\))?", re.DOTALL)
_OPERATOR = re.compile(r"\s(?:&&|\|\|?|&|>>?|<<?|;)(?:\s|$)|;\s|;$|[\r\n]|\$\(")
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9*][A-Za-z0-9.*-]*(?::\d+)?|\[[0-9A-Fa-f:]+\]")
PATHS = ("read", "write", "edit")
"""Tools whose patterns are of paths, whatever is installed."""


@frozen
class Rule:
    """What is said of a tool's calls.

    Attributes:
        kind: what becomes of the calls that it matches.
        tool: the tool's name, or a pattern of names.
        pattern: of the call's subject: its command, path or address; None for every call.
        text: the rule as it is written.
        source: the file or flag.
    """

    kind: Kind
    tool: str
    pattern: str | None
    text: str
    source: str

    def names(self, tool: str) -> bool:
        """Whether the rule is about the tool."""
        return self.tool == tool or fnmatchcase(tool, self.tool)


def parse_rule(text: str, kind: Kind, source: str) -> Rule:
    """Read a rule.

    Raises:
        ConfigError: it is none, or nothing could ever match it; the message has `source` and `text`.
    """

    def wrong(why: str) -> ConfigError:
        return ConfigError(f"{source}: permissions.{kind}: {text!r}: {why}")

    if not isinstance(text, str):
        raise wrong('expected text, as in "bash(git status *)"')
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise wrong("expected a tool's name, or a name with a pattern, as in bash(git status *) or edit(src/**)")
    tool, pattern = found[1], found[2]
    if pattern is None or pattern.strip() in ("*", "**"):
        return Rule(kind, tool, None, text, source)
    pattern = pattern.strip()
    if not pattern:
        raise wrong(f"the pattern is empty and matches nothing; {tool} alone means every call")
    if any(ord(sign) < 32 and sign not in "\t" for sign in pattern):
        raise wrong("the pattern has a line break or a control character and matches nothing")
    if tool == "bash":
        _check_command(pattern, wrong)
    elif tool in PATHS:
        _check_path(pattern, wrong)
    elif pattern.startswith("domain:") and not _HOST.fullmatch(pattern[7:]):
        raise wrong("behind domain: stands a host, as in domain:example.org or domain:*.example.org")
    return Rule(kind, tool, pattern, text, source)


def split_rules(text: str) -> list[str]:
    """The rules of a flag: what commas part, but for those inside of parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def _check_command(pattern: str, wrong: object) -> None:
    assert callable(wrong)
    if _OPERATOR.search(pattern):
        raise wrong("matches nothing, since each command of a line is judged alone; write a rule for each of them")
    if pattern.startswith("domain:"):
        raise wrong("a command has no domain")
    if pattern.endswith(":*") and "*" in pattern[:-2]:
        raise wrong("either a prefix, as in git push:*, or a pattern, as in git push *")


def _check_path(pattern: str, wrong: object) -> None:
    assert callable(wrong)
    if pattern.startswith("domain:") or "://" in pattern:
        raise wrong("the tool takes paths, and these are none")
    parts = pattern.split("/")
    if ".." in parts[next((n for n, part in enumerate(parts) if part != ".."), len(parts)) :] or "." in parts[1:]:
        raise wrong("matches nothing, since paths are compared without . and ..")
    if "//" in pattern:
        raise wrong("matches nothing, since paths have no // in them")


BUILT_IN = "built-in"
"""The source of rules that nobody wrote."""


def _as_tuple(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(rules)


@frozen
class RuleSet:
    """All rules in force.  The most severe one that matches counts, whatever its place."""

    rules: tuple[Rule, ...] = field(default=(), converter=_as_tuple)

    _found: dict[tuple[str, ...], tuple[Rule, ...]] = field(factory=dict, init=False, repr=False, eq=False)

    def of(self, kind: Kind, *tools: str) -> tuple[Rule, ...]:
        """The rules of that kind about any of the tools."""
        key = (kind, *tools)
        found = self._found.get(key)
        if found is None:
            rules = (rule for rule in self.rules if rule.kind == kind)
            found = self._found[key] = tuple(rule for rule in rules if any(rule.names(tool) for tool in tools))
        return found

    def forbid(self, *tools: str) -> bool:
        """Whether somebody wrote a rule that denies calls of any of the tools."""
        return any(rule.source != BUILT_IN for rule in self.of("deny", *tools))

    def plus(self, more: Iterable[Rule]) -> RuleSet:
        """These rules and `more`."""
        added = tuple(more)
        return RuleSet((*self.rules, *added)) if added else self
