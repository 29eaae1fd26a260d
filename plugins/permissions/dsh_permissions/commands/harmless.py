"""Commands that only look: which programs, with which of their flags, and which of their arguments are files.

A program is here if it reads files and prints, and if every flag that makes it do more is named.  Long flags may be
shortened, so whatever is the beginning of a named flag counts as it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from attrs import field, frozen

from .programs import RUN_ANYTHING, SPECS, TELL_VERSIONS, Spec
from .scripts import awk_is_plain, sed_is_plain
from .unwrap import program
from .variables import is_risky
from .words import DYNAMIC, Word

__all__ = ["Assessment", "assess", "is_known"]

Args = Sequence[Word]


@frozen
class Assessment:
    """What a command does, as far as its program is known.

    Attributes:
        harmless: it only reads `reads` and prints.
        why: why it is not harmless; empty where nothing is known of the program.
        danger: a flag that makes more of the program than its name says.
        reads, writes: the arguments that are files.
        loose: an argument that only a run knows may be such a flag.
    """

    harmless: bool = False
    why: str = ""
    danger: str = ""
    reads: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    loose: bool = False


def assess(words: Args) -> Assessment:
    """What the command does."""
    name, args = program(words[0]), words[1:]
    name = {"egrep": "grep", "fgrep": "grep", "fdfind": "fd", "gawk": "awk", "mawk": "awk", "gsed": "sed"}.get(
        name, name
    )
    if len(args) == 1 and name in TELL_VERSIONS.get(args[0].text, ()):
        return Assessment(harmless=True)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args)
    spec = SPECS.get(name)
    if spec is None:
        return Assessment()
    return _by_spec(name, spec, args)


def is_known(name: str) -> bool:
    """Whether it is known what the program's arguments are."""
    return name in SPECS or name in _SPECIAL


def _by_spec(name: str, spec: Spec, args: Args) -> Assessment:
    found = _Reading(spec)
    for word in args:
        found.take(word)
    taken = tuple(found.files)
    skipped = max(0, spec.skip - found.stood_in)
    # what is no file by its place may be the value of a flag that stands before it
    files = (*(word for word in taken[:skipped] if _is_elsewhere(word.text)), *taken[skipped:])
    paths = (*files, *found.attached) if spec.files else tuple(found.attached)
    if found.danger:
        return Assessment(False, f"{name} with {found.danger} does more than to print", found.danger, paths)
    loose = found.loose and name not in RUN_ANYTHING and bool(spec.short or spec.long or spec.words)
    why = f"{name} with what may be an option that makes more of it" if loose else ""
    if spec.writes:
        return Assessment(False, why, "", (), paths, loose)
    if not spec.inert:
        return Assessment(False, why, "", paths, (), loose)
    if spec.most is not None and found.count > spec.most:
        return Assessment(False, f"{name} writes to what its further arguments name", reads=paths)
    if found.unknown and not spec.dynamic:
        return Assessment(False, f"{name} with arguments that are only known in a run", reads=paths, loose=loose)
    return Assessment(True, reads=paths)


def _is_elsewhere(text: str) -> bool:
    return text.startswith(("/", "~", "..")) and os.path.lexists(os.path.expanduser(text.rstrip("/") or "/"))


