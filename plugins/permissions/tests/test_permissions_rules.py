"""Rules: how they are written, what they match, and which of them counts."""

from __future__ import annotations

from typing import Any

import pytest
from dsh_permissions.judge import Judge
from dsh_permissions.rules import RuleSet, parse_rule, split_rules
from dsh_permissions.settings import read_permissions

from dsh import Config, ConfigError
from dsh.layers import Layer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a tool's name"),
        ("bash(", "expected a tool's name"),
        ("git status", "expected a tool's name"),
        ("bash()", "the pattern is empty"),
        ("bash(ls && pwd)", "each command of a line is judged alone"),
        ("bash(cat * | sh)", "each command of a line is judged alone"),
        ("bash(echo * > f)", "each command of a line is judged alone"),
        ("bash(a; b)", "each command of a line is judged alone"),
        ("bash(a\nb)", "line break"),
        ("bash(git *:*)", "either a prefix"),
        ("bash(domain:a.org)", "a command has no domain"),
        ("read(a/../b)", "without . and .."),
        ("read(a//b)", "have no //"),
        ("write(domain:a.org)", "takes paths"),
        ("web_fetch(domain:https://a.org/x)", "stands a host"),
    ],
)
def test_a_rule_that_could_match_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rule(text, "allow", ".dsh/config.toml")
    assert caught.value.message.startswith(f".dsh/config.toml: permissions.allow: {text!r}: ")
    assert why in caught.value.message
    assert caught.value.code == "CONFIG"


def test_flags_part_rules_at_commas_outside_of_parentheses() -> None:
    assert split_rules("read, bash(echo a,b) ,mcp__x__*") == ["read", "bash(echo a,b)", "mcp__x__*"]


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("bash(git status*)", "git status -s", True),
        ("bash(git status*)", "git stash", False),
        ("bash(git push:*)", "git push", True),
        ("bash(git push:*)", "git push origin", True),
        ("bash(git push:*)", "git pushx", False),
        ("bash(make *)", "make", True),
        ("bash(make *)", "make all", True),
        ("bash(make *)", "maker", False),
        ("bash(make)", "make", True),
        ("bash(make)", "make all", False),
        ("bash(make)", "/usr/bin/make", True),
        ("bash(make)", "./make", False),
        ("bash(./make)", "./make", True),
        ("bash(git tag v?)", "git tag v1", True),
        ("bash(git tag v?)", "git tag $x", False),
        ("bash(git tag *)", "git tag $x", True),
        ("bash(git tag *)", "'git tag' x", False),
        ("bash", "anything at all", True),
        ("b*", "anything at all", True),
    ],
)
def test_what_a_rule_for_commands_allows(ground: Any, rule: str, command: str, matches: bool) -> None:
    assert ground.bash(command, allow=[rule]).kind == ("allow" if matches else "ask")


@pytest.mark.parametrize(
    ("rule", "command", "kind"),
    [
        ("bash(git push)", "git push origin", "deny"),
        ("bash(git push)", "git pull", "ask"),
        ("bash(git push*)", "git -C x --no-pager push", "deny"),
        ("bash(git push*)", "git $x", "ask"),
        ("bash(make ?)", "make a", "deny"),
        ("bash(make ?)", "make $x", "ask"),
        ("bash(*)", "ls", "deny"),
        ("bash(/usr/bin/make)", "/usr/bin/make", "deny"),
    ],
)
def test_what_a_rule_for_commands_denies(ground: Any, rule: str, command: str, kind: str) -> None:
    verdict = ground.bash(command, allow=["bash(make *)", "bash(git *)"] if kind != "ask" else [], deny=[rule])
    assert verdict.kind == kind
    if kind == "deny":
        assert (verdict.rule, verdict.source) == (rule, "test")
    veiled = ground.bash(command, allow=["bash"], deny=[rule])
    assert (veiled.kind == "allow") == (command == "git pull")


@pytest.mark.parametrize(
    ("pattern", "path", "allowed", "denied"),
    [
        ("docs/*.md", "docs/a.md", True, True),
        ("docs/*.md", "docs/sub/a.md", False, False),
        ("docs/*", "docs/sub/a", False, True),
        ("docs/**", "docs/sub/a", True, True),
        ("docs/", "docs/sub/a", True, True),
        ("docs", "docs/a", True, True),
        ("**/*.md", "docs/sub/a.md", True, True),
        ("**/*.md", "a.md", True, True),
        ("*.md", "docs/a.md", True, True),
        ("*.md", "docs/a.txt", False, False),
        ("./a.md", "a.md", True, True),
        ("./a.md", "docs/a.md", False, False),
        ("a[12].md", "a1.md", True, True),
        ("a[!12].md", "a1.md", False, False),
        ("a?.md", "a/.md", False, False),
        ("docs/a.md", "src/../docs/a.md", True, True),
        ("../outside/*", "../outside/a", True, True),
    ],
)
def test_what_a_rule_for_paths_means(ground: Any, pattern: str, path: str, allowed: bool, denied: bool) -> None:
    assert ground.file("write", path, allow=[f"write({pattern})"]).kind == ("allow" if allowed else "ask")
    assert ground.file("write", path, deny=[f"write({pattern})"]).kind == ("deny" if denied else "ask")


