"""What is printed to stderr while the answer is awaited."""

from __future__ import annotations

from typing import ClassVar

import pytest
from attrs import frozen

from dsh.cli.progress import Progress
from dsh.session.events import Event


@frozen
class Told:
    type: ClassVar[str] = "mine/told"
    notice: str


@frozen
class Untold:
    type: ClassVar[str] = "mine/untold"
    notice: int = 3


def test_an_event_of_a_plugin_may_say_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for level in (0, 1):
        for data in (Told("[mine] back\x1b[2J in\n3 s"), Untold()):
            Progress(level).event("s", Event(0, 0, data), None, depth=1)
    assert capsys.readouterr().err == "  [mine] back [2J in 3 s\n"
