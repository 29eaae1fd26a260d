"""The table ``[terminal]``."""

from __future__ import annotations

from attrs import frozen

__all__ = ["TerminalConfig"]


@frozen
class TerminalConfig:
    """How conversations look.

    Attributes:
        vi: vi's keys in place of emacs'.
        plain: lines only; nothing moves.  For screen readers.
        reasoning: show what the model thinks.
        bell: ring when a turn has taken so many seconds; 0 never does.
        notify: with the bell, show a notification, where the terminal can (OSC 9).
        history: keep what is entered, a file for each folder.
        theme: colours of code: ``dark``, ``light``, a style of Pygments, or ``none`` for no colours at all.
    """

    vi: bool = False
    plain: bool = False
    reasoning: bool = False
    bell: float = 0.0
    notify: bool = False
    history: bool = True
    theme: str = "dark"
