"""Trust in folders: what needs it, what it is bound to, and how it is kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import ConfigError
from dsh.trust import Folder, TrustStore, read_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    plugins = tmp_path / "project/.dsh/plugins"
    plugins.mkdir(parents=True)
    (plugins.parent / "config.toml").write_text('[providers.x]\nbase_url = "http://evil"\n')
    (plugins / "x.py").write_text("X = 1\n")
    return tmp_path / "project"


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def read(root: Path) -> Folder:
    return read_folder(root, root)


def test_what_is_wanted_is_listed(root: Path) -> None:
    (root / ".dsh/plugins/_helper.py").write_text("")
    (root / ".dsh/plugins/notes.txt").write_text("")
    (root / ".dsh/plugins/dsh_two-part.py").write_text("")
    folder = read(root)
    assert folder.wants == (
        ".dsh/config.toml: providers",
        ".dsh/plugins/dsh_two-part.py",
        ".dsh/plugins/x.py",
    )
    assert [plugin.name for plugin in folder.plugins] == ["two_part", "x"]
    assert not folder.trusted


def test_a_folder_without_anything_wants_nothing(tmp_path: Path) -> None:
    assert read(tmp_path).wants == ()
    (tmp_path / ".dsh").mkdir()
    (tmp_path / ".dsh/config.toml").write_text('model = "a/b"\n[permissions]\ndeny = ["bash"]\nmode = "plan"\n')
    assert read(tmp_path).wants == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda dsh: (dsh / "config.toml").write_text("# nothing\n"),
        lambda dsh: (dsh / "config.local.toml").write_text("# new\n"),
        lambda dsh: (dsh / "plugins/x.py").write_text("X = 2\n"),
        lambda dsh: (dsh / "plugins/y.py").write_text(""),
        lambda dsh: (dsh / "plugins/deep/er").mkdir(parents=True) or (dsh / "plugins/deep/er/data").write_text(""),
        lambda dsh: (dsh / "plugins/x.py").rename(dsh / "plugins/z.py"),
        lambda dsh: (dsh / "plugins/link").symlink_to("/etc"),
    ],
)
def test_any_change_is_asked_about_again(root: Path, store: TrustStore, change: object) -> None:
    assert store.keep(read(root), True).trusted
    assert store.judged(read(root)).trusted
    assert callable(change)
    change(root / ".dsh")
    changed = store.judged(read(root))
    assert (changed.trusted, changed.declined) == (False, False)
    assert not any(layer.trusted for layer in changed.layers)


def test_a_no_is_kept_as_well_and_both_can_be_forgotten(root: Path, store: TrustStore) -> None:
    store.keep(read(root), False)
    judged = store.judged(read(root))
    assert (judged.trusted, judged.declined) == (False, True)
    store.keep(read(root), True)
    assert store.judged(read(root)).trusted
    assert store.remove(root)
    assert not store.remove(root)
    assert not store.judged(read(root)).trusted


def test_trust_is_for_the_real_folder(root: Path, store: TrustStore, tmp_path: Path) -> None:
    store.keep(read(root), True)
    (tmp_path / "other").symlink_to(root)
    assert store.judged(read(tmp_path / "other")).trusted
    copy = tmp_path / "copy/.dsh"
    copy.parent.mkdir()
    (root / ".dsh").rename(copy)  # the same content elsewhere is another folder
    assert not store.judged(read(copy.parent)).trusted


def test_what_is_run_is_what_was_read(root: Path) -> None:
    folder = read(root)
    (root / ".dsh/plugins/x.py").write_text("X = 'swapped'\n")
    assert [plugin.source for plugin in folder.plugins] == [b"X = 1\n"]


def test_a_fifo_and_an_endless_device_are_not_read(root: Path, store: TrustStore) -> None:
    os.mkfifo(root / ".dsh/plugins/pipe.py")
    folder = read(root)
    assert folder.broken == "pipe.py is no regular file"
    assert ".dsh/plugins: pipe.py is no regular file" in folder.wants
    with pytest.raises(ConfigError, match=r"cannot be trusted: \.dsh/plugins: pipe\.py is no regular file"):
        store.keep(folder, True)
    (root / ".dsh/plugins/pipe.py").unlink()
    (root / ".dsh/plugins/zero.py").symlink_to("/dev/zero")
    assert read(root).broken == "zero.py is no regular file"


def test_two_files_of_one_name_cannot_be_trusted(root: Path) -> None:
    (root / ".dsh/plugins/a-b.py").write_text("")
    (root / ".dsh/plugins/dsh_a_b.py").write_text("")
    assert read(root).broken == "a-b.py and dsh_a_b.py are both a plugin a_b"


def test_a_link_to_a_folder_is_not_followed(root: Path) -> None:
    (root / ".dsh/plugins/up").symlink_to(root)
    assert read(root).files["plugins/up"] == b"link to " + os.fsencode(root)


def test_too_much_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh.trust.MOST_FILES", 3)
    for number in range(4):
        (root / f".dsh/plugins/{number}.txt").write_text("")
    assert "too much to look at" in str(read(root).broken)


def test_the_file_of_answers_is_private_and_proves_nothing_otherwise(root: Path, store: TrustStore) -> None:
    store.keep(read(root), True)
    assert store.path.stat().st_mode & 0o777 == 0o600
    store.path.chmod(0o666)
    with pytest.raises(ConfigError, match="others may write it"):
        store.judged(read(root))


@pytest.mark.parametrize("content", ["", "[]", '{"folders": 3}', '{"folders": {"/x": 1}}', "\x00"])
def test_a_damaged_file_of_answers_is_no_trust(root: Path, store: TrustStore, content: str) -> None:
    store.path.parent.mkdir()
    store.path.write_text(content)
    store.path.chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged"):
        store.judged(read(root))


def test_an_answer_that_is_nearly_one_is_none(root: Path, store: TrustStore) -> None:
    folder = store.keep(read(root), True)
    data = json.loads(store.path.read_bytes())
    for wrong in ({"digest": folder.digest, "trusted": "yes"}, {"digest": folder.digest[:-1], "trusted": True}, {}):
        data["folders"][str(folder.root)] = wrong
        store.path.write_text(json.dumps(data))
        assert not store.judged(read(root)).trusted


def test_several_programs_may_say_something_at_once(root: Path, store: TrustStore) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom dsh.trust import TrustStore, read_folder\n"
        "root = Path(sys.argv[2])\nfor n in range(20):\n"
        "    TrustStore(Path(sys.argv[1])).keep(read_folder(root, root), True)\n"
    )
    folders = []
    for number in range(4):
        folders.append(root.parent / f"project{number}")
        shutil.copytree(root, folders[-1])
    running = [subprocess.Popen([sys.executable, "-c", code, store.path.parent, folder]) for folder in folders]
    assert [process.wait() for process in running] == [0] * 4
    assert sorted(store.entries()) == sorted(map(str, folders))


@given(st.dictionaries(st.sampled_from(["a.py", "b/c", "d"]), st.binary(max_size=4), max_size=3), st.data())
def test_the_digest_tells_any_two_folders_apart(files: dict[str, bytes], data: st.DataObject) -> None:
    other = data.draw(st.dictionaries(st.sampled_from(["a.py", "b/c", "d", "da"]), st.binary(max_size=4), max_size=3))
    from dsh.trust import _made

    here = Path("/nowhere")
    digests = [
        _made(here, here, {f"plugins/{name}": text for name, text in made.items()}, None).digest
        for made in (files, other)
    ]
    assert (digests[0] == digests[1]) == (files == other)
