"""What runs code outside later is not written in the workspace either."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True)


@pytest.fixture
def repository(open_box: Any, tmp_path: Path) -> Path:
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / ".dsh").mkdir()
    (work / ".dsh/config.toml").write_text("# ours\n")
    return work


@pytest.mark.parametrize(
    "attempt",
    [
        "echo evil > .git/hooks/pre-commit",
        "rm -rf .git/hooks; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/hooks .git/away; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git away; cp -r away .git; echo evil > .git/hooks/pre-commit",
        "ln -s ../../evil .git/hooks/pre-commit",
        "cd .git/hooks && echo evil > pre-commit",
        "ln -s .git/hooks h; echo evil > h/pre-commit",
        "git config core.hooksPath evil",
        "git config core.fsmonitor evil",
        "echo '[core] fsmonitor = evil' >> .git/config",
        "echo evil > x; mv x .git/config",
        "echo evil > .dsh/config.toml",
        "mkdir -p .dsh/plugins; echo evil > .dsh/plugins/evil.py",
        "rm -rf .dsh; mkdir .dsh; echo evil > .dsh/config.toml",
        "mv .dsh away; mkdir .dsh; echo evil > .dsh/config.toml",
    ],
)
async def test_hooks_and_settings_stay(open_box: Any, repository: Path, covered: Any, attempt: str) -> None:
    covered("its rights over a directory are rights over all that is in it")
    before = (repository / ".git/config").read_text()
    async with open_box() as box:
        await box.run(attempt)

    assert (repository / ".git/config").read_text() == before
    assert not any(path.name == "pre-commit" for path in (repository / ".git/hooks").iterdir())
    assert [path.name for path in (repository / ".dsh").iterdir()] == ["config.toml"]
    assert (repository / ".dsh/config.toml").read_text() == "# ours\n"


async def test_what_landlock_cannot_protect_is_reported(open_box: Any, repository: Path, backend: str) -> None:
    if backend != "landlock":
        pytest.skip("bubblewrap protects it")
    async with open_box() as box:
        await box.run("echo fine > file; git add file")
        assert not [text for text in box.warnings if "a command changed" in text]
        await box.run("echo evil > .git/hooks/pre-commit")
        (warning,) = [text for text in box.warnings if "a command changed" in text]

    assert f"{repository}/.git/hooks/pre-commit" in warning


async def test_git_goes_on_working(open_box: Any, repository: Path) -> None:
    async with open_box() as box:
        ran = await box.run(
            "git config user.name; echo one > file && git add file && git status --short file && "
            "git -c user.name=a -c user.email=a@b commit -qm one && git branch other && git log --oneline | wc -l && "
            "git checkout -q other && rm -rf file && git checkout -q -- file && cat file"
        )

    assert ran.out == "A  file\n1\none\n", ran.err


async def test_hooks_that_are_not_there_yet_are_not_made(open_box: Any, repository: Path, covered: Any) -> None:
    covered("its rights over a directory are rights over all that is in it")
    for hook in (repository / ".git/hooks").iterdir():
        hook.unlink()
    (repository / ".git/hooks").rmdir()
    async with open_box() as box:
        await box.run("mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")

    assert list((repository / ".git/hooks").iterdir()) == []


async def test_hooks_that_are_a_link_are_protected_where_they_lie(
    open_box: Any, repository: Path, covered: Any
) -> None:
    covered("its rights over a directory are rights over all that is in it")
    (repository / ".git/hooks").rename(repository / "hooks")
    (repository / ".git/hooks").symlink_to("../hooks")
    async with open_box() as box:
        await box.run(
            "echo evil > hooks/pre-commit; rm .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit"
        )

    assert (repository / ".git/hooks").is_symlink()
    assert not (repository / ".git/hooks/pre-commit").exists()


async def test_the_link_of_a_worktree_stays(open_box: Any, tmp_path: Path, covered: Any) -> None:
    covered("its rights over a directory are rights over all that is in it")
    work = tmp_path / "work"
    (work / ".git").write_text("gitdir: /elsewhere\n")
    async with open_box() as box:
        await box.run("rm -f .git; mkdir .git; mkdir .git/hooks; echo evil > .git/hooks/pre-commit")

    assert (work / ".git").read_text() == "gitdir: /elsewhere\n"


@pytest.mark.parametrize("there", [True, False])
async def test_settings_of_a_worktree_stay(open_box: Any, repository: Path, covered: Any, there: bool) -> None:
    """With ``extensions.worktreeConfig``, as sparse checkouts set it, git reads them like ``.git/config``."""
    covered("its rights over a directory are rights over all that is in it")
    git(repository, "config", "extensions.worktreeConfig", "true")
    if there:
        (repository / ".git/config.worktree").write_text("[core]\n")
    async with open_box() as box:
        await box.run("printf '[core]\\n fsmonitor = touch escaped; false\\n' > .git/config.worktree")
    git(repository, "status")

    assert not (repository / "escaped").exists()
    assert there or any("config.worktree" in warning for warning in box.warnings)


async def test_plain_settings_of_a_worktree_can_be_made(open_box: Any, repository: Path) -> None:
    async with open_box() as box:
        await box.run("printf '[core]\\n sparseCheckout = true\\n' > .git/config.worktree")

    assert (repository / ".git/config.worktree").exists()
    assert not [warning for warning in box.warnings if "config.worktree" in warning]


@pytest.mark.parametrize("name", ["commondir", "config.worktree", "gitdir"])
async def test_further_worktrees_are_not_led_elsewhere(
    open_box: Any, repository: Path, tmp_path: Path, covered: Any, name: str
) -> None:
    covered("its rights over a directory are rights over all that is in it")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty")
    git(repository, "worktree", "add", "-q", str(tmp_path / "outside/further"))
    file = repository / ".git/worktrees/further" / name
    if name == "config.worktree":
        file.write_text("[core]\n")
    before = file.read_text()
    async with open_box() as box:
        await box.run(f"echo evil > .git/worktrees/further/{name}")
        await box.run("mv .git/worktrees/further .git/worktrees/away; cp -r .git/worktrees/away .git/worktrees/further")
        ran = await box.run(f"rm -f .git/worktrees/further/{name}")

    assert ran.code != 0
    assert file.read_text() == before


async def test_protect_names_further_files(open_box: Any, tmp_path: Path, covered: Any) -> None:
    covered("its rights over a directory are rights over all that is in it")
    work = tmp_path / "work"
    (work / "ci").mkdir()
    (work / "ci/deploy.sh").write_text("ours")
    async with open_box(protect=["ci/deploy.sh"]) as box:
        await box.run("echo evil > ci/deploy.sh; mv ci away; mkdir ci; echo evil > ci/deploy.sh; echo fine > ci/other")

    assert (work / "ci/deploy.sh").read_text() == "ours"
    assert (work / "ci/other").read_text() == "fine\n"


async def test_in_a_home_that_is_the_workspace_dsh_is_hidden(open_box: Any, tmp_path: Path, monkeypatch: Any) -> None:
    work = tmp_path / "work"
    monkeypatch.setenv("HOME", str(work))
    for folder in (".ssh", ".dsh"):
        (work / folder).mkdir()
        (work / folder / "file").write_text("private")
    async with open_box() as box:
        box.harness.home = work / ".dsh"
        ran = await box.run(
            "cat .ssh/file .dsh/file; echo x > own; echo evil > .ssh/authorized_keys; mv .ssh s; cat s/*"
        )

    assert "private" not in ran.text
    assert (work / "own").exists()
    if box.backend == "bubblewrap":
        assert [path.name for path in (work / ".ssh").iterdir()] == ["file"]


async def test_a_workspace_behind_a_link_is_the_one_it_leads_to(open_box: Any, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "work")
    async with open_box() as box:
        ran = await box.run(f"touch here; touch {link}/there; pwd -P", cwd=link, readable=())

    assert (ran.code, ran.out) == (0, f"{tmp_path}/work\n")
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"here", "there"}