@frozen
class _Reading:
    spec: Spec
    files: list[Word] = field(factory=list)
    attached: list[Word] = field(factory=list)
    """Values in the same word as their flag, which may be files."""
    state: dict[str, str | int | bool] = field(factory=dict)

    @property
    def danger(self) -> str:
        return str(self.state.get("danger", ""))

    @property
    def count(self) -> int:
        return int(self.state.get("count", 0))

    @property
    def unknown(self) -> bool:
        return bool(self.state.get("unknown"))

    @property
    def loose(self) -> bool:
        return bool(self.state.get("loose"))

    @property
    def stood_in(self) -> int:
        return int(self.state.get("stood_in", 0))

    def take(self, word: Word) -> None:
        text = word.text
        if self.state.pop("value", False):
            self.state["unknown"] = self.unknown or (not word.static and word.plain)
            return
        if word.loose and not self.state.get("ended"):
            self.state["loose"] = True
        if text.startswith(DYNAMIC) or (not word.static and not text.startswith("-")):
            self.state["unknown"] = True
            self.files.append(word)
        elif self.state.get("ended") or not text.startswith("-") or text == "-":
            if any(text.startswith(sign) for sign in self.spec.words if sign):
                self.state["danger"] = text
            self.state["count"] = self.count + (2 if word.glob else 1)
            if text != "-":
                self.files.append(word)
        elif text == "--":
            self.state["ended"] = True
        elif text.partition("=")[0] in self.spec.words:
            self.state["danger"] = text.partition("=")[0]
        elif text.startswith("--"):
            self._long(word)
        else:
            self._short(word)

    def _long(self, word: Word) -> None:
        name, equals, value = word.text[2:].partition("=")
        if name and any(flag.startswith(name) for flag in self.spec.long):
            self.state["danger"] = f"--{name}"
        if name and any(flag.startswith(name) for flag in self.spec.pattern if len(flag) > 1):
            self.state["stood_in"] = self.stood_in + 1
            self.state["value"] = not equals and not name.startswith("fi")
        if equals:
            self._attach(value)
        if not word.static:
            self.state["unknown"] = True

    def _short(self, word: Word) -> None:
        letters = word.text[1:]
        if not word.static:
            self.state["unknown"] = True
        for place, letter in enumerate(letters, 1):
            if letter in self.spec.short:
                self.state["danger"] = f"-{letter}"
                return
            if letter in self.spec.pattern:
                self.state["stood_in"] = self.stood_in + 1
            if letter in self.spec.values or letter in self.spec.pattern:
                if place == len(letters) and letter == "f":
                    return  # what follows is a file
                self.state["value"] = place == len(letters)
                if letter == "f":
                    self._attach(letters[place:])
                return
        self._attach(letters[1:])

    def _attach(self, value: str) -> None:
        """Take the value of a flag for a file; and what follows its first sign, which may be another flag's letter."""
        if value and not value.startswith("-"):
            self.attached.append(Word(value))
        if not value.startswith((".", "~", "/")) and "/" in value:
            self.attached.append(Word(value[value.find("/") :]))


# -- programs with a language of their own


def _find(args: Args) -> Assessment:
    roots, at = [], 0
    while at < len(args) and re.fullmatch(r"-[HLP]|-D|-O\d", args[at].text):
        at += 2 if args[at].text == "-D" else 1
    while at < len(args) and not args[at].text.startswith(("-", "(", "!", ")")):
        roots.append(args[at])
        at += 1
    roots = roots or [Word(".")]
    for place, word in enumerate(args[at:], at):
        text = word.text
        if text in ("-delete", "-fls", "-files0-from") or text.startswith("-fprint"):
            return Assessment(False, f"find with {text} does more than to print", text, tuple(roots))
        if not word.static and args[place - 1].text not in ("-name", "-iname", "-path", "-newer"):
            inner = any(other.text.startswith(("-exec", "-ok")) for other in args[at:place])
            if not inner:
                why = "find with arguments that are only known in a run"
                return Assessment(False, why, reads=tuple(roots), loose=word.loose)
    return Assessment(all(root.static for root in roots), reads=tuple(roots), loose=any(root.loose for root in roots))