def test_home_and_absolute_paths(ground: Any) -> None:
    assert ground.file("read", f"{ground.home}/notes/a", allow=["read(~/notes/**)"]).kind == "allow"
    assert ground.file("read", "~/notes/a", allow=["read(~/notes/**)"]).kind == "allow"
    assert ground.file("read", f"{ground.outside}/a", allow=[f"read({ground.outside}/**)"]).kind == "allow"
    assert ground.file("read", f"{ground.outside}/a", allow=["read(**)"]).kind == "ask"
    assert ground.file("read", f"{ground.outside}/a", allow=["read"]).kind == "ask"
    assert ground.file("read", f"{ground.outside}/a.pem", deny=["read(*.pem)"]).kind == "deny"


def test_rules_for_edit_and_write(ground: Any) -> None:
    assert ground.file("edit", "a", allow=["edit(a)"]).kind == "allow"
    assert ground.file("edit", "a", allow=["write(a)"]).kind == "allow"
    assert ground.file("write", "a", allow=["edit(a)"]).kind == "ask"
    assert ground.file("write", "a", allow=["write"], deny=["edit(a)"]).kind == "deny"
    assert ground.file("write", "a", allow=["write"], deny=["edit"]).kind == "allow"


def test_the_most_severe_rule_counts(ground: Any) -> None:
    rules = {"allow": ["bash(a *)"], "ask": ["bash(a b*)"], "deny": ["bash(a b c*)"]}
    assert ground.bash("a x", **rules).kind == "allow"
    assert ground.bash("a b", **rules).kind == "ask"
    assert ground.bash("a b c", **rules).kind == "deny"
    assert ground.bash("a x; a b c", **rules).kind == "deny"


def fetched(ground: Any, url: str, **rules: Any) -> str:
    judge: Judge = ground.judge(**rules)
    return judge.judge("web_fetch", {"url": url}, "fetch", "url").kind


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.org/x", "allow"),
        ("http://EXAMPLE.org:80/", "allow"),
        ("https://example.org./", "allow"),
        ("https://sub.example.org/", "ask"),
        ("https://example.org.evil.com/", "ask"),
        ("https://example.org@evil.com/", "ask"),
        ("https://evil.com/?example.org", "ask"),
        ("https://evil.com\\@example.org/", "ask"),
        ("https://evil.com#@example.org/", "ask"),
        ("https://ex\u0430mple.org/", "ask"),
        ("https://exam\tple.org/", "ask"),
        ("not an address", "ask"),
    ],
)
def test_domains(ground: Any, url: str, kind: str) -> None:
    assert fetched(ground, url, allow=["web_fetch(domain:example.org)"]) == kind


def test_domains_that_are_denied(ground: Any) -> None:
    for url in ("https://evil.com", "https://a.evil.com/", "https://EVIL.com./x", "https://x\\@evil.com"):
        assert fetched(ground, url, allow=["web_fetch"], deny=["web_fetch(domain:evil.com)"]) == "deny"
    assert fetched(ground, "https://a.b.org", allow=["web_fetch(domain:*.b.org)"]) == "allow"
    assert fetched(ground, "https://b.org", allow=["web_fetch(domain:*.b.org)"]) == "ask"


def test_names_with_stars_and_tools_that_say_nothing_of_themselves(ground: Any) -> None:
    judge = ground.judge(allow=["mcp__server__*"], deny=["mcp__server__drop*"])
    assert judge.judge("mcp__server__list", {}, None).kind == "allow"
    assert judge.judge("mcp__server__drop_all", {}, None).kind == "deny"
    assert judge.judge("mcp__other__list", {}, None).kind == "ask"
    assert judge.judge("todo_write", {}, "none").kind == "allow"
    assert ground.judge(deny=["todo_write"]).judge("todo_write", {}, "none").kind == "deny"
    assert ground.judge(allow=["t(a*)"]).judge("t", {"q": "abc"}, None, "q").kind == "allow"
    assert ground.judge(allow=["t(a*)"]).judge("t", {"q": "xabc"}, None, "q").kind == "ask"
    assert ground.judge(deny=["t(a*)"]).judge("t", {}, None, None).kind == "deny"


def test_a_call_without_what_it_is_judged_by_asks(ground: Any) -> None:
    judge = ground.judge(allow=["bash", "read"])
    for arguments in ({}, {"command": 5}, {"command": None}, {"Command": "ls"}):
        assert judge.judge("bash", arguments, "execute", "command").kind == "ask"


