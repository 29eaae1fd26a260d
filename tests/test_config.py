"""Settings: layers, projects, flags, complaints, trust, and writing them back."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.config import Config, HooksConfig, config_files, dsh_home, dump, load_config
from dsh.errors import ConfigError
from dsh.structure import StructureError, structure
from dsh.trust import TrustStore


@attrs.frozen
class Inner:
    size: int
    names: tuple[str, ...] = ()


@attrs.frozen
class Plug:
    timeout: float = 1.5
    mode: Literal["fast", "slow"] = "fast"
    where: Path | None = None
    inner: Mapping[str, Inner] = attrs.field(factory=dict)
    letters: list[str] = attrs.field(factory=list)
    kinds: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class House:
    """A user's home and a project under it."""

    person: Path
    project: Path

    def user(self, text: str) -> None:
        (self.person / ".dsh").mkdir(exist_ok=True)
        (self.person / ".dsh" / "config.toml").write_text(text, encoding="utf-8")

    def write(self, text: str, name: str = "config.toml") -> None:
        (self.project / ".dsh" / name).write_text(text, encoding="utf-8")

    def load(self, *overrides: str, cwd: Path | None = None, profile: str | None = None, **environ: str) -> Config:
        environ = {"HOME": str(self.person), **environ}
        return load_config(
            cwd=cwd or self.project, home=dsh_home(environ), environ=environ, overrides=overrides, profile=profile
        )

    def complaint(self, *overrides: str, **more: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(*overrides, **more)
        return str(caught.value)


@pytest.fixture
def house(tmp_path: Path) -> House:
    project = tmp_path / "home" / "work" / "project"
    (project / ".dsh").mkdir(parents=True)
    return House(tmp_path / "home", project)


def test_nothing_said_is_all_defaults(house: House) -> None:
    assert house.load() == Config()
    assert Config().hooks == HooksConfig(60.0, True)


def test_later_layers_win_key_by_key(house: House) -> None:
    house.user('model = "a/user"\nsystem_prompt = "user"\n[hooks]\ndeadline = 1\ntrace = false')
    house.write('model = "a/project"\n[hooks]\ndeadline = 2')
    assert house.load().model == "a/project"
    house.write('model = "a/local"', "config.local.toml")
    assert house.load().model == "a/local"
    assert house.load(DSH_MODEL="a/environment").model == "a/environment"
    config = house.load("model=a/flag", DSH_MODEL="a/environment")
    assert config.model == "a/flag"
    assert config.hooks == HooksConfig(2.0, False)
    assert config.system_prompt == "user"


def test_an_empty_variable_says_nothing(house: House) -> None:
    house.user('model = "a/user"')
    assert house.load(DSH_MODEL="", DSH_HOME="").model == "a/user"


def test_the_project_is_the_nearest_folder_upwards_with_settings_or_a_repository(house: House) -> None:
    house.write('model = "a/outer"')
    deep = house.project / "a" / "b"
    deep.mkdir(parents=True)
    assert house.load(cwd=deep).model == "a/outer"
    (house.project / "a" / ".git").mkdir()
    assert house.load(cwd=deep).model == ""
    files = config_files(cwd=deep, home=house.person / ".dsh", environ={"HOME": str(house.person)})
    assert files.root == house.project / "a"


def test_the_users_own_folder_is_no_project(house: House) -> None:
    house.user('model = "a/user"\n[plugins]\ndisabled = ["todo"]')
    for extra in ({}, {"DSH_HOME": str(house.person / "elsewhere")}):
        config = house.load(cwd=house.person, **extra)
        assert config.model == ("" if extra else "a/user")
    (house.person / ".git").mkdir()
    assert house.load(cwd=house.person).plugins.disabled == ("todo",)


def test_a_profile_lies_over_all_files(house: House) -> None:
    house.user('model = "a/user"\n[profiles.fast]\nmodel = "a/fast"\n[profiles.fast.hooks]\ndeadline = 3')
    house.write('model = "a/project"\n[profiles.slow]\nmodel = "a/slow"')
    config = house.load(profile="fast", DSH_MODEL="a/environment")
    assert (config.model, config.hooks.deadline) == ("a/fast", 3.0)
    assert house.load("model=a/flag", profile="fast").model == "a/flag"
    assert house.load().model == "a/project"
    assert house.complaint(profile="fst") == "--profile fst: no such profile, did you mean fast?"


def test_an_unknown_profile_without_any_says_so(house: House) -> None:
    assert "no [profiles.NAME] tables" in house.complaint(profile="x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hooks.deadline=5", 5.0),
        ("hooks.deadline = 5.5", 5.5),
        ('hooks."deadline"=5', 5.0),
    ],
)
def test_flags_take_dotted_keys(house: House, text: str, expected: float) -> None:
    assert house.load(text).hooks.deadline == expected