def _sed(args: Args) -> Assessment:
    scripts, files, at = [], [], 0
    flagged = False
    while at < len(args):
        text = args[at].text
        if text in ("-e", "--expression"):
            at += 1
            flagged = True
            scripts += [args[at]] if at < len(args) else []
        elif text.startswith("--expression="):
            flagged = True
            scripts.append(Word(text.partition("=")[2]))
        elif re.fullmatch(r"-[nErsuz]+", text) or text in ("--quiet", "--silent", "--regexp-extended", "--posix"):
            pass
        elif re.match(r"-[nErsuz]*[ifl]|--(?:i|f|l)", text):
            rest = tuple(word for word in args if not word.text.startswith("-"))
            return Assessment(False, f"sed with {text} does more than to print", text, (), rest)
        elif text.startswith("-") and text != "-":
            return Assessment(False, f"sed with {text}", text)
        else:
            files.append(args[at])
        at += 1
    if not flagged and files:
        scripts, files = files[:1], files[1:]
    plain = bool(scripts) and all(script.static and sed_is_plain(script.text) for script in scripts)
    if not plain:
        return Assessment(False, "a script of sed that may write or run something", "script", tuple(files))
    return Assessment(all(word.static for word in files), reads=tuple(files))


def _awk(args: Args) -> Assessment:
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        if text in ("-F", "-v") and at + 1 < len(args) and args[at + 1].static:
            at += 2
        elif re.fullmatch(r"-F.+|-v\w+=[^\0]*", text, re.DOTALL):
            at += 1
        else:
            return Assessment(False, f"awk with {text}", text)
    if at >= len(args) or not args[at].static or not awk_is_plain(args[at].text):
        return Assessment(False, "a program of awk that may write or run something", "script")
    files = tuple(word for word in args[at + 1 :] if not re.match(r"[A-Za-z_]\w*=", word.text))
    return Assessment(all(word.static for word in files), reads=files)


def _git(args: Args) -> Assessment:
    from .git import assess_git, is_loose

    verdict, why, danger, paths = assess_git(args)
    return Assessment(verdict, why, danger, paths, loose=is_loose(args))


def _jq(args: Args) -> Assessment:
    """A filter, and files; what reads the environment or other files has a name."""
    done = _by_spec("jq", Spec(long=("from-file", "rawfile", "slurpfile"), short="fL"), args)
    texts = [word.text for word in args]
    if done.harmless and any(re.search(r"\benv\b|\bENV\b|\bimport\b|\binclude\b|\$__", text) for text in texts):
        return Assessment(False, "a filter of jq that reads more than its files")
    at = next((n for n, text in enumerate(texts) if not text.startswith("-")), None)
    skipped = args[at] if at is not None else None
    reads = tuple(word for word in done.reads if word is not skipped or _is_elsewhere(word.text))
    return Assessment(done.harmless, done.why, done.danger, reads)


def _ps(args: Args) -> Assessment:
    """A list of processes, as long as it does not show their environment, as the letter e without a dash does."""
    texts = [word.text for word in args]
    plain = all(re.fullmatch(r"-[AaefFjlwxT]+|--forest|[auxfwlj]+|-[pu]|\d+|-o|[a-z%=,]+", text) for text in texts)
    shows = any(re.fullmatch(r"[a-zE]*e[a-zE]*", text) and before != "-o" for before, text in pairwise(["", *texts]))
    shows = shows or any(before == "-o" and "environ" in text for before, text in pairwise(["", *texts]))
    return Assessment(
        plain and not shows, "" if plain and not shows else "ps may show what processes keep to themselves"
    )


def _set(args: Args) -> Assessment:
    plain = bool(args) and all(re.fullmatch(r"[-+][efuxvCE]*o?|pipefail|nounset|errexit", word.text) for word in args)
    return Assessment(plain, "" if plain else "set may show all variables, or change how bash works")


def _command(args: Args) -> Assessment:
    """``command -v name``; what it runs otherwise is judged by itself."""
    return Assessment(True)


def _dd(args: Args) -> Assessment:
    reads = tuple(Word(word.text[3:]) for word in args if word.text.startswith("if="))
    writes = tuple(Word(word.text[3:]) for word in args if word.text.startswith("of="))
    return Assessment(False, "", "", reads, writes)


def _printf(args: Args) -> Assessment:
    """A text, as long as the first argument is surely no option, of which one assigns a variable."""
    first = args[0].text if args else ""
    if first.startswith(DYNAMIC) or (first.startswith("-") and first not in ("--", "-")):
        danger = "-v" if first.startswith("-v") else ""
        return Assessment(False, "printf may give a variable a value", danger)
    return Assessment(True)


