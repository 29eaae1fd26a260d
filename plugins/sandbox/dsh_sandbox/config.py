"""The table ``[sandbox]`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from attrs import Attribute, field, frozen

__all__ = ["BACKENDS", "MODES", "Mode", "SandboxConfig", "strictest"]

Mode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
MODES: Final[tuple[Mode, ...]] = ("read-only", "workspace-write", "danger-full-access")
"""The strictest first."""
BACKENDS: Final = ("bubblewrap", "landlock")
"""The one that covers more first."""


def _one_of(*allowed: str | None) -> Any:
    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value not in allowed:
            names = ", ".join(str(name) for name in allowed if name is not None)
            raise ValueError(f"{attribute.name} must be one of {names}, not {value!r}")

    return check


@frozen
class SandboxConfig:
    """What commands may do.

    Attributes:
        mode: ``read-only``, ``workspace-write`` or ``danger-full-access``, which is no sandbox.  Where it is not
            given, `dsh -p` takes ``workspace-write`` if the machine can do it, and a program that embeds dsh
            ``danger-full-access``.
        network: ``off``, or ``on`` for commands that may reach everything.
        backend: ``auto`` takes bubblewrap, or else Landlock.
        writable: further paths that may be written with ``workspace-write``.
        hide: further paths that may not be read.
        protect: further paths in the workspace that may not be written, beside what git and dsh run code from.
        outside: whether the model can ``ask`` for a single command outside of the sandbox, or ``never`` gets one.
    """

    mode: str | None = field(default=None, validator=_one_of(*MODES, None))
    network: str = field(default="off", validator=_one_of("off", "on"))
    backend: str = field(default="auto", validator=_one_of("auto", *BACKENDS))
    writable: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    outside: str = field(default="ask", validator=_one_of("ask", "never"))


def strictest(modes: Iterable[Mode]) -> Mode:
    """The strictest of some modes, which are one at least."""
    return min(modes, key=MODES.index)
