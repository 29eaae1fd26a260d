"""How a long preparation is shown."""

from __future__ import annotations

import io

from dsh_local.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar() -> None:
    terminal, said = Terminal(), list[str]()
    with bar("joining", said.append, terminal) as progress:
        progress(1 << 20, 2 << 20)
        progress(2 << 20, 2 << 20)

    lines = terminal.getvalue().replace("\r", "\n").split("\n")
    assert lines[0] == "joining"
    half, full = "#" * 15 + "." * 15, "#" * 30
    assert lines[-3:-1] == [f"[{half}]  50% of 2 MB", f"[{full}] 100% of 2 MB"]
    assert said == []


def test_elsewhere_one_line_is_said() -> None:
    file, said = io.StringIO(), list[str]()
    with bar("joining", said.append, file) as progress:
        progress(1, 2)

    assert file.getvalue() == ""
    assert said == ["joining"]