def test_flags_take_toml_or_plain_text(house: House) -> None:
    config = house.load(
        "model=deepseek/v4", 'x.a=["b", "c"]', "x.d=true", "x.e=a = b", "x.f={g = 1}", "x.h=", "x.i=2\nj = 3"
    )
    assert config.model == "deepseek/v4"
    assert config.tables["x"] == {"a": ["b", "c"], "d": True, "e": "a = b", "f": {"g": 1}, "h": "", "i": "2\nj = 3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model", "--config model: expected key=value, as in hooks.deadline=30"),
        ("=3", "expected key=value"),
        ("a b=3", "'a b' is no key"),
        ("plugins.load=[a, b]", "--config plugins.load: [a, b] is no TOML value"),
        ("hooks.dedline=3", "--config hooks.dedline: unknown key, did you mean deadline?"),
        ("hooks.deadline=soon", "--config hooks.deadline: expected a number, got a string"),
        ("hooks.deadline=0", "deadline must be more than 0"),
        ("hooks=3", "hooks: expected a table, got 3"),
        ("model=3", "model: expected a string, got 3"),
        ("hooks.trace=1", "expected true or false, got 1"),
        ('plugins.disabled="todo"', "plugins.disabled: expected a list, got a string"),
        ("plugins.disabled=[1]", "plugins.disabled[0]: expected a string, got 1"),
        ("modle=x", "modle: unknown key, did you mean model?"),
    ],
)
def test_flags_complain(house: House, text: str, message: str) -> None:
    assert message in house.complaint(text)


def test_all_complaints_come_at_once_each_with_its_file(house: House) -> None:
    house.user("[hooks]\ntrace = 3")
    house.write('[hooks]\ndedline = 3\n[plugins]\nrequired = "todo"')
    lines = house.complaint().splitlines()
    assert f"{house.person}/.dsh/config.toml: hooks.trace: expected true or false, got 3" in lines
    assert ".dsh/config.toml: hooks.dedline: unknown key, did you mean deadline?" in lines
    assert ".dsh/config.toml: plugins.required: expected a list, got a string" in lines
    assert len(lines) == 3


def test_a_file_that_is_no_toml_names_the_line(house: House) -> None:
    house.write('model = "a"\nhooks = [1,\n')
    assert house.complaint().startswith(".dsh/config.toml: ")
    house.write('model = "a"\nhooks deadline\n')
    assert house.complaint().startswith(".dsh/config.toml, line 2, column ")


def test_a_file_that_cannot_be_read_is_named(house: House) -> None:
    (house.project / ".dsh" / "config.toml").mkdir()
    assert ".dsh/config.toml: cannot be read: Is a directory" in house.complaint()
    (house.project / ".dsh" / "config.local.toml").write_bytes(b'\xef\xbb\xbfmodel = "a/b"')
    (house.project / ".dsh" / "config.toml").rmdir()
    assert house.load().model == "a/b"
    (house.project / ".dsh" / "config.toml").write_bytes(b'model = "\xff"')
    assert "is not UTF-8 (byte 9)" in house.complaint()


