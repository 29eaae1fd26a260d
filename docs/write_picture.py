"""Writes dsh.svg: a conversation with a model that plays a script, in a real pseudo-terminal, as its screen looked.

    python docs/write_picture.py            # or another file, behind it

It needs pyte, which the extra `test` brings.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import sys
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pyte

PICTURE = Path(__file__).with_name("dsh.svg")
FOLDER = Path("/tmp/shop")
COLUMNS, LINES = 88, 34
WIDTH, HEIGHT, FONT = 8.4, 18.0, 14
PATIENCE = 30.0

PRICES = "def total(prices):\n    return sum(prices[1:])\n"
TESTS = (
    "import unittest\nfrom prices import total\n\n\nclass Total(unittest.TestCase):\n"
    "    def test_all_count(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
)
MODEL = f"""\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, reply, text

FILE = "{FOLDER}/prices.py"
REPLIES = [
    reply("I read the function and its test first.", calls=[("c1", "read", {{"file_path": FILE}})]),
    reply(
        "The slice drops the first price.",
        calls=[("c2", "edit", {{"file_path": FILE, "old_string": "sum(prices[1:])", "new_string": "sum(prices)"}})],
    ),
    reply(calls=[("c3", "bash", {{"command": "python3 -m unittest -q", "description": "run the tests"}})]),
    text(
        "Fixed: `total` left the first price out. **The test passes now.**\\n\\n"
        "- `prices.py` sums up all of the prices\\n- nothing else was changed"
    ),
]

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(*REPLIES))
"""

NAMED = {
    "black": "#1d2027", "red": "#f4707a", "green": "#8fd17f", "brown": "#e6c46f", "blue": "#74aef2",
    "magenta": "#cf9bea", "cyan": "#66c8cf", "white": "#d5d9e0", "brightblack": "#7d8590", "brightred": "#ff8f98",
    "brightgreen": "#aae89b", "brightbrown": "#f5d98a", "brightyellow": "#f5d98a", "brightblue": "#96c4ff",
    "brightmagenta": "#e0b8f5", "brightcyan": "#8be0e6", "brightwhite": "#ffffff",
}  # fmt: skip
PAPER, INK = "#15171c", "#d5d9e0"


class Screen:
    """A program in a pseudo-terminal."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        self.ended = False
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(FOLDER)
            os.execvpe(argv[0], argv, environ)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def until(self, text: str) -> None:
        """Read until a text is shown."""
        end = time.monotonic() + PATIENCE
        while text not in " ".join("\n".join(self.screen.display).split()):
            if time.monotonic() > end or self.ended:
                sys.exit(f"{text!r} is not shown:\n" + "\n".join(self.screen.display))
            self.read(0.5)

    def read(self, seconds: float) -> bool:
        """Take what is written; whether there was anything."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            self.ended = True
            return False
        self.stream.feed(data)
        if b"\x1b[6n" in data:
            cursor = self.screen.cursor
            os.write(self.master, f"\x1b[{cursor.y + 1};{cursor.x + 1}R".encode())
        return True

    def close(self) -> None:
        """Close the terminal, as a person closes its window, and wait for the program's end."""
        os.close(self.master)
        os.waitpid(self.pid, 0)

    def type(self, keys: str) -> None:
        """Press keys, and read until nothing comes for a moment."""
        os.write(self.master, keys.encode())
        while self.read(0.7):
            pass


def run() -> Screen:
    """Hold the conversation; the screen at its end."""
    home = FOLDER / ".home"
    home.mkdir()
    (FOLDER / "prices.py").write_text(PRICES)
    (FOLDER / "test_prices.py").write_text(TESTS)
    model = home / "model.py"
    model.write_text(MODEL)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ = {**kept, "HOME": str(home), "DSH_HOME": str(home), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    flags = ["-m", "scripted/model", "-e", str(model), "-s", "danger-full-access", "--session-id", "shop"]
    rule = ["--allowed-tools", "bash(python3 -m unittest *)"]
    screen = Screen([sys.executable, "-m", "dsh", *flags, *rule], environ)
    screen.until("lists commands")
    screen.type("Why does the test in test_prices.py fail? Fix it.")
    screen.type("\r")
    screen.until("needs your approval")
    screen.type("y")
    screen.until("nothing else was changed")
    while screen.read(0.7):
        pass
    return screen


def svg(screen: Any) -> str:
    """A screen as a picture, without the empty lines at its end."""
    rows = [screen.buffer[y] for y in range(LINES)]
    while rows and not any(rows[-1][x].data.strip() for x in range(COLUMNS)):
        rows.pop()
    width, height = COLUMNS * WIDTH + 32, len(rows) * HEIGHT + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"',
        ' aria-label="A conversation in the terminal: a failing test is looked at, the fix is asked about">\n',
        f'<rect width="100%" height="100%" rx="9" fill="{PAPER}"/>\n',
        *(f'<circle cx="{20 + 18 * n}" cy="19" r="5.5" fill="#3a3f4a"/>\n' for n in range(3)),
        f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{FONT}"',
        f' fill="{INK}">\n',
    ]
    for y, row in enumerate(rows):
        for x, text, style in runs(row):
            parts.append(cell(16 + x * WIDTH, 40 + y * HEIGHT, text, style))
    return "".join([*parts, "</g>\n</svg>\n"])


def runs(row: Any) -> Iterator[tuple[int, str, Any]]:
    """What stands in a row in one style each: where, the text, and a character that has the style."""
    start, text, style = 0, "", None
    for x in range(COLUMNS):
        char = row[x]
        if style is None or char._replace(data="") != style._replace(data=""):
            if style is not None:
                yield start, text, style
            start, text, style = x, "", char
        text += char.data
    yield start, text, style


def cell(x: float, y: float, text: str, style: Any) -> str:
    ink, paper = colour(style.fg, INK), colour(style.bg, PAPER)
    if style.reverse:
        ink, paper = paper, ink
    drawn = ""
    if paper != PAPER:
        drawn = f'<rect x="{x:g}" y="{y:g}" width="{len(text) * WIDTH:g}" height="{HEIGHT:g}" fill="{paper}"/>\n'
    shown = text.strip()
    if not shown:
        return drawn
    x += (len(text) - len(text.lstrip())) * WIDTH
    more = f' fill="{ink}"' if ink != INK else ""
    more += ' font-weight="bold"' if style.bold else ""
    more += ' font-style="italic"' if style.italics else ""
    more += ' text-decoration="underline"' if style.underscore else ""
    spaced = escape(shown).replace(" ", "\N{NO-BREAK SPACE}")  # plain ones would be taken together
    length = f' textLength="{len(shown) * WIDTH:g}"' if len(shown) > 1 else ""
    return f'{drawn}<text x="{x:g}" y="{y + FONT - 0.5:g}"{length}{more}>{spaced}</text>\n'


def colour(name: str, usual: str) -> str:
    if name == "default":
        return usual
    return NAMED.get(name, f"#{name}")


if __name__ == "__main__":
    if any(word.startswith("-") for word in sys.argv[1:]) or len(sys.argv) > 2:
        sys.exit("usage: python docs/write_picture.py [FILE]")
    FOLDER.mkdir()
    try:
        talk = run()
        Path(*sys.argv[1:] or [PICTURE]).write_text(svg(talk.screen), encoding="utf-8")
        talk.close()
    finally:
        shutil.rmtree(FOLDER)
