"""What stands inside of words: substitutions, expansions of variables, arithmetic; and tests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsh.patterns import late

from .items import Assignment, Command, Item, shown
from .variables import RISKY_VARIABLES
from .words import DYNAMIC, Mismatch, Word, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["COUNTING", "EXPANSIONS", "NUMBER", "Inside", "is_tame", "text_of"]

EXPANSIONS = {
    "command_substitution",
    "process_substitution",
    "expansion",
    "simple_expansion",
    "arithmetic_expansion",
}
_ARITHMETIC = re.compile(r"[\w\s$+\-*/%()<>=!&|^~,?:;]*")
_PARAMETER = late(
    r"\$\{#?[A-Za-z_]\w*\}|\$\{#?[@*#?0-9]+\}|\$\{[A-Za-z_]\w*(?::?[-+?=]|##?|%%?|//?|\^\^?|,,?)[^`\[\]]*\}"
    r"|\$\{\w+:\s?-?\d+(?::-?\d+)?\}|\$\{[A-Za-z_]\w*\[(?:\d+|[@*])\]\}|\$\{#[A-Za-z_]\w*\[[@*]\]\}",
    re.DOTALL,
)
NUMBER = re.compile(r"[-+]?\d+")
COUNTERS = frozenset(["RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID", "BASHPID"])
"""Variables in which bash has numbers."""


class Inside:
    """Reads words and what is in them, and gathers the items that are found.

    Args:
        source: the command line.
        known: variables with the values that they surely have.
        nested: another line runs this one, and may have given any value to its variables.

    Attributes:
        assigned: names that are assigned, and whether only numbers are.
        counted: names that arithmetic evaluates.
        expansions: where those that the grammar found begin, and where they end.
        tame: names that are assigned, and whether only what is no option and no part of a test.
        tested: names whose values are words of a test, to be parted as bash parts them.
        arrays: a variable may be a list.
        declared: a declaration gives a variable text that is not known.
        tainted: any variable may have been given any value.
        loops: something runs more than once.
    """

    def __init__(self, source: bytes, known: Mapping[str, str], nested: bool = False) -> None:
        self.source = source
        self.nested = nested
        self.known = known
        self.items: list[Item] = []
        self.functions: set[str] = set()
        self.assigned: dict[str, bool] = {}
        self.counted: set[str] = set()
        self.tame: dict[str, bool] = {}
        self.tested: set[str] = set()
        self.arrays = self.declared = False
        self.expansions: dict[int, int] = {}
        self.tainted = False
        self.loops = False

    def _statement(self, node: Node, depth: int) -> None:
        """Walk a statement."""
        raise NotImplementedError

    def _blank(self, start: int, end: int) -> None:
        if self.source[start:end].replace(b"\\\n", b"").strip(b" \t\n"):
            raise Mismatch("a part that is not understood")

    def _words(self, spans: list[Node]) -> tuple[Word, ...]:
        for before, after in itertools.pairwise(spans):
            gap = self.source[before.end_byte : after.start_byte]
            if not gap.replace(b"\\\n", b"") or b"\n" in gap.replace(b"\\\n", b""):
                raise Mismatch("words that are not parted as they seem")
        return tuple(self._word(span) for span in spans)

    def _word(self, node: Node) -> Word:
        return read_word(self.source, node.start_byte, node.end_byte, self.expansions, self.known)

    def _raw(self, node: Node) -> str:
        return shown(self.source[node.start_byte : node.end_byte].decode())

    def _inside(self, node: Node, depth: int) -> None:
        """Walk the commands that are substituted somewhere below, and check the other expansions."""
        kind = node.type
        if kind in ("command_substitution", "process_substitution"):
            self._substituted(node, depth)
        elif kind == "arithmetic_expansion":
            self._arithmetic(node)
        elif kind == "expansion":
            self._parameter(node, depth)
        else:
            for child in node.children:
                self._inside(child, depth)

    def _substituted(self, node: Node, depth: int) -> None:
        raw = self.source[node.start_byte : node.end_byte]
        if raw[:1] == b"`" and (b"\\" in raw or b"`" in raw[1:-1]):
            raise Mismatch("backticks with backslashes, or in quotes")  # the first one ends it, wherever it stands
        inner = [child for child in node.children if child.is_named]
        for child in inner:
            self._statement(child, depth + 1)

    def _parameter(self, node: Node, depth: int) -> None:
        text = self.source[node.start_byte : node.end_byte].decode().lstrip(" \t\n")
        inside = node.end_byte - len(text.encode()) + 2
        self._no_more_than(self.source[inside : node.end_byte], inside)
        if re.search(r"[<>](?:\\\n)*\(", text):
            raise Mismatch("a pipe in an expansion of a variable")
        name = re.match(r"\$\{#?([A-Za-z_]\w*)(:?=)?", text)
        flat = text
        for child in node.children:
            if child.type in EXPANSIONS or child.type in ("string", "concatenation"):
                flat = flat.replace(text_of(child), "x", 1)
            self._inside(child, depth)
        if not _PARAMETER.fullmatch(flat):
            raise Mismatch("an expansion of a variable that is not judged")
        if name and name[2]:
            self._assigned(name[1], False)
            self.items.append(Command((), text, (Assignment(name[1], None),)))

    def _arithmetic(self, node: Node) -> None:
        for child in node.children:
            self._inside(child, 0)
        self._check_arithmetic(node, self.source[node.start_byte : node.end_byte])

    def _check_arithmetic(self, node: Node, raw: bytes) -> None:
        text = raw.decode().removeprefix("$[").removesuffix("]") if raw.startswith(b"$[") else raw.decode()
        if not _ARITHMETIC.fullmatch(text):
            raise Mismatch("arithmetic that bash would evaluate")
        names = set(re.findall(r"\$?([A-Za-z_]\w*)", text)) - {"do"}
        if re.search(r"\$(?:\d|[@*])", text):
            raise Mismatch("arithmetic on arguments, which bash would evaluate")
        self.counted |= names
        for name in re.findall(r"([A-Za-z_]\w*)\s*=(?!=)", text):
            if RISKY_VARIABLES.fullmatch(name):
                raise Mismatch("arithmetic that assigns")
            self._assigned(name, True)

    def _no_more_than(self, content: bytes, at: int) -> None:
        """Check that the grammar saw every substitution in a text whose quotes do not count."""
        skip = 0
        for found in re.finditer(rb"\\.|`|\$[({]", content, re.DOTALL):
            where = at + found.start()
            if where < skip or found[0].startswith(b"\\"):
                continue
            if where not in self.expansions:
                raise Mismatch("a substitution that is not understood")
            skip = self.expansions[where]

    def _on_test_command(self, node: Node, depth: int) -> None:
        opening = node.children[0].type
        self.items.append(Command((), self._raw(node)))
        if opening == "((":
            self._arithmetic(node)
            return
        if self.source[node.start_byte + len(opening) :][:1] not in (b" ", b"\t", b"\n"):
            raise Mismatch("a word that only looks like a test")
        self._inside(node, depth)
        if opening == "[":
            self._plain_test(node)
        text = self._blanked(node.start_byte + len(opening), node.end_byte - len(opening))
        dangerous = r"[;`\n]|(?<!&)&(?!&)|-v\b|-R\b" + (r"|[|&()<>]" if opening == "[" else "")
        if re.search(dangerous, text):
            raise Mismatch("a test that is not understood")
        if opening == "[[" and re.search(r"-(?:eq|ne|lt|le|gt|ge)\b", text):
            for name in re.findall(r"[A-Za-z_]\w*", _numeric_part(self._raw(node))):
                self.counted.add(name)
            if not _plain_numbers(self._raw(node)):
                raise Mismatch("arithmetic on text, which bash would evaluate")

    def _plain_test(self, node: Node) -> None:
        """Check that no value can bring ``-v`` along, which evaluates the word behind it, commands and all."""
        words: list[Word] = []
        at, end = node.start_byte + 1, node.end_byte - 1
        while at < end:
            if self.source[at : at + 1] in (b" ", b"\t", b"\n"):
                at += 1
                continue
            start = at
            while at < end and self.source[at : at + 1] not in (b" ", b"\t", b"\n"):
                stop = self.expansions.get(at)
                if stop is not None:
                    self._parted(self.source[at:stop].decode())
                    at = stop
                elif self.source[at : at + 1] in (b"'", b'"'):
                    at = self._past_quote(at, end)
                else:
                    at += 2 if self.source[at : at + 1] == b"\\" else 1
            words.append(read_word(self.source, start, min(at, end), self.expansions, self.known))
        for word, after in itertools.pairwise([*words, Word("")]):
            after = word if word.glob else after  # which may be the names of several files
            if any(_may_be(word, flag) for flag in ("-v", "-R")) and (
                after.glob or DYNAMIC in after.text or "[" in after.text
            ):
                raise Mismatch("a test that is not understood")

    def _parted(self, text: str) -> None:
        """Note an expansion that bash parts into words."""
        if re.fullmatch(r"\$(?:\(\(.*\)\)|\[.*\]|[#?$!-]|\{#.*\})", text, re.DOTALL) or COUNTING.fullmatch(text):
            return
        if re.search(r"\$\(|`|[<>]\(|\[", text):
            raise Mismatch("a test of what is only known in a run, and may be an expression")
        self.tested.update(re.findall(r"\$[{!#]*([A-Za-z_]\w*|\d+|[@*])", text))

    def _is_tame(self, name: str) -> bool:
        """Whether a variable surely has no value that is an option, or an expression in a test."""
        if name in self.tame:
            return self.tame[name]
        if not name[0].isalpha() and name[0] != "_":
            return not self.nested and not self.functions
        return not self.nested and not _GIVEN_BY_BASH.fullmatch(name)

    def _blanked(self, start: int, end: int) -> str:
        """The source between, with quoted text and expansions taken out."""
        out, at = b"", start
        while at < end:
            stop = self.expansions.get(at)
            sign = self.source[at : at + 1]
            if stop is not None:
                at = stop
                out += b"x"
            elif sign in (b"'", b'"'):
                at = self._past_quote(at, end)
                out += b"x"
            elif sign == b"\\":
                at += 2
                out += b"x"
            else:
                out += sign
                at += 1
        return out.decode(errors="replace")

    def _past_quote(self, at: int, end: int) -> int:
        quote = self.source[at : at + 1]
        at += 1
        while at < end and self.source[at : at + 1] != quote:
            if quote == b'"' and at in self.expansions:
                at = self.expansions[at]
                continue
            if (
                quote == b'"'
                and self.source[at : at + 1] in (b"`", b"$")
                and re.match(rb"`|\$[({]", self.source[at : at + 2])
            ):
                raise Mismatch("an expansion that is not understood")
            at += 2 if quote == b'"' and self.source[at : at + 1] == b"\\" else 1
        if at >= end:
            raise Mismatch("a quote that is not closed")
        return at + 1

    def _assigned(self, name: str, numeric: bool, tame: bool = False) -> None:
        self.assigned[name] = self.assigned.get(name, True) and numeric
        self.tame[name] = self.tame.get(name, True) and (numeric or tame)

    def _is_number(self, name: str) -> bool:
        """Whether a variable surely holds a number, or nothing."""
        if name in self.assigned:
            return self.assigned[name]
        # what bash or the line around gives a value to may be any text
        return not self.nested and (name in COUNTERS or re.fullmatch(r"[a-z]\w*", name) is not None)

    def _taint_by(self, words: tuple[Word, ...]) -> None:
        """Note the variables that a builtin may give a value to."""
        at = 0
        while at < len(words) and (words[at].text in _BEFORE_BUILTINS or (at and words[at].text.startswith("-"))):
            at += 1
        words = words[at:]
        if not words:
            return
        name = words[0].text
        if not words[0].static or name in _RUNNING:
            self.tainted = True
        elif name in _GIVING and not (name == "printf" and len(words) > 1 and _prints(words[1])):
            self.tainted = self.tainted or not all(word.static for word in words)
            self.assigned.update((word.text, False) for word in words[1:])
            self.tame.update((word.text, False) for word in words[1:])
            self.arrays = self.arrays or name != "read" or any(re.match(r"-\w*a", word.text) for word in words)
            if name in ("read", "mapfile", "readarray") and not all(word.plain for word in words):
                raise Mismatch("names of variables that are not written plainly")


_BEFORE_BUILTINS = frozenset(["builtin", "command", "time"])
_RUNNING = frozenset(["eval", "source", ".", "trap", "alias"])
_GIVING = frozenset(["declare", "getopts", "let", "local", "mapfile", "printf", "read", "readarray", "typeset", "wait"])


COUNTING = re.compile(
    r"(?:\$\(|`)\s*(?:(?:[^;&`\n()]*\|)?\s*wc(?: -[lwcm]+)*(?: *< *[\w./-]+)?|nproc|id -[ug]|date \+%s)\s*[)`]"
)
"""Substitutions that print a number and nothing else."""
_GIVEN_BY_BASH = re.compile(
    r"_|REPLY|OPTARG|MAPFILE|COPROC.*|COMP_.*|READLINE_.*|BASH_.*|FUNCNAME|DIRSTACK|(?:OLD)?PWD"
)
"""Variables in which bash puts what it was given elsewhere."""


def is_tame(text: str) -> bool:
    """Whether a value, once it is parted into words, is neither an option nor an expression that bash evaluates."""
    return not text.startswith("-") and re.search(r"[\[\s]", text) is None


def _may_be(word: Word, flag: str) -> bool:
    if DYNAMIC not in word.text and not word.glob:
        return word.text == flag
    pieces = re.split(rf"{DYNAMIC}|\*" if word.glob else DYNAMIC, word.text)
    wanted = ".*".join(re.escape(piece) for piece in pieces)
    return re.fullmatch(wanted.replace(r"\?", ".") if word.glob else wanted, flag) is not None


def _prints(first: Word) -> bool:
    """Whether ``printf`` with that argument prints, and does not give a variable a value."""
    return not first.text.startswith((DYNAMIC, "-"))


def text_of(node: Node) -> str:
    return (node.text or b"").decode()


def _numeric_part(raw: str) -> str:
    return " ".join(re.findall(r"\$\{?[A-Za-z_]\w*", raw))


def _plain_numbers(raw: str) -> bool:
    """Whether each side of a numeric comparison is a number, a count or one variable."""
    side = r"\"?(?:-?\d+|\$#|\$\?|\$\{#\w+(?:\[[@*]\])?\}|\$\{?[A-Za-z_]\w*\}?)\"?"
    found = re.findall(rf"(?:^|[\s(])({side})\s+-(?:eq|ne|lt|le|gt|ge)\s+({side})(?=[\s)]|$)", raw)
    return len(found) == len(re.findall(r"\s-(?:eq|ne|lt|le|gt|ge)\s", raw))