def layered(*said: tuple[str, dict[str, Any], bool]) -> Config:
    layers = tuple(Layer(label, {"permissions": table}, trusted) for label, table, trusted in said)
    return Config(layers=layers)


def test_lists_of_all_layers_count_each_with_its_source() -> None:
    found = read_permissions(
        layered(
            ("user", {"allow": ["read"], "deny": ["bash(rm *)"]}, True),
            ("project", {"allow": ["bash(make *)"], "ask": ["bash(git *)"]}, True),
            ("--allowed-tools", {"allow": ["edit"]}, True),
        )
    )
    assert [(rule.kind, rule.text, rule.source) for rule in found.rules.rules] == [
        ("allow", "read", "user"),
        ("deny", "bash(rm *)", "user"),
        ("allow", "bash(make *)", "project"),
        ("ask", "bash(git *)", "project"),
        ("allow", "edit", "--allowed-tools"),
    ]


def test_a_folder_that_is_not_trusted_can_only_tighten() -> None:
    table = {"allow": ["bash"], "deny": ["read(x)"], "ask": ["edit"], "mode": "accept-edits", "add_dirs": ["/"]}
    found = read_permissions(layered(("project", table, False)))
    assert [rule.text for rule in found.rules.rules] == ["edit", "read(x)"]
    assert (found.mode, found.add_dirs) == ("default", ())
    assert found.ignored == ("project: allow bash", "project: add_dirs /", "project: mode accept-edits")
    for mode in ("plan", "dont-ask"):
        assert read_permissions(layered(("project", {"mode": mode}, False))).mode == mode
    assert read_permissions(layered(("project", table, True))).mode == "accept-edits"
    # neither lets less pass than the other in everything, so what the person chose stays
    for mode, other in (("plan", "dont-ask"), ("dont-ask", "plan")):
        found = read_permissions(layered(("user", {"mode": mode}, True), ("project", {"mode": other}, False)))
        assert (found.mode, found.mode_source, found.ignored) == (mode, "user", (f"project: mode {other}",))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"mode": "accept-edit"}, "is no mode, did you mean accept-edits"),
        ({"mode": "bypass"}, "bypass is for one run"),
        ({"add_dirs": ["x"]}, "write the whole path"),
        ({"allow": ["bash()"]}, "user: permissions.allow: 'bash()': the pattern is empty"),
    ],
)
def test_wrong_settings_are_named_with_their_file(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match="user: permissions") as caught:
        read_permissions(layered(("user", table, True)))
    assert words in caught.value.message


def test_rules_that_were_granted_do_not_beat_what_denies(ground: Any) -> None:
    judge: Judge = ground.judge(deny=["bash(rm *)"])
    grants = [parse_rule(text, "allow", "this session") for text in ("bash", "bash(rm *)", "bash(make *)", "write(**)")]

    def verdict(tool: str, subject: str, value: str) -> str:
        effect = "execute" if tool == "bash" else "write"
        return judge.judge(tool, {subject: value}, effect, subject, grants).kind  # type: ignore[arg-type]  # a str

    assert verdict("bash", "command", "make all") == "allow"
    assert verdict("bash", "command", "rm x") == "deny"
    assert verdict("write", "path", "src/a") == "allow"
    assert verdict("write", "path", ".git/hooks/x") == "ask"
    assert judge.judge("bash", {"command": "make"}, "execute", "command").kind == "ask"
    exact = [parse_rule("write(.git/hooks/x)", "allow", "this session")]
    assert judge.judge("write", {"path": ".git/hooks/x"}, "write", "path", exact).kind == "allow"


def test_suggestions_allow_what_asked_and_are_rules(ground: Any) -> None:
    for command in (
        *("git commit -m x", "npm run build -- -x", "pytest -q", "rm -rf build", "python3 x.py a", "make", "git fetch"),
        *("cargo test", "docker compose up", "FOO=1 pytest", "pytest && npm test", "echo a > f.txt", "sort -o a b"),
        *("touch ../outside/x", "python3 -m http.server", "git -c a=b log"),
    ):
        verdict = ground.bash(command)
        assert verdict.kind == "ask", command
        assert verdict.suggestions, command
        assert ground.bash(command, allow=verdict.suggestions).kind == "allow", (command, verdict.suggestions)
    assert ground.bash("git commit -m x").suggestion == "bash(git commit *)"
    assert ground.bash("rm -rf build").suggestion == "bash(rm -rf build)"
    assert ground.bash("rm *").suggestions == ()
    assert ground.bash("$x").suggestions == ()


def test_a_rule_set_of_nothing_is_a_rule_set() -> None:
    assert RuleSet().plus(()) == RuleSet()
