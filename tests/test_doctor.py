"""``dsh doctor``: each thing that can be wrong is found, and says what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh.checks import Check, Checks
from dsh.cli import main
from dsh.credentials import write_credentials

Doctor = Callable[..., tuple[int, list[dict[str, Any]]]]

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, text

class Configured(ScriptedModel):
    configured = True

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", Configured(text("done")))
"""


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Doctor:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)

    def run(*argv: str, model: bool = True) -> tuple[int, list[dict[str, Any]]]:
        capfd.readouterr()
        code = main(["doctor", "--json", *(["-e", "model.py"] if model else []), *argv])
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err
        return code, [json.loads(line) for line in shown.out.splitlines()]

    return run


def found(records: list[dict[str, Any]], area: str, status: str) -> str:
    """The texts of an area's checks of that status, with their advice."""
    return "\n".join(f"{r['text']} -> {r['advice']}" for r in records if (r["area"], r["status"]) == (area, status))


def test_a_machine_that_is_well(doctor: Doctor) -> None:
    code, records = doctor()
    assert code == 0
    assert {record["status"] for record in records} <= {"ok", "note", "warning"}
    assert {"dsh", "terminal", "config", "disk", "plugins", "guards", "tools", "models"} <= {r["area"] for r in records}
    assert found(records, "models", "ok") == "configured: scripted -> "


def test_what_needs_doing_says_what(doctor: Doctor) -> None:
    for flags in ([], ["--no-plugin", "todo", "--config", "hooks.trace=true"], ["--config", "permissions.mode=plan"]):
        for record in doctor(*flags)[1]:
            assert record["status"] == "ok" or record["advice"], record


def test_no_provider(doctor: Doctor) -> None:
    code, records = doctor("--no-plugin", "local", model=False)
    assert code == 1
    assert "DEEPSEEK_API_KEY=" in found(records, "models", "error")


def test_a_setting_that_is_wrong(doctor: Doctor, tmp_path: Path) -> None:
    code, records = doctor("--config", "hoks.deadline=3")
    assert code == 1
    assert "hooks" in found(records, "start", "error") + found(records, "config", "error")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text("model = [")
    code, records = doctor()
    assert code == 1
    assert "config.toml" in found(records, "config", "error")


def test_a_setting_of_a_provider_that_there_is_not(doctor: Doctor) -> None:
    code, records = doctor("--config", "model=nowhere/x")
    assert code == 1
    assert "'nowhere/x'" in found(records, "models", "error")