UNTRUSTED = [
    ('plugins.load = ["evil.py"]', "plugins.load"),
    ('plugins.disabled = ["todo"]', "plugins.disabled"),
    ('providers.deepseek.base_url = "http://x"', "providers"),
    ('providers.deepseek.headers.a = "b"', "providers"),
    ('shell.shell = "./sh"', "shell.shell"),
    ('anthropic.base_url = "http://x"', "anthropic.base_url"),
    ("anthropic.extra_body.mcp_servers = [{type = 'url', url = 'https://x', name = 'x'}]", "anthropic.extra_body"),
    ("anthropic.server_tools = [{type = 'web_fetch_20250910', name = 'web_fetch'}]", "anthropic.server_tools"),
    ("anthropic.beta = ['mcp-client-2025-04-04']", "anthropic.beta"),
    ('mcp.servers = [{command = "x", args = []}]', "mcp.servers[0]"),
    ('[mcp.servers.one]\ncommand = "x"\nargs = []', "mcp.servers.one"),
    ("hooks.trace = false", "hooks.trace"),
    ("sandbox.mode = 'danger-full-access'", "sandbox"),
    ("secrets.keep_env = ['*']", "secrets"),
    ("instructions.names = ['.env']", "instructions.names"),
    ("skills.folders = ['/']", "skills.folders"),
    ("checkpoints.enabled = false", "checkpoints.enabled"),
    ('[profiles.p.shell]\nshell = "./sh"', "profiles.p.shell.shell"),
    ("[budget]\nmax_usd = 1e6", "budget"),
]


@pytest.mark.parametrize(("text", "key"), UNTRUSTED)
@pytest.mark.parametrize("name", ["config.toml", "config.local.toml", "config.allowed.toml"])
def test_a_project_sets_nothing_that_runs_code_or_redirects_credentials(
    house: House, text: str, key: str, name: str
) -> None:
    house.write(f'append_system_prompt = "kept"\n{text}', name)
    profile = "p" if "profiles" in text else None
    config = house.load(profile=profile)
    assert config.folder is not None
    assert config.folder.wants == (f".dsh/{name}: {key}",)
    assert config == Config(append_system_prompt="kept")

    TrustStore(house.person / ".dsh").keep(config.folder, True)
    trusted = house.load(profile=profile)
    assert trusted.folder is not None
    assert trusted.folder.trusted
    assert trusted != config


def test_a_project_may_tighten_what_it_does_not_loosen(house: House) -> None:
    house.write('[permissions]\ndeny = ["bash(rm *)"]\nask = ["write"]\nmode = "plan"\n[plugins]\nrequired = ["audit"]')
    config = house.load()
    assert config.folder is not None
    assert config.folder.wants == ()
    assert config.tables["permissions"]["deny"] == ["bash(rm *)"]
    house.write('[permissions]\ndeny = ["bash(rm *)"]\nallow = ["write"]\nmode = "bypass"\nnews = 1')
    config = house.load()
    assert config.folder is not None
    assert config.folder.wants == (".dsh/config.toml: permissions.allow, permissions.mode, permissions.news",)
    assert [layer.trusted for layer in config.layers] == [False]


def test_the_user_and_flags_may(house: House) -> None:
    house.user('[plugins]\nload = ["mine.py"]\ndisabled = ["todo"]\n[shell]\nshell = "/bin/zsh"')
    assert house.load().plugins.load == ("mine.py",)
    assert house.load('plugins.disabled=["files"]').plugins.disabled == ("files",)


def test_required_plugins_add_up(house: House) -> None:
    house.user('plugins.required = ["todo"]')
    house.write('plugins.required = ["shell", "todo"]')
    assert house.load("plugins.required=[]").plugins.required == ("todo", "shell")


@pytest.mark.parametrize("name", ["permissions", "sandbox", "mine"])
def test_a_guard_is_not_disabled_by_a_setting(house: House, name: str) -> None:
    house.user(f'[plugins]\nrequired = ["mine"]\ndisabled = ["{name}"]')
    assert f"{name} is a required guard and cannot be disabled by a setting" in house.complaint()


