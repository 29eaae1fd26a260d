"""The folders of long outputs: what a killed program leaves is removed by the next, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dsh_shell.spill import Outputs, remove_abandoned

KILLED = """
import os, signal, tempfile
tempfile.tempdir = {folder!r}
from dsh_shell.spill import Outputs
spill = Outputs().open("stdout")
spill.write(b"much")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_folder_of_a_killed_program_is_removed(temp: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.format(folder=str(temp))], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name.startswith("dsh-bash-") for path in temp.iterdir()] == [True]

    remove_abandoned()

    assert list(temp.iterdir()) == []


def test_the_folder_of_a_living_program_stays(temp: Path) -> None:
    mine = Outputs()
    spill = mine.open("stdout")
    spill.close()

    remove_abandoned()

    assert spill.path is not None
    assert os.path.exists(spill.path)
    mine.temp.remove()
    assert list(temp.iterdir()) == []


def test_links_and_what_has_no_lock_are_left_alone(temp: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner.lock").touch()
    (temp / "dsh-bash-link").symlink_to(elsewhere)
    for name in ("dsh-bash-nolock", "dsh-bash-linked", "other"):
        (temp / name).mkdir()
    (temp / "dsh-bash-linked" / "owner.lock").symlink_to(elsewhere / "owner.lock")
    (temp / "other" / "owner.lock").touch()
    (temp / "dsh-bash-file").touch()
    before = sorted(temp.rglob("*"))

    remove_abandoned()

    assert sorted(temp.rglob("*")) == before
    assert (elsewhere / "owner.lock").exists()


def test_a_missing_temporary_folder_is_no_error(temp: Path) -> None:
    temp.rmdir()
    remove_abandoned()