def _read(args: Args) -> Assessment:
    """A line into variables, none of which changes what programs do."""
    at, names = 0, []
    while at < len(args) and args[at].text.startswith("-") and args[at].text != "--":
        flag = re.fullmatch(r"-[ersE]*([adnNptui]?)(.*)", args[at].text, re.DOTALL)
        at += 1
        if flag is None:
            return Assessment(False, "read with options that are not known")
        value = Word(flag[2])
        if flag[1] and not flag[2] and at < len(args):
            value = args[at]
            at += 1
        if flag[1] == "a":
            names.append(value)
        elif flag[2] and not flag[1]:
            return Assessment(False, "read with options that are not known")
    names += [word for word in args[at:] if word.text != "--"]
    if not all(re.fullmatch(r"[A-Za-z_]\w*", word.text) for word in names):
        return Assessment(False, "the variables that read gives a value to are not written plainly")
    risky = next((word.text for word in names if is_risky(word.text, None)), None)
    return Assessment(risky is None, "" if risky is None else f"sets {risky}, which changes what programs do")


def _xxd(args: Args) -> Assessment:
    """A dump, as long as there is one file; its long flags begin with one dash, too."""
    files, at = [], 0
    while at < len(args):
        word = args[at]
        at += 1
        if word.text.startswith("-") and word.text != "-":
            flag = word.text.lstrip("-")
            if flag.startswith("r") or not word.static:
                return Assessment(False, "xxd that writes a file", "-r")
            if flag in _XXD_VALUES and at < len(args) and re.fullmatch(r"[-+]?(?:0x)?[0-9A-Fa-f]+", args[at].text):
                at += 1
            continue
        files.append(word)
    reads = tuple(word for word in files if word.text != "-")
    if len(files) > 1 or any(word.glob or not word.static for word in files):
        return Assessment(False, "xxd writes to what its further arguments name", reads=reads)
    return Assessment(True, reads=reads)


_XXD_VALUES = frozenset(["c", "cols", "g", "groupsize", "l", "len", "s", "seek", "o", "off"])


def _date(args: Args) -> Assessment:
    """What time it is; an argument without a ``+`` would set the clock."""
    done = _by_spec("date", Spec(short="sf", long=("set", "file"), values="dr", files=False), args)
    at = 0
    while done.harmless and at < len(args):
        text = args[at].text
        at += 1
        if text in ("-d", "--date", "-r", "--reference"):
            at += 1
        elif text == "--" or not text.startswith(("+", "-")):
            return Assessment(False, f"date with {text} may set the clock")
    return done


def _make(args: Args) -> Assessment:
    """By its flags; a variable may be given what `make` runs to find out its value."""
    if any("$(" in word.text or "${" in word.text or DYNAMIC in word.text for word in args):
        return Assessment(False, "make with text that it would expand", "$(")
    given = next(
        (word.text for word in args if re.match(r"[\w.-]+\s*[:+?]{0,3}=.*[\s;&|`<>(]", word.text, re.DOTALL)), ""
    )
    if given:
        return Assessment(False, "make with a variable that may be a command", given.partition("=")[0])
    return _by_spec("make", SPECS["make"], args)


def _tar(args: Args) -> Assessment:
    """By its flags, which may come first without a dash."""
    if args and re.fullmatch(r"[A-Za-z]+", args[0].text):
        args = (Word(f"-{args[0].text}"), *args[1:])
    return _by_spec("tar", SPECS["tar"], args)


_SPECIAL: Mapping[str, Callable[[Args], Assessment]] = {
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "git": _git,
    "dd": _dd,
    "date": _date,
    "printf": _printf,
    "read": _read,
    "make": _make,
    "tar": _tar,
    "xxd": _xxd,
    "command": _command,
    "jq": _jq,
    "ps": _ps,
    "set": _set,
}
