"""The judge: a call's name and arguments in, a verdict out.  It looks at links and folders, and opens nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from dsh.tools.tool import Effect

from .globs import command_pattern
from .pathrules import PathJudge
from .places import Places
from .rules import Rule, RuleSet
from .verdict import Kind, Mode, Part, Verdict, most_severe

__all__ = ["Judge"]


class Judge:
    """Judges calls for one workspace.

    Args:
        rules: all rules in force.
        mode: what becomes of calls that no rule is about.
        workspace: the agent's working directory.
        extra_dirs: further folders to work in.
        home: the person's home; by default, the process's.
        dsh_home: where dsh keeps its files; by default ``.dsh`` in `home`.
    """

    def __init__(
        self,
        rules: RuleSet,
        mode: Mode,
        workspace: Path | str,
        extra_dirs: Sequence[Path | str] = (),
        home: Path | str | None = None,
        dsh_home: Path | str | None = None,
    ) -> None:
        home = Path.home() if home is None else home
        dsh_home = Path(home) / ".dsh" if dsh_home is None else dsh_home
        self.rules = rules
        self.mode = mode
        self.places = Places(str(workspace), tuple(map(str, extra_dirs)), str(home), str(dsh_home))

    def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        effect: Effect | None,
        subject: str | None = None,
        grants: Iterable[Rule] = (),
    ) -> Verdict:
        """What becomes of a call.

        Args:
            effect, subject: what the tool says of itself; see `dsh.Tool`.
            grants: rules that a person gave in the session; they allow what other allow rules could.
        """
        rules = self.rules.plus(grants)
        parts = self._parts(rules, tool, arguments, effect, subject)
        return _settled(self.mode, parts)

    def _parts(
        self, rules: RuleSet, tool: str, arguments: Mapping[str, Any], effect: Effect | None, subject: str | None
    ) -> tuple[Part, ...]:
        for rule in rules.of("deny", tool):
            if rule.pattern is None:
                return (Part("tool", tool, "deny", f"the rule {rule.text} denies {tool}", rule.text, rule.source),)
        asked = next((rule for rule in rules.of("ask", tool) if rule.pattern is None), None)
        why = "" if asked is None else f"the rule {asked.text} wants to be asked about {tool}"
        first = () if asked is None else (Part("tool", tool, "ask", why, asked.text, asked.source),)
        value = arguments.get(subject) if subject is not None else None
        if subject is not None and not isinstance(value, str) and effect != "none":
            # such a call will be refused for its arguments; until then nobody may rely on that
            return (*first, Part("tool", tool, "ask", f"{tool} without {subject}, which would be judged", "arguments"))
        if effect in ("read", "write") and isinstance(value, str):
            paths = PathJudge(rules, self.places, self.mode)
            return (*first, paths.judge("read" if effect == "read" else "write", value, self.places.workspace, tool))
        if effect == "execute" and isinstance(value, str):
            return (*first, *self._commands(rules, tool, value, arguments))
        return (*first, self._plain(rules, tool, effect, value if isinstance(value, str) else None))

    def _commands(self, rules: RuleSet, tool: str, text: str, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
        from .commandrules import CommandJudge  # with the grammar, which costs nothing before a command is judged

        paths = PathJudge(rules, self.places, self.mode)
        cwd, folder = self.places.workspace, arguments.get("workdir")
        more: tuple[Part, ...] = ()
        if isinstance(folder, str) and folder:
            place = self.places.look(folder, cwd, "read")
            cwd = place.real
            if place.where not in ("inside", "system"):
                more = (paths.judge("read", folder, self.places.workspace),)
        return (*more, *CommandJudge(rules, paths, tool, [cwd], self.places.fold).judge(text))

    def _plain(self, rules: RuleSet, tool: str, effect: Effect | None, value: str | None) -> Part:
        shown = tool if value is None else f"{tool} {value}"
        kinds: tuple[Kind, ...] = ("deny", "ask", "allow")
        for kind in kinds:
            if kind == "allow" and self.mode == "plan" and effect in ("write", "execute"):
                break  # while planning, no rule lets anything be changed
            for rule in rules.of(kind, tool):
                if _says(rule, value):
                    verb = {"deny": "denies", "ask": "wants to be asked about", "allow": "allows"}[kind]
                    return Part("tool", shown, kind, f"the rule {rule.text} {verb} {shown}", rule.text, rule.source)
        if effect == "none":
            return Part("tool", shown, "allow", "it touches nothing outside of the session", "no-effect")
        if self.mode == "plan" and effect in ("write", "execute"):
            return Part("tool", shown, "deny", "nothing is changed while planning", "plan")
        what = "the network" if effect == "fetch" else "nothing is known of what it touches"
        why = f"{tool}: {what}" if effect != "fetch" else f"{shown} reaches the network"
        return Part("tool", shown, "ask", why, suggestion=_offer(tool, effect, value))


def _says(rule: Rule, value: str | None) -> bool:
    if rule.pattern is None:
        return True
    if value is None:
        return rule.kind != "allow"  # it may be about this call, and nobody can tell
    if rule.pattern.startswith("domain:"):
        return _is_domain(rule.pattern[7:], value, wide=rule.kind != "allow")
    return command_pattern(rule.pattern).fullmatch(value) is not None


def _host(url: str) -> str | None:
    """The host of an address, in small letters; None where different programs would find different ones."""
    from urllib.parse import urlsplit

    if re.search(r"[\\\s\x00-\x20\x7f]", url) or not url.isascii():
        return None
    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname
    except ValueError:
        return None
    return host.rstrip(".").lower() if host else None


def _is_domain(wanted: str, url: str, *, wide: bool) -> bool:
    host = _host(url)
    if host is None:
        return wide
    wanted = wanted.lower().partition(":")[0].rstrip(".")
    if wanted.startswith("*."):
        return host.endswith(wanted[1:])
    return command_pattern(wanted).fullmatch(host) is not None or (wide and host.endswith(f".{wanted}"))


def _offer(tool: str, effect: Effect | None, value: str | None) -> str | None:
    if effect == "fetch" and value is not None:
        host = _host(value)
        return f"{tool}(domain:{host})" if host and re.fullmatch(r"[a-z0-9.-]+", host) else None
    return tool


def _settled(mode: Mode, parts: tuple[Part, ...]) -> Verdict:
    """The verdict of the most severe part, as the mode has it."""
    if mode == "bypass":
        parts = tuple(_passed(part) for part in parts)
    elif mode == "dont-ask":
        parts = tuple(
            evolve(part, kind="deny", reason=f"{part.reason}; nobody is asked (dont-ask)")
            if part.kind == "ask"
            else part
            for part in parts
        )
    worst = most_severe(parts)
    assert worst is not None
    asking = [part for part in parts if part.kind == "ask"]
    suggestion = None
    if worst.kind == "ask" and len({part.suggestion for part in asking}) == 1:
        suggestion = asking[0].suggestion
    return Verdict(worst.kind, worst.reason, worst.rule, worst.source, suggestion, parts)


def _passed(part: Part) -> Part:
    if part.kind != "ask":
        return part
    if part.veiled:
        why = f"{part.reason}; it cannot be told whether a rule denies it, so it is denied even with bypass"
        return evolve(part, kind="deny", reason=why)
    return evolve(part, kind="allow", reason="bypass", rule="bypass", source="--permission-mode", suggestion=None)
