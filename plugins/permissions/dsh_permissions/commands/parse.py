"""From a command line to the simple commands and redirections in it.

A grammar of bash says where things are; every word that it found is then read once more, sign by sign, and every gap
between them must be blank.  What the two readings do not agree on is `Opaque`, and so is whatever no static reading
could tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal

from attrs import evolve

from .assigning import Assigning
from .inside import EXPANSIONS, NUMBER, is_tame, text_of
from .items import Assignment, Command, Item, Opaque, Redirect, Script, shown
from .words import Mismatch, Word, odd_sign

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["Assignment", "Command", "Item", "Opaque", "Redirect", "Script", "grammar", "is_one_command", "parse"]

MAX_BYTES = 16_000
MAX_DEPTH = 60
MAX_ITEMS = 300


@cache
def grammar() -> Parser:
    """What reads commands, loaded when it is first needed."""
    # Loading the grammar takes some milliseconds, which only those pay who judge a command.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(text: str, known: Mapping[str, str], *, nested: bool = False) -> Script:
    """Read a command line.

    Args:
        known: variables that have these values unless `text` assigns them, and ``HOME`` for the tilde.
        nested: another line runs this one, and may have given any value to its variables.
    """
    if is_one_command(text):
        return Script((Command(tuple(Word(word) for word in text.split(" ")), text, exported=True),))
    odd = odd_sign(text)
    if odd is not None:
        return Script((Opaque(shown(text), f"the invisible sign {odd!r}"),))
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return Script((Opaque(shown(text), "signs that are no text"),))
    if len(source) > MAX_BYTES:
        return Script((Opaque(shown(text), f"more than {MAX_BYTES} bytes"),))
    return _Walk(source, known, nested).script()


def is_one_command(text: str) -> bool:
    """Whether a line can be read without the grammar."""
    if _ONE_COMMAND.fullmatch(text) is None:
        return False
    first = text.partition(" ")[0]
    return first not in _RESERVED and first not in _DECLARING


_BLOCKS = {
    "program",
    "list",
    "pipeline",
    "subshell",
    "compound_statement",
    "negated_command",
    "if_statement",
    "elif_clause",
    "else_clause",
    "while_statement",
    "do_group",
    "variable_assignments",
}
_ONE_COMMAND = re.compile(r"[A-Za-z0-9_./-]{1,200}(?: [A-Za-z0-9_./=:,@%+-]{1,200}){0,50}")
"""A line whose words no shell would read otherwise than they are written; no grammar is needed for it."""
_RESERVED = frozenset(
    [
        "!",
        "[[",
        "]]",
        "{",
        "}",
        "case",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "until",
        "while",
    ]
)
_REST_OF_LINE = re.compile(rb"""(?:[^'"`\\\\$(\n]|'[^'\n]*'|"[^"`\\\\$\n]*"|\$\w+)*""")
"""What may stand behind the start of a here-document, so that its text surely begins in the next line."""
_DECLARING = frozenset(["declare", "export", "local", "readonly", "typeset", "unset"])


class _Walk(Assigning):
    """Walks the statements."""

    def script(self) -> Script:
        root = grammar().parse(self.source).root_node
        if root.has_error:
            return Script((Opaque(shown(self.source.decode()), "this is not understood as bash"),))
        try:
            self._look_over(root)
            self._statement(root, 0)
        except Mismatch as problem:
            return Script((*self.items, Opaque(shown(self.source.decode()), str(problem))))
        for name in self.counted:
            if self.tainted or not self._is_number(name):
                self.items.append(Opaque(name, "arithmetic on text, which bash would evaluate"))
        for name in sorted(self.tested):
            if self.tainted or not self._is_tame(name):
                self.items.append(Opaque(name, "a test of text that is not in quotes, and may be an expression"))
        if self.declared and (self.arrays or self.tainted or self.nested):
            self.items.append(Opaque(shown(self.source.decode()), "text that bash may take for a list, and evaluate"))
        return Script(
            tuple(map(self._tamed, self.items)), frozenset(self.functions), bool(self.functions) or self.loops
        )

    def _tamed(self, item: Item) -> Item:
        """The command with what is known by now of the variables that its words begin with."""
        if not isinstance(item, Command) or self.tainted or not any(word.begins for word in item.words):
            return item
        words = (evolve(word, tame=True) if word.begins and self._is_tame(word.begins) else word for word in item.words)
        return evolve(item, words=tuple(words))

    def _look_over(self, root: Node) -> None:
        """Find the expansions and assigned names, and check that nothing but blanks was skipped."""
        if _JOINED.search(self.source):
            raise Mismatch("a line that goes on where it makes another sign of what stands before")
        known, at, heredoc = dict(self.known), 0, 0
        for node, depth in _descend(root):
            if depth > MAX_DEPTH:
                raise Mismatch("nested too deeply")
            kind = node.type
            if kind in EXPANSIONS:
                start = node.start_byte  # the grammar counts blanks before it in, where a string has them
                while self.source[start : start + 1] in (b" ", b"\t", b"\n"):
                    start += 1
                self.expansions[start] = max(node.end_byte, self.expansions.get(start, 0))
            elif kind == "variable_name":
                parent = node.parent
                if parent is not None and parent.type != "simple_expansion" and parent.type != "expansion":
                    known.pop(text_of(node), None)
            elif kind == "heredoc_redirect":
                heredoc = max(heredoc, node.end_byte)  # `_heredoc` looks at those lines
            elif kind == "command_name" and text_of(node).lstrip("\\") in ("cd", "pushd", "popd", "unset", "export"):
                known.pop("PWD", None)
            if node.child_count == 0:
                if at >= heredoc:
                    self._blank(at, node.start_byte)
                at = max(at, node.end_byte)
        self._blank(max(at, heredoc), len(self.source))
        if b"=" in self.source or b"read" in self.source:
            for name in [name for name in known if _assigns(self.source, name)]:
                del known[name]
        self.known = known

    def _statement(self, node: Node, depth: int) -> None:
        kind = node.type
        if len(self.items) > MAX_ITEMS:
            raise Mismatch(f"more than {MAX_ITEMS} commands")
        if node.is_missing or kind == "ERROR":
            raise Mismatch("this is not understood as bash")
        if not node.is_named or kind == "file_descriptor":
            return
        if kind == "compound_statement" and self.source[node.start_byte : node.start_byte + 2] == b"((":
            self.items.append(Command((), self._raw(node)))
            self._arithmetic(node)
        elif kind in _BLOCKS:
            first = self.source[node.start_byte : node.start_byte + 2]
            if kind in ("compound_statement", "negated_command") and first[1:] not in (b" ", b"\t", b"\n"):
                raise Mismatch("a word that only looks like a brace")
            self.loops = self.loops or kind == "do_group"
            for child in node.children:
                self._statement(child, depth + 1)
        else:
            self.loops = self.loops or "for_statement" in kind
            handler = getattr(self, f"_on_{kind}", None)
            if handler is None:
                raise Mismatch(f"a {kind.replace('_', ' ')}, which is not judged")
            handler(node, depth + 1)

    def _on_comment(self, node: Node, depth: int) -> None:
        before = self.source[node.start_byte - 1 : node.start_byte]
        if node.start_byte and before not in (b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")"):
            raise Mismatch("a comment that is none")
        if re.search(rb"\\\s\Z", self.source[: node.start_byte]):  # an escaped blank, or a line that goes on
            raise Mismatch("a comment that is none")
        stop = self.source.find(b"\n", node.start_byte)
        if node.end_byte != (len(self.source) if stop < 0 else stop):
            raise Mismatch("a comment that does not end with its line")

    def _on_command(self, node: Node, depth: int) -> None:
        spans, assigns = [], []
        named = False
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                assigns.append(child)
            elif kind == "command_name":
                if text_of(child) == "" or child.has_error:
                    raise Mismatch("a command without a name")
                spans.append(child)
                named = True
            elif kind in ("file_redirect", "herestring_redirect"):
                spans += self._redirect(child, depth)
            elif child.is_missing:
                raise Mismatch("this is not understood as bash")
            else:
                spans.append(child)
        if not named:
            raise Mismatch("a command without a name")
        self._command(spans, assigns, node, depth)

    def _command(self, spans: list[Node], assigns: list[Node], node: Node, depth: int) -> None:
        words = self._words(spans)
        taken = tuple(found for child in assigns if (found := self._assign(child)) is not None)
        for child in (*spans, *assigns):
            self._inside(child, depth)
        first = words[0] if words else None
        if first is not None:
            if first.plain and first.text in _RESERVED:
                raise Mismatch(f"{first.text} where no command is expected")
            self._taint_by(words)
        shown = " ".join(self._raw(span) for span in (*assigns, *spans)) if words else self._raw(node)
        self.items.append(Command(words, shown, taken, exported=bool(words)))

    def _on_redirected_statement(self, node: Node, depth: int) -> None:
        body = node.child_by_field_name("body")
        extra: list[Node] = []
        heredoc = [child for child in node.children if child.type == "heredoc_redirect"]
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                extra += self._redirect(child, depth)
            elif child.type != "heredoc_redirect" and child != body:
                self._statement(child, depth)
        if body is not None:
            if extra and body.type == "command":
                self._with_more(body, extra, depth)
            elif extra:
                raise Mismatch("words behind a redirection")
            else:
                self._statement(body, depth)
        elif extra:
            self._command(extra, [], node, depth)
        for child in heredoc:
            self._heredoc(child, depth)

    def _with_more(self, body: Node, extra: list[Node], depth: int) -> None:
        """A command whose last words stand behind a redirection."""
        assigns = [child for child in body.children if child.type == "variable_assignment"]
        own = [child for child in body.children if child.type not in ("variable_assignment", "file_redirect")]
        redirects = [child for child in body.children if child.type == "file_redirect"]
        for child in redirects:
            if self._redirect(child, depth):
                raise Mismatch("words behind a redirection")
        words = (*self._words(own), *(self._word(span) for span in extra))
        taken = tuple(found for child in assigns if (found := self._assign(child)) is not None)
        for child in (*own, *extra, *assigns):
            self._inside(child, depth)
        if words[0].plain and words[0].text in _RESERVED:
            raise Mismatch(f"{words[0].text} where no command is expected")
        self._taint_by(words)
        self.items.append(Command(words, " ".join(self._raw(span) for span in (*own, *extra)), taken, exported=True))

    def _redirect(self, node: Node, depth: int) -> list[Node]:
        """Note what a redirection opens; the words behind its target, which are the command's."""
        operator, *rest = [child for child in node.children if child.type != "file_descriptor"]
        if _NAMES_A_VARIABLE.search(self.source[: operator.start_byte].replace(b"\\\n", b"")):
            raise Mismatch("a redirection that assigns a variable")
        if not rest:
            if operator.type in ("<&-", ">&-"):
                return []
            raise Mismatch("a redirection without a target")
        target, more = rest[0], rest[1:]
        self._inside(target, depth)
        if operator.type == "<<<":
            if more:
                raise Mismatch("words behind a redirection")
            self._word(target)
            return []
        if more:
            gap = self.source[target.end_byte : more[0].start_byte]
            if not gap.replace(b"\\\n", b"") or b"\n" in gap.replace(b"\\\n", b""):
                raise Mismatch("words that are not parted as they seem")
            self._words(more)
        word = self._word(target)
        if operator.type in (">&", "<&") and (re.fullmatch(r"\d+-?|-", word.text) and word.plain):
            return more
        access: Literal["read", "write"] = "read" if operator.type in ("<", "<&") else "write"
        if operator.type not in ("<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"):
            raise Mismatch("a redirection that is not judged")
        if target.type != "process_substitution":
            self.items.append(Redirect(access, word, f"{operator.type} {self._raw(target)}"))
        return more

    def _on_file_redirect(self, node: Node, depth: int) -> None:
        if self._redirect(node, depth):
            raise Mismatch("words behind a redirection")

    def _on_herestring_redirect(self, node: Node, depth: int) -> None:
        self._redirect(node, depth)

    def _heredoc(self, node: Node, depth: int) -> None:
        """Check that the text ends where bash ends it, and read what is substituted in it."""
        start, end, body = None, None, None
        for child in node.children:
            if child.type == "heredoc_start":
                start = child
            elif child.type == "heredoc_end":
                end = child
            elif child.type == "heredoc_body":
                body = child
            elif child.type in ("file_redirect", "herestring_redirect"):
                if self._redirect(child, depth):
                    raise Mismatch("words behind a redirection")
            elif child.is_named and child.type != "file_descriptor":
                self._statement(child, depth)
        if start is None or end is None:
            raise Mismatch("a here-document that is not understood")
        raw = self.source[start.start_byte : start.end_byte]
        quoted = re.fullmatch(rb"'([\w.-]+)'|\"([\w.-]+)\"|\\?([\w.-]+)", raw)
        line_end = self.source.find(b"\n", start.end_byte)
        line = self.source[self.source.rfind(b"\n", 0, start.start_byte) + 1 : line_end]
        simple = _REST_OF_LINE.fullmatch(self.source, start.end_byte, max(line_end, start.end_byte))
        if quoted is None or line_end < 0 or simple is None or line.count(b"<<") != 1:
            raise Mismatch("a here-document that is not understood")
        delimiter = quoted[1] or quoted[2] or quoted[3]
        tabs = node.children[0].type == "<<-" or any(child.type == "<<-" for child in node.children)
        at = line_end + 1
        while True:
            stop = self.source.find(b"\n", at)
            while raw == delimiter and stop >= 0 and _GOES_ON.search(self.source, at, stop):
                stop = self.source.find(b"\n", stop + 1)
            line = self.source[at : len(self.source) if stop < 0 else stop]
            if b"\n" in line and (line.replace(b"\\\n", b"").lstrip(b"\t") == delimiter):
                raise Mismatch("a here-document that ends in pieces")
            if (line.lstrip(b"\t") if tabs else line) == delimiter:
                break
            if stop < 0:
                raise Mismatch("a here-document that does not end")
            at = stop + 1
        if not at <= end.start_byte <= at + len(line) or self.source[end.start_byte : end.end_byte] != delimiter:
            raise Mismatch("a here-document that ends elsewhere")
        content = self.source[line_end + 1 : at]
        if raw == delimiter and body is not None:
            self._inside(body, depth)
            self._no_more_than(content, line_end + 1)

    def _on_for_statement(self, node: Node, depth: int) -> None:
        name = ""
        values = []
        for child in node.children:
            if child.type == "variable_name":
                name = text_of(child)
            elif child.type == "do_group" or child.type == "compound_statement":
                self._statement(child, depth)
            elif child.is_named and child.type != "comment":
                values.append(child)
        words = self._words(values)
        tame = all(word.static and not word.glob and is_tame(word.text) for word in words)
        self._assigned(name, bool(words) and all(NUMBER.fullmatch(word.text) for word in words), tame and bool(words))
        self.items.append(Command((), f"for {name}", (Assignment(name, None),)))
        for child in values:
            self._inside(child, depth)

    def _on_c_style_for_statement(self, node: Node, depth: int) -> None:
        body = node.child_by_field_name("body")
        assert body is not None
        self._check_arithmetic(node, self.source[node.start_byte : body.start_byte].removeprefix(b"for"))
        self._statement(body, depth)

    def _on_case_statement(self, node: Node, depth: int) -> None:
        for child in node.children:
            if child.type == "case_item":
                self._case_item(child, depth)
            elif child.is_named and child.type != "comment":
                self._inside(child, depth)
                self._word(child)

    def _case_item(self, node: Node, depth: int) -> None:
        values = node.children_by_field_name("value")
        for child in node.children:
            if child in values:
                self._word(child)
                self._inside(child, depth)
            else:
                self._statement(child, depth)

    def _on_function_definition(self, node: Node, depth: int) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None or not re.fullmatch(r"[A-Za-z_][\w-]*", text_of(name)):
            raise Mismatch("a function that is not understood")
        self.functions.add(text_of(name))
        for child in node.children:
            if child != name:
                self._statement(child, depth)


_JOINED = re.compile(rb"[$(<>`{\[!#=*?](?:\\\n)+|\$\{?\w+(?:\\\n)+\w")
"""The end of a line that bash takes out before it reads what stands around it: a `$` before a parenthesis, say."""
_GOES_ON = re.compile(rb"(?<!\\)(?:\\\\)*\\\Z")
"""A line of a here-document that is one with the next."""
_NAMES_A_VARIABLE = re.compile(rb"\{[A-Za-z_]\w*(?:\[[^\]]*\])?\}\Z")
"""What before a redirection has bash put the number of the file into a variable."""


def _assigns(source: bytes, name: str) -> bool:
    return re.search(rb"(?<![$\w{])" + name.encode() + rb"(?!\w)", source) is not None


def _descend(root: Node) -> Iterator[tuple[Node, int]]:
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack += [(child, depth + 1) for child in reversed(node.children)]
