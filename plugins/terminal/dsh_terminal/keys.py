"""What keys do in a conversation on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, has_completions, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .screen import Cancel, Leave, Suspend, Toggle

if TYPE_CHECKING:
    from .live import LiveScreen

__all__ = ["keys_of"]


def keys_of(screen: LiveScreen) -> KeyBindings:
    """The keys beside those of prompt_toolkit."""
    keys = KeyBindings()
    running = Condition(lambda: screen.running)
    empty = Condition(lambda: screen.entry.is_empty)

    @keys.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the proposal stands
            return
        screen.entered(queued=False)

    @keys.add("tab", filter=running & ~has_completions)
    def _(event: KeyPressEvent) -> None:
        text = event.current_buffer.text
        word = event.current_buffer.document.get_word_before_cursor(WORD=True)
        if text.strip() and not text.startswith("/") and not word.startswith("@"):
            screen.entered(queued=True)
        else:
            event.current_buffer.start_completion(select_first=True)

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    # with vi's keys Esc leaves the mode of insertion first
    stops = running & ~has_completions & ~is_searching & ~vi_insert_mode

    @keys.add("escape", filter=stops)
    def _(event: KeyPressEvent) -> None:
        screen.tell(Cancel())

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        screen.interrupted()

    @keys.add("c-d", filter=empty)
    def _(event: KeyPressEvent) -> None:
        screen.tell(Leave())

    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        screen.edit()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        screen.tell(Suspend())

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        screen.tell(Toggle("output"))

    @keys.add("c-t")
    def _(event: KeyPressEvent) -> None:
        screen.tell(Toggle("reasoning"))

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        screen.entry.paste(event.data)

    return keys
