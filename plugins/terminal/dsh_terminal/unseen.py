"""The line of input as it is shown: what joins, restyles, turns round or has no width is not left to the terminal."""

from __future__ import annotations

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from .cells import shown

__all__ = ["Unseen"]


class Unseen(Processor):
    """Shows such signs as escapes, and what joins emoji not at all; the text itself stays as it was typed.

    Terminals draw them in ways that differ, so that the cursor would not stand where it is.
    """

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """A line, and which of its places is where on the screen."""
        fragments = transformation_input.fragments
        if all(text.isascii() for _, text, *_ in fragments):
            return Transformation(fragments)
        found: StyleAndTextTuples = []
        places = [0]
        for style, text, *_ in fragments:
            for sign in text:
                seen = _seen(sign)
                places.append(places[-1] + len(seen))
                if seen:
                    found.append((style, seen))
        return Transformation(
            found,
            source_to_display=lambda place: places[min(place, len(places) - 1)],
            display_to_source=lambda place: next((n for n, at in enumerate(places) if at >= place), len(places) - 1),
        )


def _seen(sign: str) -> str:
    """A sign as it is shown; prompt_toolkit itself shows control characters."""
    if sign.isascii():
        return sign
    if sign in "\u200d\ufe0e\ufe0f":
        return ""
    return sign if sign in "\u200c\u00a0" else shown(sign)
