"""Ways around rules that other harnesses let pass, with the whole command: rows M and F of ``bugs/bugs.md``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")


def allowing(*rules: str) -> list[str]:
    return [word for rule in rules for word in ("--allowed-tools", rule)]


def denying(*rules: str) -> list[str]:
    return [word for rule in rules for word in ("--disallowed-tools", rule)]


@pytest.fixture
def ground(stage: Any) -> Any:
    """The stage's folder as the rows want it."""
    (stage.work / "sub").mkdir(parents=True)
    (stage.work / "build").mkdir()
    (stage.work / "victim").touch()
    (stage.work / "f").touch()
    (stage.tmp / "outside").mkdir()
    return stage


def played(stage: Any, row: str, *arguments: str) -> Any:
    """A run of a row's script, with the arguments' names as they are here."""
    script = json.loads((SERVER.parents[1] / f"bugs/scripts/{row}.json").read_text())
    for reply in script["replies"]:
        for _, given in reply.get("calls", ()):
            if "path" in given:
                given["file_path"] = given.pop("path")
    with stage.serving(stage.script(*script["replies"])):
        return stage.run("go", *arguments)


@pytest.mark.parametrize(
    ("row", "rules"),
    [
        ("M01", allowing("bash(echo *)")),
        ("M02", allowing("bash(cd *)")),
        ("M03", allowing("bash(git log*)")),
        ("M04", allowing("bash(echo *)") + denying("bash(rm *)")),
        ("M05", allowing("bash(gh pr view*)")),
    ],
)
def test_rows_m01_to_m05_nothing_runs_that_no_rule_allows(ground: Any, row: str, rules: list[str]) -> None:
    before = sorted(os.listdir(ground.work))
    ran = played(ground, row, *rules)
    assert sorted(os.listdir(ground.work)) == before
    assert all(result.startswith("Error: ") for result in ran.results), ran.results
    assert ran.code == (0 if row == "M04" else 3)
    assert ran.out == "done\n"


def test_row_m04_the_rule_is_named(ground: Any) -> None:
    ran = played(ground, "M04", *allowing("bash(echo *)"), *denying("bash(rm *)"))
    assert len(ran.results) == 4
    assert all("the rule bash(rm *) denies rm -f victim" in result for result in ran.results)


def test_row_m06_what_is_allowed_in_parts_is_not_asked_about(ground: Any) -> None:
    subprocess.run(["git", "init", "-q"], cwd=ground.work, check=True)
    ground.env |= {
        f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    ran = played(ground, "M06", *allowing("bash(git add*)", "bash(git commit*)"))
    assert ran.code == 0
    assert not ran.data("permission/asked")


def test_row_f01_links_lead_where_they_lead(ground: Any) -> None:
    os.symlink("/etc", ground.work / "link")
    os.symlink("../outside", ground.work / "link2")
    ran = played(ground, "F01", *allowing("bash(cat *)", "write(**)", "read(**)"))
    assert ran.code == 3
    assert list((ground.tmp / "outside").iterdir()) == []
    assert all("outside of the workspace" in result for result in ran.results[:2]), ran.results


def test_row_f02_a_dangling_link_is_followed(ground: Any) -> None:
    os.symlink("../outside/new.txt", ground.work / "note.txt")
    ran = played(ground, "F02", "--permission-mode", "accept-edits")
    assert ran.code == 3
    assert list((ground.tmp / "outside").iterdir()) == []
