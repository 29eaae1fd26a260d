"""Words of the shell: what a program would be given for what is written, as far as the text alone tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import frozen

from dsh.patterns import late

__all__ = ["DYNAMIC", "Mismatch", "Word", "odd_sign", "read_word"]

DYNAMIC = "\0"
"""Stands in a word's text for what only a run would know."""

HARD_BLANKS = "\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u2069\u3000\ufeff\u0085"
_ODD = late(f"[\x00-\x08\x0b-\x1f\x7f{HARD_BLANKS}]")
_META = frozenset(b";&|<>() \t\n")
_NAME = re.compile(rb"\$([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}")
_EXPANSION = re.compile(rb"\$[A-Za-z_]\w*|\$\d|\$[@*#?$!-]|\$[({\[].*|`.*`", re.DOTALL)
_BRACES = re.compile(rb"\{[^{}\s]*\}")
_STARTS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@*#?$!-({['\"")
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"E": b"\x1b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b"'": b"'",
    b'"': b'"',
    b"?": b"?",
}
_CODE = re.compile(rb"x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})")


class Mismatch(Exception):
    """The text is not what the grammar took it for, or cannot be read."""


@frozen
class Word:
    """A word as a program would get it.

    Attributes:
        text: without its quotes; `DYNAMIC` stands where only a run knows, so that it may be several words, or none.
        glob: it has signs that bash replaces by names of files.
        plain: nothing of it was quoted or escaped.
        begins: the variable whose value it begins with, where that is not known.
        tame: what it begins with is surely no option.
    """

    text: str
    glob: bool = False
    plain: bool = True
    begins: str = ""
    tame: bool = False

    @property
    def static(self) -> bool:
        """Whether its text is all there is to it."""
        return DYNAMIC not in self.text

    @property
    def loose(self) -> bool:
        """Whether it may be an option, and nobody can tell which."""
        return self.text.startswith(DYNAMIC) and not self.tame


Expansions = Mapping[int, int]
"""Where an expansion begins in the source, and where it ends."""


def read_word(source: bytes, start: int, end: int, expansions: Expansions, known: Mapping[str, str]) -> Word:
    """The word that stands in ``source[start:end]``.

    Args:
        expansions: what the grammar found between, which is `DYNAMIC` unless it is a variable of `known`.
        known: variables with the values that they surely have, and ``HOME`` for the tilde.

    Raises:
        Mismatch: the text holds what ends a word, or a quote or an expansion that the grammar does not know of.
    """
    return _Reader(source, start, end, expansions, known).read()


