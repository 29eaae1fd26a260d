"""Paths judged by rules and places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from .globs import ANY, can_meet, path_pattern
from .places import Access, Place, Places
from .rules import BUILT_IN, Rule, RuleSet
from .verdict import Kind, Mode, Part

__all__ = ["PathJudge"]

TOOLS: dict[Access, tuple[str, ...]] = {"read": ("read",), "write": ("write", "edit")}
"""The tools whose rules forbid an access, whoever wants it."""


@frozen
class PathJudge:
    """Judges what is read and written, by tools and by commands."""

    rules: RuleSet
    places: Places
    mode: Mode

    def judge(self, access: Access, path: str, cwd: str, tool: str = "") -> Part:
        """What becomes of reading or writing `path`.

        Args:
            tool: who wants it; without a name, a command.
        """
        place = self.places.look(path, cwd, access)
        forbidden = self.forbidden(access, place, tool)
        if forbidden is not None:
            return forbidden
        rule = self._allowing(access, place, tool)
        if rule is not None:
            return Part(access, place.real, "allow", f"{rule.text} allows it", rule.text, rule.source)
        return self._by_place(access, place, tool)

    def forbidden(self, access: Access, place: Place, tool: str = "") -> Part | None:
        """The part of a rule that denies or asks, if one matches."""
        tools = tuple(dict.fromkeys((tool, *TOOLS[access]))) if tool else TOOLS[access]
        kinds: tuple[Kind, ...] = ("deny", "ask")
        for kind in kinds:
            for rule in self.rules.of(kind, *tools):
                if rule.pattern is None and (not tool or not rule.names(tool)):
                    continue  # a tool that is forbidden altogether says nothing of others
                if rule.pattern is None or self._matches(rule, place, wide=True):
                    verb = "denies" if kind == "deny" else "wants to be asked about"
                    why = f"the rule {rule.text} {verb} {'reading' if access == 'read' else 'writing'} {place.real}"
                    suggestion = None
                    return Part(access, place.real, kind, why, rule.text, rule.source, suggestion)
        return None

    def touched(self, place: Place) -> Part | None:
        """Like `forbidden`, for a path of which it is not known whether it is read or written."""
        found = [part for access in TOOLS if (part := self.forbidden(access, place)) is not None]
        return next((part for part in found if part.kind == "deny"), found[0] if found else None)

    def forbids_below(self, folder: str) -> Rule | None:
        """A rule that forbids to read something in the folder, or asks about it."""
        for rule in (*self.rules.of("deny", "read"), *self.rules.of("ask", "read")):
            if rule.pattern is not None and can_meet(self._absolute(rule.pattern), f"{folder.rstrip('/')}/{ANY}"):
                return rule
        return None

    def guards(self) -> bool:
        """Whether rules forbid any path, or ask about one."""
        return any(rule.pattern and rule.source != BUILT_IN for rule in self._forbidding())

    def _forbidding(self) -> Iterator[Rule]:
        for kind in ("deny", "ask"):
            yield from self.rules.of("deny" if kind == "deny" else "ask", "read", "write", "edit")

    def _absolute(self, pattern: str) -> str:
        text = pattern.rstrip("/").replace("**", "*")
        if text.startswith("~"):
            return self.places.home + text[1:] + "*"
        if text.startswith("/"):
            return text + "*"
        return f"*/{text.removeprefix('./')}*" if "/" not in text else f"{self.places.workspace}/{text}*"

    def _matches(self, rule: Rule, place: Place, *, wide: bool) -> bool:
        assert rule.pattern is not None
        pattern = path_pattern(rule.pattern, self.places.workspace, self.places.home, wide, self.places.fold)
        paths = (place.real, place.lexical) if wide else (place.real,)
        return any(pattern.fullmatch(path) for path in paths)

    def _allowing(self, access: Access, place: Place, tool: str) -> Rule | None:
        if place.where == "unclear" or (self.mode == "plan" and access == "write"):
            return None  # while planning, no rule lets anything be written
        tools = (tool or access, *(("write",) if access == "write" else ("read",)))
        for rule in self.rules.of("allow", *dict.fromkeys(tools)):
            if rule.pattern is None:
                if place.where in ("inside", "system") and tool and rule.names(tool):
                    return rule
                continue
            if not self._matches(rule, place, wide=False):
                continue
            last = rule.pattern.rstrip("/").rpartition("/")[2]
            if place.where == "protected" and re.search(r"[*?\[]", rule.pattern):
                continue  # such a file has to be named
            if place.where == "secret" and re.search(r"[*?\[]", last):
                continue
            return rule
        return None

    def _by_place(self, access: Access, place: Place, tool: str) -> Part:
        if place.where in ("inside", "system"):
            if access == "read" or place.where == "system":
                return Part(access, place.real, "allow", "files of the workspace may be read", place.where)
            if self.mode == "plan":
                return Part(access, place.real, "deny", "nothing is written while planning", "plan")
            if self.mode == "accept-edits":
                return Part(access, place.real, "allow", "files of the workspace may be edited", "accept-edits")
            what = f"writing {self._shown(place.real)}"
            return Part(access, place.real, "ask", what, None, suggestion=self._suggest(access, place, tool))
        kind: Kind = "deny" if access == "write" and self.mode == "plan" else "ask"
        suggestion = None if place.where == "unclear" else self._suggest(access, place, tool)
        return Part(access, place.real, kind, place.reason, place.rule, suggestion=suggestion)

    def _shown(self, real: str) -> str:
        root = self.places.workspace
        return real[len(root) + 1 :] if self.places.within(real, root) and real != root else real

    def _suggest(self, access: Access, place: Place, tool: str) -> str | None:
        within = self.places.within
        if place.real.count("/") < 2 or any(
            within(root, place.real) for root in (*self.places.roots, self.places.home)
        ):
            return None  # a folder's name is everything in it
        shown = self._shown(place.real)
        if "/" not in shown:
            shown = f"./{shown}"
        if re.search(r"[*?\[\]()\\\x00-\x1f]", shown):
            return None
        return f"{tool or access}({shown})"
