"""``dsh init``: a file of settings, explained, with nothing set."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..config import config_files, dsh_home
from ..errors import ConfigError
from . import EXIT_OK
from .start import directory

__all__ = ["PROJECT", "USER", "run", "write_new"]

_HEAD = """\
# {what}
#
# Nothing is set yet.  A line that begins with # and a word is a setting with an example or its default: take
# the # away.  `dsh config` prints what holds, `dsh doctor` checks it, and every setting there is stands in
# docs/settings.md.

"""

USER = (
    _HEAD.format(what="Your settings for dsh, in every folder.  A project's .dsh/config.toml goes before them.")
    + """\
# Which model is asked where no -m says another: a provider and one of its models, or a provider alone.
# `dsh models` lists them.  Keys of services do not belong in here: `dsh auth set PROVIDER` keeps one.
#model = "deepseek/deepseek-v4-flash"

# How much it thinks: none, minimal, low, medium, high, xhigh or max; without it, as the model does by itself.
#effort = "medium"

# What always stands at the end of the system prompt.
#append_system_prompt = "Answer in French."

# -- What may happen unasked ------------------------------------------------------------------------------------

[permissions]
# default asks before something is changed; accept-edits lets files of the project be changed; plan changes
# nothing; dont-ask denies what it would ask about.
#mode = "default"
# Rules: a tool, and what it is called with.  A denial goes before a question, and a question before the rest.
#allow = ["bash(git status *)", "bash(pytest *)"]
#ask = ["bash(git push *)"]
#deny = ["read(**/.env)"]
# Further folders to work in.
#add_dirs = ["~/notes"]

[sandbox]
# Whether commands reach the network: off or on.
#network = "off"
# Further paths that commands may write, and such as they may not even read.
#writable = ["~/.cache/pip"]
#hide = ["~/private"]

# -- Limits of a run; without them there are none --------------------------------------------------------------

[budget]
#max_requests = 100
#max_usd = 5.0
#timeout = "1h"

# -- The conversation in the terminal --------------------------------------------------------------------------

[terminal]
# vi's keys in place of emacs'.
#vi = false
# Lines only, for screen readers.
#plain = false
# Show what the model thinks.
#reasoning = false
# Ring when a turn took longer than so many seconds; 0 is never.
#bell = 0
# dark, light, none, or a style of Pygments.
#theme = "dark"

# -- Long conversations ----------------------------------------------------------------------------------------

[compaction]
# Put a summary in the place of the beginning when the conversation fills so much of the model's window.
#threshold = 0.8
# Who writes it; empty is the conversation's own model.
#model = ""

# -- When a provider has trouble -------------------------------------------------------------------------------

[retry]
#tries = 5

[fallback]
# Asked one after the other.
#models = ["local"]

# -- Plugins ---------------------------------------------------------------------------------------------------

[plugins]
# Not loaded; `dsh plugin disable NAME` writes this.
#disabled = []
# Nothing starts without them.
#required = []
# Further ones: files, relative to this folder, or modules.
#load = []

[subagents]
# How many children may work at once.
#concurrency = 8

[sessions]
# jsonl is a file for each, sqlite one database.
#store = "jsonl"

# -- A server of your own; then: dsh -m house/small ------------------------------------------------------------

#[providers.house]
#base_url = "https://models.house.example/v1"
#key_env = "HOUSE_API_KEY"
#models = ["small"]

# -- Settings that --profile careful lays over all of these ----------------------------------------------------

#[profiles.careful]
#effort = "high"
#permissions.mode = "plan"
"""
)

PROJECT = (
    _HEAD.format(what="This project's settings for dsh, to be committed.  They go before everybody's own.")
    + """\
# What loosens something, runs code, or leads elsewhere counts only once a person trusts the folder; see
# `dsh trust`.  Yours alone, and not to be committed, is config.local.toml beside this file.

# What always stands at the end of the system prompt.  What a model should know of the project is better kept
# in AGENTS.md, which other programs read, too.
#append_system_prompt = "Answer in the language of the question."

[permissions]
# These count at once: they only tighten.
#ask = ["bash(git push *)"]
#deny = ["edit(migrations/**)"]
# This counts with trust.
#allow = ["bash(pytest *)", "bash(git status *)"]

#[sandbox]
# With trust: what commands may write outside of the project, and whether they reach the network.
#writable = ["~/.cache/pip"]
#network = "off"

[plugins]
# Nothing starts without them.
#required = []
# With trust: not loaded here.
#disabled = []

[instructions]
# Files that are read in each folder; with trust.
#names = ["AGENTS.md", "CLAUDE.md"]
"""
)


def run(args: argparse.Namespace) -> int:
    """Write the file, and say where it is.

    Raises:
        ConfigError: there is one already, or it cannot be written.
    """
    if args.project:
        path, text = _project(directory(args.cd)), PROJECT
    else:
        path, text = dsh_home(os.environ) / "config.toml", USER
    write_new(path, text)
    print(path)
    return EXIT_OK


def _project(cwd: Path) -> Path:
    files = config_files(cwd=cwd, home=dsh_home(os.environ), environ=os.environ)
    if files.root is not None and files.project is None:
        raise ConfigError(f"{files.root}/.dsh holds your own settings, not a project's", code="USAGE")
    path = files.project if files.project is not None else cwd / ".dsh" / "config.toml"
    if path.parent.resolve() == dsh_home(os.environ).resolve():
        raise ConfigError(f"{path.parent} holds your own settings, not a project's", code="USAGE")
    return path


def write_new(path: Path, text: str) -> None:
    """Write a file of settings that is not there yet.

    Raises:
        ConfigError: it is there, or cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700 if path.parent == dsh_home(os.environ) else 0o755, parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and stays as it is", code="USAGE") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