class _Reader:
    def __init__(self, source: bytes, start: int, end: int, expansions: Expansions, known: Mapping[str, str]) -> None:
        self.source, self.start, self.at, self.end = source, start, start, end
        self.expansions, self.known = expansions, known
        self.out: list[bytes] = []
        self.glob = False
        self.plain = True
        self.meta = False  # quoted signs that would be a pattern's if they were not
        self.begins = ""
        self.braces = b""  # the unquoted text, with a sign that is no brace for everything else

    def read(self) -> Word:
        self._tilde()
        while self.at < self.end:
            sign = self.source[self.at : self.at + 1]
            handler = _HANDLERS.get(sign, _Reader._literal)
            handler(self)
        if self.at != self.end:
            raise Mismatch("a word that is not closed")
        if _has_braces(self.braces) or (self.glob and self.meta):
            self._unknown()
        try:
            text = b"".join(self.out).decode()
        except UnicodeDecodeError:
            raise Mismatch("text that is not UTF-8") from None
        return Word(text, self.glob, self.plain, self.begins)

    def _unknown(self) -> None:
        self.out.append(DYNAMIC.encode())

    def _tilde(self) -> None:
        if self.source[self.at : self.at + 1] != b"~":
            return
        name = re.compile(rb"~([^/\s:'\"\\$`]*)").match(self.source, self.at, self.end)
        assert name is not None
        after = self.source[name.end() : name.end() + 1] if name.end() < self.end else b""
        if name[1] or after not in (b"", b"/") or "HOME" not in self.known:
            self._unknown()
        else:
            self.out.append(self.known["HOME"].encode())
        self.plain = False
        self.at = name.end()

    def _literal(self) -> None:
        code = self.source[self.at]
        if code in _META:
            raise Mismatch("a sign that ends a word")
        self._take(self.source[self.at : self.at + 1])

    def _take(self, sign: bytes) -> None:
        if len(sign) == 1 and sign[0] >= 0x80:  # a whole character, to look at it
            stop = self.at + 1
            while stop < self.end and 0x80 <= self.source[stop] < 0xC0:
                stop += 1
            sign = self.source[self.at : stop]
            if _ODD.match(sign.decode(errors="replace")):
                raise Mismatch("an unusual blank")
        if sign in (b"*", b"?", b"["):
            self.glob = True
        self.out.append(sign)
        self.braces += sign
        self.at += len(sign)

    def _escape(self) -> None:
        following = self.source[self.at + 1 : self.at + 2]
        if self.at + 1 >= self.end:
            raise Mismatch("a backslash at the end")
        self.plain = False
        if following != b"\n":
            if following[0] >= 0x80:
                self.at += 1
                self._literal()
                return
            self.out.append(following)
            self.braces += b"x"
            self.meta = self.meta or following in (b"*", b"?", b"[", b"]")
        self.at += 2

    def _single(self) -> None:
        close = self.source.find(b"'", self.at + 1, self.end)
        if close < 0:
            raise Mismatch("a quote that is not closed")
        self._quoted(self.source[self.at + 1 : close], close + 1)

    def _quoted(self, text: bytes, after: int) -> None:
        self.out.append(text)
        self.meta = self.meta or re.search(rb"[][*?\\]", text) is not None
        self.braces += b"x"
        self.plain = False
        self.at = after

    def _double(self) -> None:
        self.at += 1
        self.plain = False
        self.braces += b"x"
        while self.at < self.end:
            sign = self.source[self.at : self.at + 1]
            if sign == b'"':
                self.at += 1
                return
            if sign == b"\\":
                following = self.source[self.at + 1 : self.at + 2]
                if following in (b"$", b"`", b'"', b"\\"):
                    self.out.append(following)
                elif following != b"\n":
                    self.out.append(sign + following)
                self.at += 2
            elif sign in (b"$", b"`"):
                self._expansion(quoted=True)
            else:
                self.out.append(sign)
                self.meta = self.meta or sign in (b"*", b"?", b"[", b"]")
                self.at += 1
        raise Mismatch("a quote that is not closed")

    def _expansion(self, quoted: bool = False) -> None:
        stop = self.expansions.get(self.at)
        if stop is not None and stop <= self.end:
            name = _NAME.fullmatch(self.source, self.at, stop)
            if not _EXPANSION.fullmatch(self.source, self.at, stop):
                raise Mismatch("an expansion that is not understood")
            value = self.known.get((name[1] or name[2]).decode()) if name else None
            if value is None:
                if name and not any(self.out):
                    self.begins = (name[1] or name[2]).decode()
                self._unknown()
            else:
                self.out.append(value.encode())
            self.braces += b"x"
            self.plain = False
            self.at = stop
            return
        following = self.source[self.at + 1 : self.at + 2] if self.at + 1 < self.end else b""
        if not quoted and following == b"'":
            self._ansi()
        elif self.source[self.at : self.at + 1] == b"$" and (
            not following or (quoted and following == b'"') or following[0] not in _STARTS
        ):
            self.out.append(b"$")
            self.at += 1
        else:
            raise Mismatch("an expansion that is not understood")

    def _ansi(self) -> None:
        at, out = self.at + 2, b""
        while at < self.end:
            sign = self.source[at : at + 1]
            if sign == b"'":
                if b"\0" in out:
                    raise Mismatch("a NUL")
                self._quoted(out, at + 1)
                return
            if sign != b"\\":
                out += sign
                at += 1
                continue
            code = _CODE.match(self.source, at + 1, self.end)
            following = self.source[at + 1 : at + 2]
            if code:
                out += _coded(code)
                at = code.end()
            elif following in _ESCAPES:
                out += _ESCAPES[following]
                at += 2
            elif following == b"c":
                raise Mismatch("a control character")
            else:
                out += sign + following
                at += 2
        raise Mismatch("a quote that is not closed")

    def _process(self) -> None:
        stop = self.expansions.get(self.at)
        if stop is None or stop > self.end:
            raise Mismatch("a sign that ends a word")
        if self.at == self.start and stop == self.end:  # a pipe, whose other end is judged
            self.out.append(b"/dev/stdin" if self.source[self.at] == ord("<") else b"/dev/stdout")
            self.plain = False
        else:
            self._unknown()
        self.at = stop


_HANDLERS: dict[bytes, Callable[[_Reader], None]] = {
    b"\\": _Reader._escape,
    b"'": _Reader._single,
    b'"': _Reader._double,
    b"$": _Reader._expansion,
    b"`": _Reader._expansion,
    b"<": _Reader._process,
    b">": _Reader._process,
}


def _has_braces(text: bytes) -> bool:
    """Whether bash may take braces in `text` for a list, or for one in another."""
    if b"," not in text and b".." not in text:
        return False
    second = text.find(b"{", text.find(b"{") + 1) if b"{" in text else -1
    if second >= 0 and (b"," in text[second:] or b".." in text[second:]):
        return True
    return any(b"," in found[0] or b".." in found[0] for found in _BRACES.finditer(text))


def _coded(code: re.Match[bytes]) -> bytes:
    number = int(code[1] or code[3] or code[4], 16) if code[2] is None else int(code[2], 8)
    if not code[3] and not code[4]:
        return bytes([number & 0xFF])
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise Mismatch("a code that is no character")
    return chr(number).encode()


def odd_sign(text: str) -> str | None:
    """A control character or blank of `text` that has no place in a command; None if there is none."""
    found = re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", text)
    return None if found is None else found[0]
