"""Commands of a shell, judged one by one."""

from __future__ import annotations

import os
import re

from attrs import define, field

from .commands.git import without_globals
from .commands.harmless import Assessment, assess, is_known
from .commands.operands import operands
from .commands.parse import Command, Opaque, Redirect, Script, parse
from .commands.programs import CHOSEN_BY
from .commands.suggest import has_subcommands, suggestion
from .commands.unwrap import Inner, program, unwrap
from .commands.variables import SAFE_VARIABLES, is_risky
from .commands.words import DYNAMIC, Word
from .globs import can_meet, command_pattern
from .pathrules import PathJudge
from .rules import BUILT_IN, Rule, RuleSet
from .spelling import canonical, glob, in_system, is_bare, is_program, lies_above, narrow, on_one_line, wide
from .verdict import Kind, Part

__all__ = ["CommandJudge"]

MAX_DEPTH = 8
MAX_ROUNDS = 4
MAX_FOLDERS = 12
MAX_FILES = 10000
MAX_PATTERNS = 50

_DEEP = frozenset(["rg", "ag", "tar", "zip", "rsync", "tree"])
_DEEP_AS_KNOWN = frozenset(["rg", "ag", "grep", "egrep", "fgrep", "diff", "tree"])
_DEEP_IF_ASKED = frozenset(["grep", "egrep", "fgrep", "cp", "scp", "diff", "zip"])


