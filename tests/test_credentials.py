"""Keys in a file: found behind the environment, never shown, written for their owner alone."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dsh import ConfigError, open_harness
from dsh.cli import main
from dsh.credentials import environment, read_credentials, write_credentials

KEY = "sk-kept-0123456789abcdef"
Serving = Callable[[dict[str, Any]], AbstractContextManager[str]]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    path = write_credentials(home, {"B_KEY": KEY, "A_KEY": 'with "quotes"'})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    found = read_credentials(home)
    assert (found.keys, found.open_to) == ({"B_KEY": KEY, "A_KEY": 'with "quotes"'}, "")
    assert KEY not in repr(found)
    path.chmod(0o644)
    assert read_credentials(home).open_to == "its group and everybody"
    write_credentials(home, {"B_KEY": KEY})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_credentials(home, {})
    assert not path.exists()
    assert read_credentials(home).keys == {}


def test_the_environment_comes_first_unless_it_says_nothing() -> None:
    environ = {"A": "env", "B": " ", "C": ""}
    found = environment(environ, {"A": "kept", "B": "kept", "D": "kept"})
    assert dict(found) == {"A": "env", "B": "kept", "C": "", "D": "kept"}
    assert (found.get("E"), len(found)) == (None, 4)
    assert environment(environ, {}) is environ


@pytest.mark.parametrize(
    "text", [f'[openai]\nkey = "{KEY}"', f"A_KEY = '''{KEY}", f'"{KEY}" = 1', f"A_KEY = ['{KEY}']", f"\xff{KEY}"]
)
def test_a_file_that_is_none_is_refused_without_showing_a_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "credentials.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        read_credentials(tmp_path)
    assert "credentials.toml" in caught.value.message
    assert KEY not in caught.value.message


async def test_providers_find_them_and_nobody_sees_them(home: Path) -> None:
    write_credentials(home, {"GROQ_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-ant-kept-0123456789"})
    async with open_harness(home=home) as harness:
        configured = {name for name, adapter in harness.llm.adapters.items() if getattr(adapter, "configured", False)}
        assert {"groq", "anthropic"} <= configured
        assert "deepseek" not in configured
        assert harness.secrets.mask(f"it is {KEY}") == "it is [secret GROQ_API_KEY]"
        assert "GROQ_API_KEY" not in os.environ


async def test_a_file_that_others_may_read_is_a_warning(home: Path) -> None:
    write_credentials(home, {"GROQ_API_KEY": KEY}).chmod(0o640)
    said: list[str] = []
    async with open_harness(home=home, warn=said.append):
        pass
    assert [text for text in said if "keys" in text] == [
        f"its group may read the keys in {home}/credentials.toml; chmod 600 {home}/credentials.toml",
    ]


def test_set_check_and_remove(
    home: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def models(request: Any) -> tuple[int, str, bytes]:
        good = request.headers["authorization"] == f"Bearer {KEY}"
        return (200, "application/json", b'{"data": [{"id": "m"}]}') if good else (401, "application/json", b"{}")

    with serving({"GET /v1/models": models}) as url:
        flags = ["--config", f"providers.groq.base_url={url}/v1", "--config", "providers.groq.key_env=GROQ_API_KEY"]
        assert main(["auth", "check", "groq", *flags]) == 2
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"  {KEY}\n"))
        assert main(["auth", "set", "groq", *flags]) == 0
        assert main(["auth", "check", "groq", *flags]) == 0
        assert main(["auth", "remove", "groq", *flags]) == 0
        assert main(["auth", "check", "groq", *flags]) == 2
    shown = capsys.readouterr()
    assert "`dsh auth set groq` keeps one" in shown.out
    assert "the key in GROQ_API_KEY is accepted" in shown.out
    assert KEY not in shown.out + shown.err
    assert list(home.glob("credentials*")) == []


@pytest.mark.parametrize(
    ("argv", "given", "message"),
    [
        (["auth", "set"], "x", "dsh auth set: name a provider"),
        (["auth", "set", "grok"], "x", "did you mean groq?"),
        (["auth", "set", "groq"], " \n", "no key was given"),
        (["auth", "set", "groq"], "two words", "holds no key"),
        (["auth", "remove", "groq"], "", "no key is kept as GROQ_API_KEY"),
        (["auth", "set", "plain"], "x", "plain takes no key"),
    ],
)
def test_mistakes(
    home: Path,
    argv: list[str],
    given: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "config.toml").write_text('[providers.plain]\nbase_url = "http://127.0.0.1:9/v1"\n')
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    assert main(argv) == 2
    assert message in capsys.readouterr().err
    assert not (home / "credentials.toml").exists()


def test_a_variable_that_is_set_as_well_is_pointed_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-of-the-environment")
    monkeypatch.setattr(sys, "stdin", io.StringIO(KEY))
    assert main(["auth", "set", "groq"]) == 0
    assert "GROQ_API_KEY is set in the environment, too, and comes first" in capsys.readouterr().err
    assert main(["auth", "remove", "GROQ_API_KEY"]) == 0


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_credentials(tmp_path / "file" / "home", {"A": KEY})


MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(call("read", {"file_path": PATH}), text("done")))
"""


def test_what_a_model_reads_of_it_has_no_key_and_is_asked_about(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_credentials(home, {"GROQ_API_KEY": KEY})
    for question in (f"read({path})", f"bash(cat {path})", f"edit({path})"):
        assert main(["permissions", "check", question, "--add-dir", str(home)]) in (0, 1, 3)
        assert not capsys.readouterr().out.startswith("allow")
    Path("model.py").write_text(MODEL.replace("PATH", repr(str(path))))
    for mode, said in (("default", "dsh's own"), ("bypass", "[secret GROQ_API_KEY]")):
        main(["-p", "look", "-e", "model.py", "-m", "scripted/m", "--permission-mode", mode, "--session-id", mode])
        (log,) = home.glob(f"sessions/*/{mode}.jsonl")
        assert said in log.read_text()
        assert KEY not in log.read_text()
