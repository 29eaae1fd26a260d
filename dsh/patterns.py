"""Regular expressions that are compiled when they are first used.

Compiling one takes up to a millisecond, and most programs never meet what most of them look for.
"""

from __future__ import annotations

import re
from typing import Any, cast

__all__ = ["late"]


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What ``re.compile`` gives, without its cost as long as nobody asks it anything.

    A mistake in the pattern shows when it is first used, as `re.error`.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags))


class _Late:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        # From now on found without this method; `re` itself remembers the pattern for the others.
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"late({self._source!r})"