@define
class CommandJudge:
    """Judges the commands of one call.

    Args:
        rules: all rules.
        paths: judges files.
        tool: the name of the tool that runs the command.
        cwd: where it runs.
        fold: capitals do not matter in programs' names.
    """

    rules: RuleSet
    paths: PathJudge
    tool: str
    cwds: list[str]
    fold: bool = False
    parts: list[Part] = field(factory=list)
    lost: bool = False
    """Where the commands run is not known any more."""
    functions: set[str] = field(factory=set)
    names: dict[tuple[str, str], list[str] | None] = field(factory=dict)
    """What patterns of names stand for, by the folder."""
    looked: int = 0
    """How many files were looked at."""
    again: bool = False
    """Something of it runs later than where it stands, or more than once."""

    def judge(self, text: str) -> tuple[Part, ...]:
        """What each command and file of a command line comes to."""
        for _ in range(MAX_ROUNDS):
            before = (len(self.cwds), self.lost)
            self.parts = []
            self._script(text, 0)
            if before == (len(self.cwds), self.lost) or not self.again:
                break  # else what comes first may run in a folder that is entered later
        else:
            self.lost = True
            self._script(text, 0)
        if not self.parts and re.fullmatch(r"\s*(?:#[^\n]*\s*)*", text):
            self.parts.append(Part("command", on_one_line(text), "allow", "nothing is run", "no-command"))
        elif not self.parts:
            self._unclear(text, "nothing of it is a command")
        return tuple(dict.fromkeys(self.parts))

    def _script(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._unclear(text, "commands in commands, too many to follow")
            return
        known = {"HOME": self.paths.places.home}
        if any(re.search(r"[\s*?\[]", value) for value in known.values()):
            known = {}  # bash would part such a value, where it is not quoted
        script = parse(text, known, nested=depth > 0)
        self.functions |= script.functions
        self.again = self.again or script.repeats
        self._items(script, depth)

    def _items(self, script: Script, depth: int) -> None:
        for item in script.items:
            match item:
                case Opaque(text=text, reason=reason):
                    self._unclear(text, reason)
                case Redirect():
                    self._redirect(item)
                case Command():
                    self._assignments(item)
                    if item.words:
                        self._simple(item.words, item.text, depth)

    def _unclear(self, text: str, reason: str) -> None:
        veiled = self.paths.guards() or self.rules.forbid(self.tool)
        asked = veiled or bool(self.rules.of("ask", self.tool))
        rule = self._whole() if not asked else None
        if rule is not None:
            self.parts.append(
                Part("command", on_one_line(text), "allow", f"{rule.text} allows it", rule.text, rule.source)
            )
            return
        why = f"cannot tell what this runs: {reason}"
        self.parts.append(Part("command", on_one_line(text), "ask", why, "unclear", veiled=veiled))

    def _whole(self) -> Rule | None:
        """The rule that allows whatever the tool runs."""
        return next((rule for rule in self.rules.of("allow", self.tool) if rule.pattern is None), None)

    # -- redirections and variables

    def _redirect(self, item: Redirect) -> None:
        if not item.target.static or item.target.glob or self._nowhere(item.target):
            self._unclear(item.text, "the file is only known in a run")
            return
        for cwd in self.cwds:
            self.parts.append(self.paths.judge(item.access, item.target.text, cwd))

    def _nowhere(self, word: Word) -> bool:
        return self.lost and not word.text.startswith(("/", "~"))

    def _assignments(self, item: Command) -> None:
        for assignment in item.assignments:
            risky = is_risky(assignment.name, assignment.value)
            if item.exported and not SAFE_VARIABLES.fullmatch(assignment.name):
                self._variable(assignment.name, assignment.value, risky)
            elif risky and not SAFE_VARIABLES.fullmatch(assignment.name):
                self._variable(assignment.name, assignment.value, True)
        if not item.words and item.assignments and not any(part.text == item.text for part in self.parts):
            self.parts.append(Part("command", item.text, "allow", "a variable of the shell", "variable"))
        elif not item.words and not item.assignments:
            self.parts.append(Part("command", item.text, "allow", "a test of the shell", "test"))

    def _variable(self, name: str, value: str | None, risky: bool) -> None:
        text = f"{name}={DYNAMIC if value is None else value}"
        for kind in ("deny", "ask"):
            for rule in self.rules.of("deny" if kind == "deny" else "ask", self.tool):
                if rule.pattern is not None and "=" in rule.pattern and can_meet(glob(rule.pattern), text):
                    self.parts.append(self._by_rule(text, rule))
                    return
        for rule in self.rules.of("allow", self.tool):
            if rule.pattern is None:
                if not risky:
                    return
            elif rule.pattern.startswith(f"{name}=") and command_pattern(glob(rule.pattern)).fullmatch(text):
                return
        why = f"sets {name}, which changes what programs do" if risky else f"sets {name} for a program"
        offer = None if risky or value is None else f"{self.tool}({name}=*)"
        self.parts.append(Part("command", text.replace(DYNAMIC, "..."), "ask", why, "environment", suggestion=offer))

    # -- simple commands

    def _simple(self, words: tuple[Word, ...], shown: str, depth: int) -> None:
        first = words[0]
        self.again = self.again or first.text == "trap"
        words = self._with_options(words)
        if not first.static or first.glob or not first.text:
            self._unclear(shown, "which program it is, is only known in a run")
            return
        forbidden = self._forbidden(words, shown)
        if forbidden is not None and forbidden.kind == "deny":
            self.parts.append(forbidden)
            return
        if forbidden is not None:
            self.parts.append(forbidden)
        inner = unwrap(words)
        also = not inner
        for found in inner:
            if not isinstance(found, Inner):
                self._unclear(shown, found.reason)
                continue
            also = also or found.also
            if found.odd:
                self._unclear(shown, "there are options that are not known")
            self._inner(found, shown, depth)
        if also:
            self._alone(words, shown, forbidden)
        self._moves(words)

    def _with_options(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """The command with the names of files that a pattern stands for and that a program takes for options."""
        found = []
        for word in dict.fromkeys(words[1:]):
            if word.glob and word.static and word.text[0] in "*?[-":
                for cwd in self.cwds:
                    names = self._expanded(word.text, cwd) or ()
                    found += [Word(name) for name in names if name.startswith("-") and name != word.text]
        return (words[0], *found, *words[1:]) if found else words

    def _inner(self, found: Inner, shown: str, depth: int) -> None:
        for text in found.assignments:
            name, _, value = text.partition("=")
            if not SAFE_VARIABLES.fullmatch(name):
                known = None if DYNAMIC in value else value
                self._variable(name, known, is_risky(name, known))
        lost, self.lost = self.lost, self.lost or found.away
        if found.script is not None:
            self._script(found.script, depth + 1)
        elif found.words and depth > MAX_DEPTH:
            self._unclear(shown, "commands in commands, too many to follow")
        elif found.words:
            self._simple(found.words, on_one_line(canonical(found.words).replace(DYNAMIC, "...")), depth + 1)
        if found.away:
            self.lost = lost

    def _alone(self, words: tuple[Word, ...], shown: str, forbidden: Part | None) -> None:
        """Judge the command itself, without what it runs."""
        known = in_system(words[0].text)
        done = assess((Word(known), *words[1:])) if known else Assessment()
        # While planning, no rule lets a command run that may change something.
        planning = self.paths.mode == "plan" and not done.harmless
        rule = None if planning else self._allowing(words, done)
        hidden = None if done.harmless else self._hidden(words, done, bool(known))
        files = self._files(words, done, bool(known))
        self.parts += files
        if forbidden is not None:
            return
        if hidden is not None:
            why = f"it may run what the rule {hidden.text} is about"
            self.parts.append(Part("command", shown, "ask", why, hidden.text, hidden.source, veiled=True))
        elif rule is not None:
            self.parts.append(Part("command", shown, "allow", f"{rule.text} allows it", rule.text, rule.source))
        elif words[0].text in self.functions and not is_program(words[0].text):
            self.parts.append(Part("command", shown, "allow", "a function of this line, which is judged", "function"))
        elif done.harmless and not (odd := self._odd(words)):
            self.parts.append(Part("command", shown, "allow", "it only looks", "harmless"))
        else:
            why = done.why or f"no rule allows {shown}"
            if done.harmless:
                why = odd
            kind: Kind = "deny" if self.paths.mode == "plan" else "ask"
            if kind == "deny":
                why = f"{shown} may change something, and nothing is changed while planning"
            offer = suggestion(self.tool, words, done.danger)
            self.parts.append(Part("command", shown, kind, why, "plan" if kind == "deny" else None, suggestion=offer))

    def _hidden(self, words: tuple[Word, ...], done: Assessment, known: bool) -> Rule | None:
        """The rule against a command that an argument names, where the program may be one that runs its arguments."""
        for rule in self.rules.of("deny", self.tool):
            name = re.match(r"[\w.+-]+(?=\s|$)", rule.pattern or "")
            if name is None or rule.source == BUILT_IN:
                continue
            named = re.compile(rf"(?:^|[^\w.-]){re.escape(name[0])}(?:[^\w.-]|$)")
            if done.danger and any(named.search(word.text) for word in words[1:]):
                return rule
            if known and (is_known(words[0].text) or has_subcommands(words[0].text)):
                continue
            for at, word in enumerate(words[1:], 1):
                if program(word) == name[0] and any(
                    command_pattern(pattern).fullmatch(text)
                    for text in self._spellings(words[at:])
                    for pattern in wide(rule.pattern or "")
                ):
                    return rule
        return None

    def _forbidden(self, words: tuple[Word, ...], shown: str) -> Part | None:
        texts = self._spellings(words)
        for kind in ("deny", "ask"):
            for rule in self.rules.of("deny" if kind == "deny" else "ask", self.tool):
                if rule.pattern is None:
                    return self._by_rule(shown, rule)
                patterns = wide(rule.pattern.casefold() if self.fold else rule.pattern)
                if any(command_pattern(pattern).fullmatch(text) for text in texts for pattern in patterns):
                    return self._by_rule(shown, rule)
                if any(can_meet(pattern, text) for text in texts if DYNAMIC in text for pattern in patterns):
                    why = f"it may be what the rule {rule.text} is about"
                    return Part("command", shown, "ask", why, rule.text, rule.source, veiled=kind == "deny")
        return None

    def _by_rule(self, shown: str, rule: Rule) -> Part:
        verb = "denies" if rule.kind == "deny" else "wants to be asked about"
        return Part("command", shown, rule.kind, f"the rule {rule.text} {verb} {shown}", rule.text, rule.source)

    def _spellings(self, words: tuple[Word, ...]) -> list[str]:
        """All ways to write the command that a rule against it may use."""
        forms = [words]
        name = program(words[0])
        if name != words[0].text:
            forms.append((Word(name), *words[1:]))
        if name == "git":
            forms.append(without_globals((Word(name), *words[1:])))
        texts = []
        for form in forms:
            masked = tuple(Word(re.sub(r"[*?\[\]]+", DYNAMIC, word.text)) if word.glob else word for word in form)
            texts += [canonical(masked), " ".join(word.text for word in masked)]
        return list(dict.fromkeys(text.casefold() if self.fold else text for text in texts))

    def _allowing(self, words: tuple[Word, ...], done: Assessment) -> Rule | None:
        if re.search(r"\s", words[0].text):
            return None
        texts = [canonical(words), " ".join(word.text for word in words)]
        known = in_system(words[0].text)
        if known and known != words[0].text:
            texts.append(canonical((Word(known), *words[1:])))
        for rule in self.rules.of("allow", self.tool):
            if rule.pattern is None:
                return rule
            if done.danger and done.danger not in rule.pattern and done.danger != "script":
                continue  # what makes more of a program than its name says has to be named
            if (done.danger == "script" or done.loose) and re.search(r"\*", rule.pattern):
                continue
            if any(command_pattern(pattern).fullmatch(text) for text in texts for pattern in narrow(rule.pattern)):
                return rule
        return None

    def _odd(self, words: tuple[Word, ...]) -> str:
        """Why a command that only looks may run what lies in its folder; empty where it does not."""
        name = program(words[0])
        if name == "git" and self._odd_repository(words):
            return "a folder that git would take for a repository, with settings that may run any program"
        files = CHOSEN_BY.get(name, ())
        if files and (self.lost or any(lies_above(cwd, files) for cwd in self.cwds)):
            return f"{name} runs another program in its place where one of {', '.join(files)} lies"
        return ""

    def _odd_repository(self, words: tuple[Word, ...]) -> bool:
        """Whether git may find a repository without ``.git``, whose settings anybody could have written."""
        at = next((n for n, word in enumerate(words) if word.text == "-C"), None)
        cwds = list(self.cwds)
        if at is not None:
            if at + 1 >= len(words) or not words[at + 1].static:
                return True
            cwds = [self.paths.places.look(words[at + 1].text, cwd, "read").real for cwd in cwds]
        return self.lost or any(map(is_bare, cwds))

    # -- the files of a command

    def _files(self, words: tuple[Word, ...], done: Assessment, known: bool) -> list[Part]:
        found: list[Part] = []
        named = {word.text for word in (*done.reads, *done.writes)}
        for word in dict.fromkeys(done.reads):
            found += self._file(word, "read" if done.harmless else "touch")
        for word in dict.fromkeys(done.writes):
            found += self._file(word, "write")
        if not known or not done.harmless:
            for word in dict.fromkeys(operands(words[1:])):
                if word.text not in named:
                    found += self._file(word, "touch")
        deep = self._deep(words, done)
        return [*found, *deep]

    def _file(self, word: Word, access: str) -> list[Part]:
        nowhere = self._nowhere(word)
        if not word.static or nowhere:
            if nowhere or access == "write" or self.paths.guards():
                shown = word.text.replace(DYNAMIC, "...")
                why = f"cannot tell which file {shown} is"
                return [Part("command", shown, "ask", why, "unclear", veiled=self.paths.guards())]
            return []
        found = []
        for cwd in self.cwds:
            texts: list[str] | None = [word.text]
            if word.glob:
                texts = self._expanded(word.text, cwd)
            self.looked += 1 if texts is None else len(texts)
            if texts is None or self.looked > MAX_FILES:
                why = f"cannot tell which files {word.text} are"
                return [Part("command", word.text, "ask", why, "unclear", veiled=self.paths.guards())]
            for text in texts:
                part = self._one(text, cwd, access)
                if part is not None:
                    found.append(part)
        return found

    def _expanded(self, pattern: str, cwd: str) -> list[str] | None:
        """What a pattern of names stands for; None where that cannot be told, or has been too much already."""
        key = (pattern, cwd)
        if key not in self.names:
            many = len(self.names) >= MAX_PATTERNS
            found = None if many else self.paths.places.expand(pattern, cwd)
            # without its meaning, as after `set -f`, it is a name itself
            self.names[key] = found if found is None or pattern in found else [*found, pattern]
        return self.names[key]

    def _one(self, text: str, cwd: str, access: str) -> Part | None:
        """The part of a file that stands against a command; files of the workspace do not."""
        if access == "read":
            part = self.paths.judge("read", text, cwd)
            return None if part.kind == "allow" else part
        place = self.paths.places.look(text, cwd, "write")
        forbidden = self.paths.touched(place)
        if forbidden is not None:
            return forbidden
        if place.where == "outside" and access == "touch":
            return self._one(text, cwd, "read")
        if place.where in ("inside", "system"):
            return self._secret(text, cwd)
        part = self.paths.judge("write", text, cwd)
        return None if part.kind == "allow" else part

    def _secret(self, text: str, cwd: str) -> Part | None:
        """The part of a file that may hold credentials: a copy of it would not be known for one."""
        if self.paths.places.look(text, cwd, "read").where != "secret":
            return None
        return self._one(text, cwd, "read")

    def _deep(self, words: tuple[Word, ...], done: Assessment) -> list[Part]:
        """Folders that are read with all that is in them, where a rule is about something in them."""
        name = program(words[0])
        asked = any(re.match(r"-[A-Za-z]*[rRa]|--(?:dereference-)?rec|--arc", word.text) for word in words[1:])
        if not (name in _DEEP or (name in _DEEP_IF_ASKED and asked)):
            return []
        known = done.reads if name in _DEEP_AS_KNOWN else operands(words[1:])
        folders = [word.text for word in known if word.static and not word.glob]
        found = []
        for cwd in self.cwds:
            for folder in folders or ["."]:
                real = self.paths.places.look(folder, cwd, "read").real
                rule = self.paths.forbids_below(real)
                if rule is not None and os.path.isdir(real):
                    why = f"{real} holds what the rule {rule.text} is about"
                    veiled = rule.kind == "deny"
                    found.append(Part("read", real, "ask", why, rule.text, rule.source, veiled=veiled))
        return found

    def _moves(self, words: tuple[Word, ...]) -> None:
        """Follow ``cd``; since it may fail, the folder before it stays possible."""
        name = words[0].text
        if name not in ("cd", "pushd", "popd"):
            return
        target = next((word for word in words[1:] if not word.text.startswith("-") or word.text == "-"), None)
        if name == "popd" or (target is not None and (not target.static or target.glob or target.text in ("-", ""))):
            self.lost = True
            return
        text = self.paths.places.home if target is None else target.text
        for cwd in list(self.cwds):
            place = self.paths.places.look(text, cwd, "read")
            if place.where == "unclear":
                self.lost = True
                continue
            # as it was written, too: .. goes back from there, and not from where a link leads
            self.cwds += [path for path in dict.fromkeys((place.real, place.lexical)) if path not in self.cwds]
            if len(self.cwds) > MAX_FOLDERS:
                self.lost = True
                return
