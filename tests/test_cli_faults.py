"""What plugins, files and folders can do wrong, and what the command makes of it: one document, a documented code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh.cli.progress import Progress

NO_RETRY = ("--no-plugin", "retry")

Faulty = Callable[..., Any]


@pytest.fixture
def faulty(stage: Any) -> Faulty:
    """Run ``dsh`` with a plugin ``faulty`` of that text; nothing may be a traceback."""

    def run(code: str, *arguments: str, **environ: str) -> Any:
        stage.plugins.clear()
        if code:
            stage.plugin("faulty", f"from dsh import *\n{code}\n")
        stage.env.update(environ)
        return stage.end(stage.start(*arguments))

    return run


def hook(name: str, body: str, arguments: str = "harness") -> str:
    return f"@hookimpl\ndef {name}({arguments}):\n    {body}\n"


ENDS = {
    "import-exit": ("raise SystemExit(7)", 1),
    "import-interrupt": ("raise KeyboardInterrupt", 130),
    "import-group": ("raise BaseExceptionGroup('x', [KeyboardInterrupt(), ValueError('v')])", 130),
    "configure-exit": (hook("dsh_configure", "raise SystemExit(0)"), 2),
    "configure-exits": (hook("dsh_configure", "raise BaseExceptionGroup('x', [SystemExit(5), SystemExit(6)])"), 2),
    "configure-group": (hook("dsh_configure", "raise BaseExceptionGroup('x', [KeyboardInterrupt()])"), 130),
}


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
@pytest.mark.parametrize("fault", ENDS)
def test_what_ends_a_program_has_a_documented_code(faulty: Faulty, fault: str, output: str) -> None:
    code, wanted = ENDS[fault]
    ran = faulty(code, "-p", "x", "-m", "openai/x", "--output-format", output)
    assert ran.code == wanted
    assert (wanted == 130) == (ran.err == "")
    if output == "text":
        assert ran.out == ""
    else:
        assert json.loads(ran.out)["exit_code"] == wanted


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_an_error_of_closing_is_told_beside_the_one_document(stage: Any, output: str) -> None:
    stage.plugin("faulty", "from dsh import *\n" + hook("dsh_unconfigure", "raise ValueError('it broke')"))
    with stage.serving(stage.script({"text": "hello"})):
        ran = stage.run("x", "--output-format", output)
    assert ran.code == 1
    assert ran.err.count("it broke") == 1
    if output == "text":
        assert ran.out == "hello\n"
        return
    records = [json.loads(line) for line in ran.out.splitlines()]
    (result,) = [record for record in records if record["type"] == "result"]
    assert (result["exit_code"], result["text"], result["reason"]) == (1, "hello", "completed")
    assert "it broke" in result["error"]["message"]


PRINTS = "\n".join(
    [
        "print('NOISE import')",
        hook("dsh_configure", "print('NOISE configure')"),
        hook("session_event", "print('NOISE event')", "event"),
        hook("dsh_unconfigure", "import sys; sys.stdout.write('NOISE unconfigure')"),
    ]
)


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_what_plugins_print_is_not_the_answer(stage: Any, output: str) -> None:
    stage.plugin("noisy", f"from dsh import *\n{PRINTS}")
    with stage.serving(stage.script({"text": "hello"})):
        ran = stage.run("x", "--output-format", output)
    assert ran.code == 0
    assert "NOISE" not in ran.out
    for place in ("import", "configure", "event", "unconfigure"):
        assert f"NOISE {place}" in ran.err
    if output == "text":
        assert ran.out == "hello\n"


def test_what_plugins_print_is_not_in_lists(faulty: Faulty) -> None:
    ran = faulty(PRINTS, "plugins", "--json")
    assert "faulty" in [row["name"] for row in json.loads(ran.out)]
    assert "NOISE" not in faulty(PRINTS, "hooks").out
    assert faulty(PRINTS, "sessions", "--json").out == ""


MISTAKES = {
    "configure": (hook("dsh_configure", "raise ValueError('it broke')"), (), "it broke"),
    "adapters": (hook("llm_adapters", "raise ValueError('it broke')", "adapters"), (), "it broke"),
    "secrets": (hook("secrets_register", "raise ValueError('it broke')", "secrets"), (), "it broke"),
    "types": (hook("session_event_types", "raise ValueError('it broke')", "types"), (), "it broke"),
    "factory": ("@hookimpl\nasync def agent_factory(harness): raise ValueError('it broke')", (), "it broke"),
    "tools": (
        "async def bash() -> str:\n    'Twice.'\n    return ''\n"
        + hook("tools_register", "tools.add(tool(bash))", "tools"),
        (),
        "bash",
    ),
    "loop": ("", ("--no-plugin", "loop"), "no plugin makes agents"),
}


@pytest.mark.parametrize("fault", MISTAKES)
def test_mistakes_of_the_setup_are_2(faulty: Faulty, fault: str) -> None:
    code, flags, told = MISTAKES[fault]
    ran = faulty(code, "-p", "x", "-m", "openai/x", "--json", *NO_RETRY, *flags)
    document = json.loads(ran.out)
    assert (ran.code, document["exit_code"]) == (2, 2)
    assert told in ran.err
    assert told in document["error"]["message"]


@pytest.mark.parametrize("key", ["", "two words"])
def test_a_key_that_cannot_be_sent_is_2(faulty: Faulty, key: str) -> None:
    ran = faulty("", "-p", "x", "-m", "deepseek/x", "--json", DEEPSEEK_API_KEY=key, DEEPSEEK_BASE_URL="")
    document = json.loads(ran.out)
    assert (ran.code, document["exit_code"], document["error"]["code"]) == (2, 2, "AUTH")


def test_a_key_that_is_refused_is_1(stage: Any) -> None:
    with stage.serving(stage.script({"status": 401})):
        assert stage.run("x", *NO_RETRY).code == 1


def test_an_id_that_is_taken_is_2(stage: Any) -> None:
    with stage.serving(stage.script({"text": "hello", "repeat": True})):
        assert stage.run("x", "--session-id", "abc").code == 0
        before = stage.log.read_bytes()
        ran = stage.run("x", "--session-id", "abc", "--json")
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == (2, "SESSION_ALREADY_EXISTS")
    assert "resume it" in ran.err
    assert stage.log.read_bytes() == before


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_home_that_cannot_be_written_is_told_once(stage: Any, flags: tuple[str, ...]) -> None:
    stage.env["DSH_HOME"] = "/proc/nowhere"
    ran = stage.end(stage.start("-p", "x", "-m", "openai/x", *flags, *NO_RETRY))
    assert ran.code == 1
    assert ran.err.count("/proc/nowhere") == 1
    assert "dsh: cannot write the session file" in ran.err
    assert "session " not in [line[:8] for line in ran.err.splitlines()]


def test_a_session_that_is_not_stored_is_not_named(stage: Any) -> None:
    with stage.serving(stage.script({"text": "hello"})):
        ran = stage.run("x", "--no-plugin", "jsonl")
    assert ran.code == 0
    assert "1 step, " in ran.err
    assert "session " not in ran.err


def test_control_characters_do_not_reach_the_terminal(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (("-C", "\x1b[2J"), ("--config", "a\x1b[2Jb=1"), ("--config", "\x1b[2J"), ("-m", "\x1b[2J/x")):
        ran = faulty("", "-p", "x", *flags)
        assert ran.code == 2
        assert "\x1b" not in ran.err
    ran = faulty(hook("dsh_configure", "raise ValueError('a\\x1b[2Jb \\u202e')"), "-p", "x")
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err
    Progress(1).say("a\x1b]0;title\x07b")
    assert capsys.readouterr().err == "a\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}b\n"


def test_a_directory_that_is_gone_can_be_left(stage: Any, tmp_path: Path) -> None:
    stage.work.mkdir()
    gone = tmp_path / "gone"
    code = (
        "import os, sys; os.mkdir(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]);"
        " from dsh.cli import main; sys.exit(main(sys.argv[2:]))"
    )
    import subprocess

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, str(gone), *flags]
        env = {**os.environ, "DSH_HOME": str(stage.home), "PYTHONSAFEPATH": "1"}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)

    done = run("config", "path", "-C", str(stage.work))
    assert (done.returncode, done.stderr) == (0, "")
    for flags in ((), ("-C", "there")):
        done = run("config", "path", *flags)
        assert done.returncode == 2
        assert "-C with an absolute path" in done.stderr


def test_settings_are_a_file_of_a_sensible_size(faulty: Faulty, stage: Any) -> None:
    stage.home.mkdir()
    path = stage.home / "config.toml"
    os.mkfifo(path)
    for told in ("is no regular file", "is larger than 1 MiB", "is no regular file"):
        ran = faulty("", "config")
        assert ran.code == 2
        assert told in ran.err
        path.unlink()
        if "regular" in told:
            path.write_bytes(b"#" * ((1 << 20) + 1))
        else:
            path.symlink_to("/dev/zero")


def test_two_plugins_of_one_name_are_told_once(faulty: Faulty, stage: Any) -> None:
    site = stage.tmp / "site"
    for dist in ("one", "two"):
        info = site / f"{dist}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[dsh]\nsame = json\n")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    ran = faulty("", "plugins", PYTHONPATH=path)
    assert ran.code == 2
    assert ran.err.count("two distributions bring a plugin") == 1


def test_a_plugin_without_hooks_is_told(stage: Any) -> None:
    stage.plugin("idle", "def answer(): pass\n")
    with stage.serving(stage.script({"text": "hello"})):
        assert "the plugin idle implements no hook" in stage.run("x").err


@pytest.mark.parametrize("cut", [{"cut": 60}, {"cut_after": ["hello", 5]}])
def test_an_answer_that_breaks_off_is_75(stage: Any, cut: dict[str, Any]) -> None:
    with stage.serving(stage.script({"text": "hello there", "repeat": True, **cut})):
        ran = stage.run("x", "--json", "--config", "retry.tries=1")
    document = json.loads(ran.out)
    assert (ran.code, document["exit_code"], document["error"]["code"]) == (75, 75, "STREAM_CLOSED")


def test_names_of_plugins_that_there_are_not_are_told(faulty: Faulty) -> None:
    ran = faulty("", "config", "path", "--config", 'plugins.disabled=["shel"]')
    assert ran.code == 0
    assert "there is no plugin shel, did you mean shell?" in ran.err


def test_no_model_names_the_provider_that_is_left_out(faulty: Faulty) -> None:
    ran = faulty("", "-p", "x", "--no-plugin", "chat", "-m", "openai/x")
    assert ran.code == 2
    assert "the plugin chat" in ran.err
