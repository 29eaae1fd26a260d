"""The rule that "always" would write for a command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .unwrap import SHELLS, program
from .words import Word

__all__ = ["has_subcommands", "suggestion"]

_SUBCOMMANDS = frozenset(
    [
        *(
            "git",
            "npm",
            "pnpm",
            "yarn",
            "cargo",
            "docker",
            "kubectl",
            "pip",
            "pip3",
            "uv",
            "gh",
            "go",
            "make",
            "poetry",
        ),
        *("bun", "deno", "gem", "bundle", "rake", "apt", "apt-get", "brew", "systemctl", "terraform", "helm", "dotnet"),
        *(
            "mvn",
            "gradle",
            "just",
            "hatch",
            "tox",
            "nox",
            "conda",
            "rustup",
            "aws",
            "gcloud",
            "az",
            "podman",
            "composer",
        ),
    ]
)
_RUNS = frozenset(["run", "exec", "x", "test", "script"])
_EXACT = frozenset(
    [
        *("rm", "rmdir", "dd", "chmod", "chown", "kill", "killall", "pkill", "mv", "cp", "ln", "tee", "truncate"),
        *("sudo", "doas", "su", "ssh", "scp", "rsync", "curl", "wget", "nc", "eval", "source", ".", "export", "awk"),
        *("perl", "ruby", "node", "php", "python", "python3", "lua", "osascript", "docker", "kubectl", "tar", "sed"),
        *("npx", "bunx", "uvx", "pipx", "gdb", "crontab", "at", "mount", "umount", "find", "xargs"),
    ]
)


_VERSION = re.compile(r"[-.]?\d[\d.]*$")
_RUN_ANYTHING = frozenset(
    [
        *("deno", "bun", "uv", "gem", "aws", "gcloud", "az", "gh", "terraform", "helm", "systemctl", "podman", "conda"),
        *("apt", "apt-get", "brew", "tox", "nox", "hatch", "poetry", "rustup", "bundle", "composer", "just"),
    ]
)
"""Of these, a subcommand says too little of what is done."""
_WIDE_OF_GIT = frozenset(
    [
        *("config", "submodule", "bisect", "rebase", "filter-branch", "difftool", "mergetool", "clone", "remote"),
        *("send-email", "hook", "credential", "daemon", "maintenance", "instaweb", "archive", "svn", "p4"),
    ]
)
"""Commands of git that run others, or change what it runs."""
_PLAIN_TOOLS = frozenset(
    [
        *("pytest", "ruff", "mypy", "black", "isort", "flake8", "pylint", "pyright", "eslint", "prettier", "tsc"),
        *("jest", "vitest", "mocha", "rubocop", "rspec", "golangci-lint", "gofmt", "rustfmt", "clippy-driver"),
        *("mkdir", "touch", "gcc", "g++", "clang", "cmake", "ninja", "javac", "rustc", "shellcheck", "hadolint"),
        *("ctest", "phpunit", "biome", "stylelint", "tree", "less", "man", "wc", "nl", "sqlfluff", "yamllint"),
    ]
)
"""Programs of which one call is as good as another."""


def has_subcommands(name: str) -> bool:
    """Whether the program's first argument says what it does."""
    return name in _SUBCOMMANDS


def suggestion(tool: str, words: Sequence[Word], danger: str = "") -> str | None:
    """The narrowest rule that is of use again; None where a rule would say more than what was asked."""
    if not all(word.static for word in words) or not words:
        return None
    texts = [word.text for word in words]
    if danger or _is_exact(program(words[0]), texts):
        return _exact(tool, texts)
    if re.search(r"[\s*?()'\"\\;&|<>`$]", texts[0]) or not texts[0]:
        return None
    if program(words[0]) in _SUBCOMMANDS:
        kept = texts[: 3 if len(texts) > 2 and texts[1] in _RUNS else 2]
        if len(kept) < 2 or any(text.startswith("-") or not re.fullmatch(r"[\w@:./=+-]+", text) for text in kept[1:]):
            return _exact(tool, texts)
        return f"{tool}({' '.join(kept)} *)"
    return f"{tool}({texts[0]} *)"


def _is_exact(name: str, texts: Sequence[str]) -> bool:
    """Whether another call of the program may be something else altogether."""
    if name in _EXACT or name in SHELLS or name in _RUN_ANYTHING or _VERSION.sub("", name) in _EXACT:
        return True
    if name == "git":
        return len(texts) > 1 and texts[1] in _WIDE_OF_GIT
    if name in _SUBCOMMANDS:
        inner = texts[2].rpartition("/")[2] if len(texts) > 2 and texts[1] in _RUNS else ""
        return _VERSION.sub("", inner) in _EXACT or inner in SHELLS
    return name not in _PLAIN_TOOLS and "/" not in texts[0]


def _exact(tool: str, texts: Sequence[str]) -> str | None:
    """The rule for this very command, if its words can be written as a rule."""
    whole = " ".join(texts)
    if any(not text or re.search(r"\s", text) for text in texts) or re.search(r"[][*?()\x00-\x1f'\"\\;&|<>`$]", whole):
        return None
    return f"{tool}({whole})"
