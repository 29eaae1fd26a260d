"""Assignments and declarations of variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .inside import COUNTING, NUMBER, Inside, is_tame, text_of
from .items import Assignment, Command
from .words import DYNAMIC, Mismatch, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Assigning"]


class Assigning(Inside):
    """Reads what gives variables a value."""

    def _on_variable_assignment(self, node: Node, depth: int) -> None:
        found = self._assign(node)
        self._inside(node, depth)
        if found is not None:
            self.items.append(Command((), self._raw(node), (found,)))

    def _assign(self, node: Node) -> Assignment | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        assert name is not None
        ends = [child.start_byte for child in node.children[1:]]
        if ends != [child.end_byte for child in node.children[:-1]]:
            raise Mismatch("an assignment in pieces")
        if name.type != "variable_name":
            index = re.fullmatch(r"([A-Za-z_]\w*)\[\d+\]", text_of(name))
            if index is None:
                raise Mismatch("an index, which bash would evaluate")
            self._assigned(index[1], False)
            self.arrays = True
            return Assignment(index[1], None)
        text: str | None = ""
        if value is not None and value.type == "array":
            for child in value.children:
                if child.is_named and self._word(child).text.startswith("["):
                    raise Mismatch("an index, which bash would evaluate")
            text = None
            self.arrays = True
        elif value is not None:
            word = self._word(value)
            text = word.text if word.static else None
        numeric = (
            value is None or value.type in ("number", "arithmetic_expansion") or bool(NUMBER.fullmatch(text or ""))
        )
        tame = text is not None and is_tame(text)
        self._assigned(text_of(name), numeric, tame or self._counts(value))
        return Assignment(text_of(name), text)

    def _counts(self, value: Node | None) -> bool:
        return value is not None and COUNTING.fullmatch(text_of(value).strip('"')) is not None

    def _on_declaration_command(self, node: Node, depth: int) -> None:
        keyword = node.children[0]
        words: list[Node] = []
        taken = []
        for child in node.children:
            if child.type == "variable_assignment":
                found = self._assign(child)
                self._check_declared(child)
                if found is not None:
                    taken.append(found)
            elif child.type == "variable_name":
                taken.append(Assignment(text_of(child), ""))
            else:
                words.append(child)
            self._inside(child, depth)
        flags = tuple(read_word(self.source, n.start_byte, n.end_byte, self.expansions, self.known) for n in words[1:])
        if not all(flag.plain and re.fullmatch(r"[-+][aArxgfFp]+", flag.text) for flag in flags):
            raise Mismatch(f"what {text_of(keyword)} does here")
        self.arrays = self.arrays or any(re.search(r"[aA]", flag.text) for flag in flags)
        if not re.fullmatch(rb"[\w\s]*", self.source[keyword.start_byte : keyword.end_byte]):
            raise Mismatch("a declaration that is not understood")
        if not taken:
            raise Mismatch(f"{text_of(keyword)} that shows variables")
        exports = text_of(keyword) in ("export",) or any("x" in flag.text for flag in flags)
        self.items.append(Command((), self._raw(node), tuple(taken), exported=exports))

    def _check_declared(self, node: Node) -> None:
        """Note a value that bash would read as a list, if the variable is one, and run what is substituted in it."""
        value = node.child_by_field_name("value")
        if value is None or value.type == "array":
            return
        word = self._word(value)
        if word.text.startswith("("):
            raise Mismatch("a list in quotes, which bash would evaluate")
        self.declared = self.declared or word.text.startswith(DYNAMIC)

    def _on_unset_command(self, node: Node, depth: int) -> None:
        for child in node.children[1:]:
            if child.type != "variable_name" and not re.fullmatch(r"-[fv]|[A-Za-z_]\w*", text_of(child)):
                raise Mismatch("what unset does here")
        names = tuple(
            Assignment(text_of(child), "") for child in node.children[1:] if not text_of(child).startswith("-")
        )
        self.items.append(Command((), self._raw(node), names))