def test_files_of_settings_are_named(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text("[hooks]\ndeadline = 30\n")
    _, records = doctor("--config", "hooks.trace=true")
    assert f"{tmp_path}/home/config.toml" in found(records, "config", "ok")
    assert "hooks.trace" in found(records, "config", "note")


def test_a_home_that_cannot_be_written(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir(mode=0o777)
    (tmp_path / "home").chmod(0o777)
    assert "chmod go-w" in found(doctor()[1], "disk", "warning")
    monkeypatch.setenv("DSH_HOME", "/proc/nowhere")
    code, records = doctor()
    if os.geteuid() != 0:
        assert (code, "set DSH_HOME" in found(records, "disk", "error")) == (1, True)


def plugin(folder: Path, name: str, body: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(f"from dsh import Deny, hookimpl\n\n{body}")
    return str(path)


def test_tools_of_one_name(doctor: Doctor, tmp_path: Path) -> None:
    body = (
        "from dsh import tool\n\n@tool\ndef twice() -> str:\n    '''Twice.'''\n    return ''\n\n"
        "@hookimpl\ndef tools_register(tools):\n    tools.add(twice)\n"
    )
    one, two = plugin(tmp_path, "one", body), plugin(tmp_path, "two", body)
    code, records = doctor("-e", one)
    assert code == 0
    assert "twice: what they touch is not declared" in found(records, "tools", "note")
    code, records = doctor("-e", one, "-e", two)
    assert code == 1
    # a guard that looks at tools meets it first, and is not what is wrong
    errors = found(records, "tools", "error") + found(records, "start", "error")
    assert errors.startswith("two plugins add the tool 'twice': one and two")


def test_a_guard_that_does_not_work(doctor: Doctor, tmp_path: Path) -> None:
    body = "@hookimpl(canaries=[('bash', {'command': 'x'})])\ndef tools_pre_execute(call):\n    return None\n"
    code, records = doctor("-e", plugin(tmp_path, "lazy", body))
    assert code == 1
    assert "the guard lazy does not work" in found(records, "start", "error")
    assert "loaded" in found(records, "plugins", "ok")


def test_plugins_that_change_the_same_thing(doctor: Doctor, tmp_path: Path) -> None:
    body = "@hookimpl(wrapper=True)\ndef agent_request(config):\n    return (yield)\n"
    names = [plugin(tmp_path, name, body) for name in ("first", "second")]
    _, records = doctor("-e", names[0], "-e", names[1])
    note = found(records, "plugins", "note")
    assert "agent_request may be changed by" in note
    assert "first" in note
    assert "dsh hooks order agent_request" in note


def test_a_plugin_says_what_it_needs(doctor: Doctor, tmp_path: Path) -> None:
    body = "@hookimpl\nasync def dsh_doctor(checks):\n    checks.error('mine', 'there is no well', 'dig one')\n"
    code, records = doctor("-e", plugin(tmp_path, "well", body))
    assert code == 1
    assert found(records, "mine", "error") == "there is no well -> dig one"


def test_a_plugin_whose_checks_fail_is_named_and_loses_nobody_elses(doctor: Doctor, tmp_path: Path) -> None:
    body = "@hookimpl\ndef dsh_doctor(checks):\n    checks.ok('bad', 'a well')\n    raise ValueError('dry')\n"
    code, records = doctor("-e", plugin(tmp_path, "bad", body))
    assert code == 1
    assert "dsh_doctor of the plugin bad failed: ValueError: dry" in found(records, "plugins", "error")
    areas = [record["area"] for record in records]
    assert areas.count("permissions") == areas.count("bad") == 1
    assert sum(" loaded" in record["text"] for record in records if record["area"] == "plugins") == 1


def test_a_plugin_that_keeps_dsh_from_starting_is_named_and_the_others_are_asked(
    doctor: Doctor, tmp_path: Path
) -> None:
    body = "@hookimpl\ndef dsh_configure(harness):\n    raise ValueError('dry')\n"
    code, records = doctor("-e", plugin(tmp_path, "bad", body))
    assert code == 1
    assert "raised by dsh_configure of the plugin 'bad'" in found(records, "config", "error")
    assert "without bad -> " in found(records, "start", "note")
    areas = [record["area"] for record in records]
    assert areas.count("permissions") == 1
    assert {"guards", "tools", "models"} <= set(areas)
    assert sum(" loaded" in record["text"] for record in records if record["area"] == "plugins") == 1


def test_keys_in_a_file(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_credentials(tmp_path / "home", {"GROQ_API_KEY": "sk-doctor-0123456789"})
    code, records = doctor()
    assert code == 0
    assert found(records, "keys", "ok") == f"GROQ_API_KEY in {path} -> "
    assert "groq" in found(records, "models", "ok")
    monkeypatch.setenv("GROQ_API_KEY", "sk-other-0123456789")
    assert "GROQ_API_KEY is set in the environment, too" in found(doctor()[1], "keys", "note")
    path.chmod(0o644)
    assert f"chmod 600 {path}" in found(doctor()[1], "keys", "warning")
    path.write_text("GROQ_API_KEY = 1\n")
    code, records = doctor()
    assert code == 1
    assert "expected VARIABLE" in found(records, "keys", "error")
    assert "sk-" not in json.dumps(records)


def test_the_folders_trust(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / ".dsh").mkdir()
    (tmp_path / ".dsh/config.toml").write_text('[permissions]\nallow = ["bash(make *)"]\n')
    code, records = doctor()
    assert code == 0
    assert ".dsh/config.toml: permissions.allow -> `dsh trust show`" in found(records, "trust", "note")
    assert "is trusted: .dsh/config.toml" in found(doctor("--trust")[1], "trust", "ok")


def test_permissions_and_sandbox_say_what_holds(doctor: Doctor) -> None:
    _, records = doctor("--config", "permissions.mode=plan")
    assert "plan" in found(records, "permissions", "ok")
    assert found(records, "sandbox", "ok") or found(records, "sandbox", "warning")


def test_stored_sessions(doctor: Doctor, tmp_path: Path) -> None:
    assert main(["-p", "hello", "-e", "model.py", "-m", "scripted/m", "-q"]) == 0
    assert "1 in" in found(doctor()[1], "sessions", "ok")
    (path,) = (tmp_path / "home/sessions").glob("*/*.jsonl")
    path.with_name("broken.jsonl").write_text("no session\n")
    with open(path, "ab") as stream:
        stream.write(b'{"seq": 99')
    os.utime(path, (1, 1))
    _, records = doctor()
    assert "broken.jsonl cannot be read at all" in found(records, "sessions", "warning")
    assert f"{path} end within a line" in found(records, "sessions", "note")
    assert "dsh sessions repair" in found(records, "sessions", "note")


def test_a_store_in_a_database(doctor: Doctor, tmp_path: Path) -> None:
    flags = ["--config", "sessions.store=sqlite"]
    assert main(["-p", "hello", "-e", "model.py", "-m", "scripted/m", "-q", *flags]) == 0
    assert f"1 in {tmp_path}/home/sessions.db" in found(doctor(*flags)[1], "sessions", "ok")
    (tmp_path / "other.db").write_text("no database, and long enough to be looked at as one" * 50)
    code, records = doctor(*flags, "--config", f"sqlite.path={tmp_path}/other.db")
    assert code == 1
    assert "cannot be read" in found(records, "sessions", "error")


def test_a_store_that_cannot_be_written(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for key in ("jsonl.root", "sqlite.path"):
        store = key.partition(".")[0]
        code, records = doctor("--config", f"{key}={tmp_path}/file/below", "--config", f"sessions.store={store}")
        assert code == 1
        assert "cannot be written, so no session can be stored" in found(records, "sessions", "error")


def test_the_local_model(doctor: Doctor, tmp_path: Path) -> None:
    _, records = doctor()
    assert found(records, "local", "ok") or "pip install 'dsh-harness[local]'" in found(records, "local", "note")
    assert "http://127.0.0.1:9" in found(doctor("--config", "local.server_url=http://127.0.0.1:9")[1], "local", "ok")


def test_the_lines_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    assert main(["doctor", "-e", "model.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok    dsh")
    assert lines[-1] == "all is well" or lines[-1].startswith("0 failed, ")


def test_checks_are_in_order() -> None:
    checks = Checks()
    checks.view("b").warning("z", "late", "x", order=9)
    checks.view("a").ok("y", "early", order=1)
    checks.view("a").ok("x", "a plugin's, which says no place")
    assert [check.area for check in checks] == ["y", "z", "x"]
    assert list(checks)[:2] == [Check("y", "ok", "early"), Check("z", "warning", "late", "x")]


def test_settings_are_counted_and_tables_are_none(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    file = tmp_path / "home/config.toml"
    file.write_text("[hooks]\n[sandbox]\n")
    assert found(doctor()[1], "config", "ok") == f"{file}, nothing is set in it -> "
    file.write_text("[hooks]\ndeadline = 30\n[plugins]\ndisabled = []\n")
    assert found(doctor()[1], "config", "ok") == f"{file}, 2 settings -> "


def test_every_mistake_in_settings_has_a_line(doctor: Doctor, tmp_path: Path) -> None:
    """Of the tables of plugins; and of files that are no TOML, with what can be seen beside them."""
    pytest.importorskip("dsh_retry")
    pytest.importorskip("dsh_compaction")
    (tmp_path / "home").mkdir()
    config = tmp_path / "home/config.toml"
    config.write_text('[retry]\ntries = "x"\n[compaction]\nthresold = 1\n[nonsense]\na = 1\n[network]\nproxi = "x"\n')
    code, records = doctor()
    said = found(records, "config", "error").splitlines()
    assert (code, len(said)) == (1, 4)
    for words in (
        "retry.tries: expected a whole",
        "compaction.thresold: unknown",
        "nonsense: nothing",
        "network.proxi",
    ):
        assert sum(words in line for line in said) == 1, words
    config.write_text("model = [")
    (tmp_path / ".dsh").mkdir()
    (tmp_path / ".dsh/config.toml").write_text("also wrong")
    (tmp_path / ".dsh/config.local.toml").write_text("x = 1 = 2")
    code, records = doctor("--config", "nonsense")
    said = found(records, "config", "error").splitlines()
    assert (code, len(said)) == (1, 4)
    assert all("mend the setting" in line for line in said)
    assert {"disk", "terminal"} <= {record["area"] for record in records}


def test_a_plugin_of_the_folder_that_cannot_be_loaded(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / ".dsh/plugins").mkdir(parents=True)
    (tmp_path / ".dsh/plugins/broken.py").write_text("import nothing_such\n")
    code, records = doctor("--trust")
    assert code == 1
    assert "the plugin broken is skipped: " in found(records, "plugins", "error")


def test_a_damaged_file_of_keys_is_told_once(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/credentials.toml").write_text("[keys\n")
    code, records = doctor()
    assert code == 1
    assert len([record for record in records if "credentials.toml" in record["text"]]) == 1


def test_whose_answer_counts(doctor: Doctor, tmp_path: Path) -> None:
    body = "@hookimpl\ndef agent_request(config):\n    return config\n"
    wraps = "@hookimpl(wrapper=True)\nasync def agent_request(config):\n    yield\n"
    one, two = plugin(tmp_path, "one", body), plugin(tmp_path, "two", body)
    _, records = doctor("-e", one, "-e", two, "-e", plugin(tmp_path, "three", wraps))
    notes = found(records, "plugins", "note")
    assert "agent_request: two is asked before one; the first answer counts" in notes
    assert "agent_request may be changed by three, " in notes or "--no-plugin" in notes