def test_a_plugin_reads_its_own_table(house: House) -> None:
    house.write(
        '[plug]\ntimeout = 3\nmode = "slow"\nwhere = "~/x"\nletters = ["a"]\nkinds = ["k", "k"]\n'
        '[plug.inner.one]\nsize = 2\nnames = ["n"]\n[plug.extra]\nany = [1, {a = 2}]'
    )
    config = house.load()
    assert config.unclaimed() == ["plug"]
    assert config.section("plug", Plug) == Plug(
        3.0, "slow", Path("~/x").expanduser(), {"one": Inner(2, ("n",))}, ["a"], frozenset("k"), {"any": [1, {"a": 2}]}
    )
    assert config.unclaimed() == []
    assert config.section("absent", Plug) == Plug()
    assert config.section("absent", dict[str, Inner]) == {}


def test_a_plugins_table_is_checked_as_strictly(house: House) -> None:
    house.write('[plug]\ntimeut = 3\nmode = "medium"\nletters = "abc"\n[plug.inner.one]\nnames = ["n", 2]\nsise = 1')
    with pytest.raises(ConfigError) as caught:
        house.load().section("plug", Plug)
    assert sorted(str(caught.value).splitlines()) == [
        ".dsh/config.toml: plug.inner.one.names[1]: expected a string, got 2",
        ".dsh/config.toml: plug.inner.one.sise: unknown key, did you mean size?",
        ".dsh/config.toml: plug.inner.one.size: is missing, and has no default",
        ".dsh/config.toml: plug.letters: expected a list, got a string",
        ".dsh/config.toml: plug.mode: expected one of 'fast', 'slow', got 'medium'",
        ".dsh/config.toml: plug.timeut: unknown key, did you mean timeout?",
    ]


def test_tables_that_nobody_asked_for_are_refused(house: House) -> None:
    house.write("[plog]\na = 1\n[gone]\nb = 2")
    config = house.load()
    config.section("plug", Plug)
    with pytest.raises(ConfigError) as caught:
        config.refuse_unclaimed({"gone"})
    assert str(caught.value) == ".dsh/config.toml: plog: nothing has settings of that name, did you mean plug?"
    config.refuse_unclaimed({"gone", "plog"})


def test_text_is_never_quoted_in_a_complaint(house: House) -> None:
    assert "sk-secret" not in house.complaint("hooks.deadline=sk-secret")


def test_what_is_written_back_is_read_again(house: House) -> None:
    house.user(
        'model = "a/b"\nappend_system_prompt = "x\\ny"\n'
        '[plugins]\nrequired = ["todo"]\n[plug]\ntimeout = 2\nc = {d = 1}'
    )
    config = house.load()
    house.user(dump(config))
    assert house.load() == config


def test_secrets_are_not_written_back(house: House) -> None:
    house.user(
        "[providers.one]\n"
        'base_url = "https://me:pass@host/v1"\n'
        'key_env = "ONE_KEY"\n'
        'api_key = "abc"\n'
        "[providers.one.headers]\n"
        'Authorization = "Bearer abcdef"\n'
        'X-Api-Key = "abc"\n'
        'X-Trace = "sk-abcdefgh"\n'
        'X-Long = "0123456789abcdef0123456789abcdef"\n'
        'User-Agent = "me"\n'
    )
    shown = tomllib.loads(dump(house.load()))["providers"]["one"]
    assert shown == {
        "base_url": "https://***@host/v1",
        "key_env": "ONE_KEY",
        "api_key": "***",
        "headers": {
            "Authorization": "***",
            "X-Api-Key": "***",
            "X-Trace": "***",
            "X-Long": "***",
            "User-Agent": "me",
        },
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["timeout", "mode", "where", "inner", "letters", "kinds", "size", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_either_fits_or_is_refused_with_a_place(value: Any) -> None:
    try:
        plug = structure(value, Plug, ("plug",))
    except StructureError as refused:
        problems = refused.problems
    else:
        assert isinstance(plug.timeout, float)
        assert all(isinstance(letter, str) for letter in plug.letters)
        return

    assert problems
    assert all(problem.path[0] == "plug" and problem.message for problem in problems)
