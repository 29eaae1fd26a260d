"""dsh as two peers of the benchmark rig: the library with a registered tool, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from peers import PEERS, Lib, Peer, need

DRIVER = Path(__file__).resolve().parent / "driver.py"


class DshLib(Lib):
    """`driver.py`: a program that embeds dsh."""

    def __init__(self) -> None:
        super().__init__("dsh-lib", "venv-dsh", str(DRIVER), resumes=True)

    def env(self, j):
        return {"DSH_HOME": str(j.home / "store")}


class Dsh(Peer):
    """The command, headless."""

    name = "dsh"
    resumes = True
    tools: ClassVar[dict[str, tuple[str, str]]] = {
        "noop": ("bash_kill", '{"task_id":"@M"}'),
        "shell": ("bash", '{"command":"true @M"}'),
        "sleep": ("bash", '{"command":"sleep 0.1 # @M"}'),
    }

    def missing(self, root):
        return need(root / "venv-dsh/bin/dsh")

    def argv(self, j):
        return [
            str(j.root / "venv-dsh/bin/dsh"),
            "-p",
            j.prompt,
            "-m",
            "openai/mock-1",
            "-q",
            "--permission-mode",
            "bypass",
            *(["-c"] if j.resume else []),
        ]

    def env(self, j):
        return {"OPENAI_BASE_URL": j.url, "OPENAI_API_KEY": "bench-key", "DSH_HOME": str(j.home / "dsh")}

    def state(self, home):
        return home / "dsh"


for peer in (DshLib(), Dsh()):
    PEERS[peer.name] = peer
