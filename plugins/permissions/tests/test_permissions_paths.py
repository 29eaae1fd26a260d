"""Files: judged by where a path really leads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dsh_permissions.places import Places

from dsh.paths import open_folder, open_resolved


def test_f01_a_folder_that_is_a_link_leads_outside(ground: Any) -> None:
    for tool, path in (
        ("read", "link/hostname"),
        ("write", "link2/x"),
        ("edit", "link2/x"),
        ("read", "link2/../link/x"),
    ):
        verdict = ground.file(tool, path)
        assert verdict.kind == "ask", (tool, path)
        assert "outside of the workspace" in verdict.reason
    assert ground.file("write", "link2/x", allow=["write(**)", "write(link2/**)"]).kind == "ask"
    assert ground.file("write", "link2/x", mode="accept-edits").kind == "ask"
    for command in (
        "cat link/hostname",
        "cat < link/hostname",
        "echo x > link2/x",
        "touch link2/x",
        "cd link && cat x",
    ):
        assert ground.bash(command, allow=["bash(cat *)", "bash(echo *)", "bash(touch *)", "bash(cd *)"]).kind == "ask"


def test_f02_a_dangling_link_is_followed_to_where_the_file_would_be_made(ground: Any) -> None:
    verdict = ground.file("write", "note.txt", allow=["write(note.txt)"], mode="accept-edits")
    assert (verdict.kind, verdict.parts[0].text) == ("ask", f"{ground.outside}/new.txt")
    assert ground.bash("echo x > note.txt", allow=["bash(echo *)", "write(**)"]).kind == "ask"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/hooks/x",
        "sub/.git/config",
        "src/../.git/config",
        "./.git//config",
        ".dsh/config.toml",
        ".dsh/config.local.toml",
        ".dsh/plugins/x.py",
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        ".envrc",
        ".mcp.json",
        ".npmrc",
        ".bashrc",
        "sub/.zshrc",
        ".cursor/mcp.json",
        ".devcontainer/devcontainer.json",
        ".g\u200cit/config",
        ".dir-locals.el",
        "sub/.nvim.lua",
        ".pdbrc",
        "~/.bashrc",
        "~/.profile",
        "~/.ssh/authorized_keys",
        "~/.config/autostart/x.desktop",
        "~/.dsh/config.toml",
        "/etc/passwd",
        "../x",
        "/proc/self/cwd/x",
        "/dev/fd/1/x",
    ],
)
def test_what_is_always_asked_before_it_is_written(ground: Any, path: str) -> None:
    for tool in ("write", "edit"):
        assert ground.file(tool, path).kind == "ask"
        assert (
            ground.file(tool, path, mode="accept-edits", allow=["write", "edit", "write(**)", "edit(**)"]).kind == "ask"
        )
    assert ground.file("write", path, mode="plan").kind == "deny"
    redirected = path if path.startswith("~") else f"'{path}'"
    assert ground.bash(f"echo x > {redirected}", allow=["bash", "write(**)"]).kind == "ask"
    assert ground.bash(f"touch {redirected}", allow=["bash", "write(**)"]).kind == "ask"


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".env.local", "src/.env", "deploy/.env.production", "~/.ssh/id_rsa", "~/.ssh/config", "server.pem"),
        *("x.key", "~/.aws/credentials", "~/.netrc", "~/.dsh/config.toml", "/proc/self/environ", "/proc/1/environ"),
        *("/etc/shadow", "../x", "/proc/self/root/etc/shadow", "~/.git-credentials", "id_ed25519", ".ENV"),
    ],
)
def test_what_is_asked_before_it_is_read(ground: Any, path: str) -> None:
    assert ground.file("read", path).kind == "ask"
    assert ground.file("read", path, allow=["read", "read(**)", "read(*)"], mode="accept-edits").kind == "ask"
    if "/" not in path:
        assert ground.file("read", path, allow=[f"read({path})"]).kind == "allow"


@pytest.mark.parametrize(
    "path", ["README.md", "src/a.py", "new/file", ".env.example", ".gitignore", "sl2", "/usr/bin/env"]
)
def test_what_may_be_read(ground: Any, path: str) -> None:
    assert ground.file("read", path).kind == "allow"


def test_added_folders_are_worked_in(ground: Any) -> None:
    path = f"{ground.outside}/a"
    assert ground.file("read", path, add=[ground.outside]).kind == "allow"
    assert ground.file("write", "link2/a", add=[ground.outside], mode="accept-edits").kind == "allow"
    assert ground.file("write", f"{path}/.git/config", add=[ground.outside], mode="accept-edits").kind == "ask"


def test_rules_that_deny_hold_for_a_path_and_for_what_it_leads_to(ground: Any) -> None:
    for path in ("secrets/key.txt", "sl/key.txt", "src/../secrets/key.txt", f"{ground.work}/secrets/key.txt"):
        assert ground.file("read", path, allow=["read(**)"], deny=["read(secrets/**)"]).kind == "deny"
    assert ground.file("read", "sl/key.txt", deny=["read(sl/**)"]).kind == "deny"
    assert ground.file("read", "sl", deny=["read(secrets)"]).kind == "deny"


def test_loops_and_names_that_are_none(ground: Any) -> None:
    os.symlink("loop", ground.work / "loop")
    for path in ("loop", "loop/x", "", "a\0b"):
        verdict = ground.file("read", path, allow=["read", "read(**)"])
        assert verdict.kind == "ask"
        assert verdict.suggestions == ()


def test_a_disk_that_does_not_know_capitals(ground: Any) -> None:
    places = Places(str(ground.work), (), str(ground.home), str(ground.home / ".dsh"))
    places.fold = True
    assert places.within(f"{ground.work}/SRC", str(ground.work).upper())
    assert places.look(str(ground.work).upper() + "/x", "/", "read").where == "inside"


def test_a_workspace_below_the_folder_of_dsh(tmp_path: Path) -> None:
    """The workspace is worked in; the settings beside it are not."""
    work = tmp_path / "dsh/work"
    work.mkdir(parents=True)
    places = Places(str(work), (), str(tmp_path), str(tmp_path / "dsh"))
    assert places.look("a", str(work), "write").where == "inside"
    assert places.look("../config.toml", str(work), "write").where == "protected"
    assert places.look("../config.toml", str(work), "read").where == "secret"


def test_output_that_a_tool_put_aside_may_be_read(ground: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    mine = tmp_path / "temp/dsh-bash-x"
    mine.mkdir(parents=True, mode=0o700)
    (tmp_path / "temp/other").mkdir()
    assert ground.file("read", f"{mine}/a.log").kind == "allow"
    assert ground.file("write", f"{mine}/a.log").kind == "ask"
    assert ground.file("read", f"{tmp_path}/temp/other/a.log").kind == "ask"
    mine.chmod(0o755)
    assert ground.file("read", f"{mine}/a.log").kind == "ask"


def test_names_that_are_no_text(ground: Any) -> None:
    name = os.fsdecode(b"caf\xe9")
    assert ground.file("read", name).kind == "allow"
    assert ground.file("write", name).kind == "ask"
    assert ground.bash(f"cat {name}", allow=["bash(cat *)"]).kind == "ask"


def test_globs_are_judged_by_what_they_match(ground: Any) -> None:
    for command in ("cat *.txt", "cat no*", "cat l*/hostname", "cat .e*", "cat .[e]nv", "cat ?ink/hostname"):
        assert ground.bash(command).kind == "ask", command
    for command in ("cat *.md", "cat src/*", "cat */a.py", "ls src/*.py"):
        assert ground.bash(command).kind == "allow", command


# -- opening what was judged


def test_a_resolved_path_is_opened_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("x")
    os.symlink("real", tmp_path / "link")
    os.symlink("a", tmp_path / "real/b")
    root = os.path.realpath(tmp_path)

    descriptor = open_resolved(f"{root}/real/a", os.O_RDONLY)
    assert os.read(descriptor, 9) == b"x"
    os.close(descriptor)
    for path in ("link/a", "real/b", "real/missing", "real/a/x"):
        with pytest.raises(OSError, match=path.rpartition("/")[2] + "|link|real|a"):
            open_resolved(f"{root}/{path}", os.O_RDONLY)
    with pytest.raises(OSError, match="link"):
        open_folder(f"{root}/link/new", create=True)
    assert not (tmp_path / "real/new").exists()
    os.close(open_folder(f"{root}/new/deep", create=True))
    assert (tmp_path / "new/deep").is_dir()
    with pytest.raises(ValueError, match="absolute"):
        open_folder("relative")
