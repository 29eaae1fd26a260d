"""``dsh doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from ..canaries import run_canaries
from ..checks import Check, Checks, ask_plugins, may_write
from ..config import GUARDS, config_files, dsh_home
from ..credentials import read_credentials
from ..errors import ConfigError, PluginError, error_message
from ..hooks.step import wraps
from ..jsonvalue import dumps
from ..tools.tool import Tools
from . import EXIT_FAILED, EXIT_OK, clean
from .start import Start, entry_names, loaded, opened, settle

if TYPE_CHECKING:
    from ..harness import Harness
    from ..hooks import PluginManager

__all__ = ["run"]

SIGNS = {"ok": "ok", "note": "note", "warning": "warn", "error": "FAIL"}
ROOM = 200 << 20
"""Bytes of disk below which it is said to be short."""
CHANGING = ("agent_request", "agent_step_result", "prompt_assemble", "tools_execute", "process_prepare", "llm_stream")
"""Hooks whose wrappers change a value that others may change, too."""


def run(args: argparse.Namespace) -> int:
    """Print a line a check; 1 if one failed."""
    checks = Checks()
    _python(checks.view("dsh"))
    start: Start | None = None
    skipped: list[str] = []
    try:
        start = settle(args, warn=skipped.append)
    except ConfigError as error:
        _mistakes(checks.view("dsh"), "config", error, "mend the setting or the flag that it names", order=20)
    home = dsh_home(os.environ)
    _terminal(checks.view("dsh"))
    _disk(checks.view("dsh"), home)
    _credentials(checks.view("dsh"), home)
    if start is not None:
        _settings(checks.view("dsh"), start)
        _trust(checks.view("dsh"), start)
        for text in skipped:
            if " is not trusted, so this was left out" not in text:  # which is said with advice already
                tell = checks.error if text.startswith("the plugin ") else checks.warning
                tell("plugins", text, "mend what it names, or take it away", order=51)
        trio.run(_opened, args, start, checks)
    found = list(checks)
    if args.json:
        for check in found:
            print(
                dumps({"area": check.area, "status": check.status, "text": check.text, "advice": check.advice}).decode()
            )
    else:
        print("\n".join(_lines(found)))
    return EXIT_FAILED if any(check.status == "error" for check in found) else EXIT_OK


def _lines(found: Sequence[Check]) -> Iterator[str]:
    width = max(len(check.area) for check in found)
    for check, following in zip(found, [*found[1:], None], strict=True):
        text = clean(" ".join(check.text.split()))
        yield f"{SIGNS[check.status]:<4}  {check.area:<{width}}  {text}"
        said_below = following is not None and (check.area, check.advice) == (following.area, following.advice)
        if check.advice and not said_below:
            yield f"{'':<4}  {'':<{width}}  -> {clean(' '.join(check.advice.split()))}"
    bad = sum(check.status == "error" for check in found)
    odd = sum(check.status == "warning" for check in found)
    yield f"\n{bad} failed, {odd} could be better" if bad or odd else "\nall is well"


def _mistakes(checks: Checks, area: str, error: Exception, advice: str, *, order: int) -> None:
    """What is wrong, a check for each."""
    said = {check.text for check in checks}
    for line in error_message(error).splitlines() if isinstance(error, ConfigError) else [error_message(error)]:
        if line not in said:
            checks.error(area, line, advice, order=order)


# -- the machine


def _python(checks: Checks) -> None:
    from .. import __version__

    text = f"{__version__}, Python {platform.python_version()} ({sys.executable}), {platform.platform()}"
    checks.ok("dsh", text, order=0)


def _terminal(checks: Checks) -> None:
    names = [
        name for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)) if _tty(stream)
    ]
    columns = shutil.get_terminal_size().columns
    kind = os.environ.get("TERM", "")
    if not names:
        text = "none: nobody can be asked, so what would ask is denied"
        checks.note(
            "terminal", text, "--allowed-tools, or [permissions] allow, says what may be done unasked", order=10
        )
        return
    checks.ok("terminal", f"{', '.join(names)}; {columns} columns, TERM={kind or '(not set)'}", order=10)
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    if encoding != "utf8":
        checks.warning(
            "terminal", f"its encoding is {encoding or 'unknown'}", "set LANG=C.UTF-8, or PYTHONUTF8=1", order=10
        )


def _tty(stream: object) -> bool:
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]  # a replaced stream may lack it
    except (AttributeError, ValueError):
        return False


def _disk(checks: Checks, home: Path) -> None:
    there = next((folder for folder in (home, *home.parents) if folder.is_dir()), None)
    if there is None or not may_write(home):
        checks.error(
            "disk", f"{home} cannot be written", "set DSH_HOME to a folder that can, or mend its rights", order=30
        )
        return
    free = shutil.disk_usage(there).free
    text = f"{home}: {_size(free)} free" + ("" if home.is_dir() else ", made when it is needed")
    if free < ROOM:
        checks.warning("disk", text, "make room: a session that cannot be written ends its run", order=30)
    else:
        checks.ok("disk", text, order=30)
    if home.is_dir() and home.stat().st_mode & 0o022:
        checks.warning("disk", f"others may write in {home}", f"chmod go-w {home}", order=30)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _settings_in(data: Mapping[str, Any]) -> int:
    """How many settings a file has; tables are none."""
    return sum(_settings_in(value) if isinstance(value, Mapping) else 1 for value in data.values())


def _settings(checks: Checks, start: Start) -> None:
    files = config_files(cwd=start.cwd, home=start.home, environ=os.environ)
    for path in (files.user, files.project, files.local, files.allowed):
        if path is not None and path.is_file():
            layers = [layer for layer in start.config.layers if str(path).endswith(layer.label)]
            count = sum(_settings_in(layer.data) for layer in layers)
            said = f", {count} setting{'' if count == 1 else 's'}" if count else ", nothing is set in it"
            checks.ok("config", f"{path}{said}", order=20)
    if not any(check.area == "config" for check in checks):
        text = f"no file; yours would be {files.user}"
        checks.note("config", text, "`dsh init` writes one with every common setting explained", order=20)
    above = {key[:length] for key in start.config.origins for length in range(len(key))}
    from_elsewhere = sorted(
        f"{'.'.join(str(part) for part in key)} by {label}"
        for key, label in start.config.origins.items()
        if ".toml" not in label and key not in above
    )
    if from_elsewhere:
        text = f"set by the environment or a flag: {', '.join(from_elsewhere)}"
        checks.note("config", text, "`dsh config` prints what holds", order=20)


def _trust(checks: Checks, start: Start) -> None:
    folder = start.config.folder
    if folder is None or not folder.wants:
        return
    wants = "; ".join(folder.wants)
    if folder.trusted:
        checks.ok("trust", f"{folder.root} is trusted: {wants}", order=22)
    elif folder.broken:
        checks.warning("trust", f"{folder.root} cannot be trusted: {folder.broken}", "mend that first", order=22)
    else:
        said = ", as you said" if folder.declined else ""
        advice = "`dsh trust show` shows it; `dsh trust add` lets it count"
        checks.note("trust", f"{folder.root} is not trusted{said}, so this is left out: {wants}", advice, order=22)


def _credentials(checks: Checks, home: Path) -> None:
    try:
        kept = read_credentials(home)
    except ConfigError as error:
        checks.error("keys", error_message(error), "mend the file, or delete it and use `dsh auth set`", order=79)
        return
    if kept.open_to:
        checks.warning("keys", f"{kept.open_to} may read {kept.path}", f"chmod 600 {kept.path}", order=79)
    elif kept.keys:
        checks.ok("keys", f"{', '.join(sorted(kept.keys))} in {kept.path}", order=79)
    twice = sorted(name for name in kept.keys if os.environ.get(name, "").strip())
    if twice:
        text = f"{', '.join(twice)} is set in the environment, too, which comes first"
        checks.note("keys", text, "`dsh auth remove` drops the one in the file", order=79)


# -- the program


async def _opened(args: argparse.Namespace, start: Start, checks: Checks) -> None:
    warnings: list[str] = []
    failed: set[str] = set()
    own = checks.view("dsh")
    told = False
    try:
        async with opened(evolve(start, warn=warnings.append)) as harness:
            failed = set(harness.plugins.failed)
            _plugins(own, harness.plugins, start)
            told = True
            await _examine(args, own, harness)
    except Exception as error:
        said = isinstance(error, ConfigError) and not isinstance(error, PluginError)
        advice = "mend what it names" + ("" if said else "; --no-plugin NAME runs without a plugin")
        _mistakes(own, "config" if said else "start", error, advice, order=20 if said else 40)
        if not told:
            with suppress(Exception):  # the same again, most likely
                _plugins(own, loaded(start), start)
            await _without(args, start, own, _culprits(error))
    for text in dict.fromkeys(warnings):
        skipped = any(text.startswith(f"the plugin {name} of ") for name in failed)
        if skipped or "may read the keys in" in text:
            continue  # which is said with advice already
        own.warning("start", text, "see what it says", order=45)


async def _examine(args: argparse.Namespace, checks: Checks, harness: Harness) -> None:
    await _guards(checks, harness)
    _tools(checks, harness)
    await _models(checks, harness, online=args.online)
    await ask_plugins(harness, checks)


async def _without(args: argparse.Namespace, start: Start, checks: Checks, culprits: set[str]) -> None:
    """What the others find, where plugins keep dsh from starting that it can do without."""
    plugins = start.config.plugins
    if not culprits or culprits & {*GUARDS, *plugins.required}:
        return
    config = evolve(start.config, plugins=evolve(plugins, disabled=(*plugins.disabled, *culprits)))
    extras = {name: plugin for name, plugin in start.plugins.items() if name not in culprits}
    found = Checks()
    try:
        async with opened(evolve(start, config=config, plugins=extras, warn=_unheard)) as harness:
            await _examine(args, found.view("dsh"), harness)
    except Exception:
        return  # something else keeps it from starting, too
    names = ", ".join(sorted(culprits))
    checks.note(
        "start",
        f"what can be seen only once it has started was looked at without {names}",
        f"as --no-plugin {sorted(culprits)[0]} runs",
        order=40,
    )
    checks.take(found)


def _unheard(message: str) -> None:
    """What is warned of has been said when it was tried with all plugins."""


def _culprits(error: BaseException | None) -> set[str]:
    """The plugins that an error is blamed on."""
    if error is None:
        return set()
    found = {
        match[1].partition(".")[0]
        for note in getattr(error, "__notes__", ())
        if (match := re.fullmatch(r"raised by \w+ of the plugin '(.+)'", note))
    }
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        found |= _culprits(inner)
    return found | _culprits(error.__cause__)


def _plugins(checks: Checks, manager: PluginManager, start: Start) -> None:
    infos = [info for info in manager.loaded() if "." not in info.name]
    foreign = [info for info in infos if info.distribution not in (None, "dsh-harness")]
    given = [info for info in infos if info.distribution is None and info.name != "dsh"]
    checks.ok(
        "plugins",
        f"{len(infos)} loaded" + _named(", of other people: ", [f"{i.name} {i.version}" for i in foreign]),
        order=50,
    )
    if given:
        text = f"given by hand: {', '.join(info.name for info in given)}"
        checks.note("plugins", text, "`dsh plugin info NAME` shows what one does", order=50)
    for name, failure in sorted(manager.failed.items()):
        owner = failure.distribution or name
        checks.error(
            "plugins",
            f"{name} cannot be loaded: {error_message(failure.error)}",
            f"upgrade or remove {owner}",
            order=51,
        )
    blocked = sorted(name for name in manager.blocked if name in entry_names())
    if blocked:
        text = f"switched off by a setting or a flag: {', '.join(blocked)}"
        checks.note("plugins", text, "`dsh plugin enable NAME` takes one out of your own settings", order=51)
    theirs = {info.name for info in (*foreign, *given)}
    for hook in CHANGING:
        if hook not in manager.specs:
            continue
        names = [impl.plugin_name for impl in manager.implementations(hook) if wraps(impl)]
        others = [name for name in names if name in theirs]
        if others and len(set(names)) > 1:
            text = f"{hook} may be changed by {', '.join(dict.fromkeys(names))}, the first of them last"
            checks.note("plugins", text, f"dsh hooks order {hook} shows who is called when", order=52)
    for hook, spec in sorted(manager.specs.items()):
        if spec.kind != "decide" or hook.startswith("session_"):
            continue
        plain = [impl.plugin_name for impl in manager.implementations(hook) if not wraps(impl)]
        at = next((number for number, name in enumerate(plain) if name in theirs), len(plain))
        if plain[at + 1 :]:
            text = f"{hook}: {plain[at]} is asked before {', '.join(plain[at + 1 :])}; the first answer counts"
            checks.note("plugins", text, f"dsh hooks order {hook} shows the order", order=52)


def _named(head: str, names: Sequence[str]) -> str:
    return f"{head}{', '.join(names)}" if names else ""


async def _guards(checks: Checks, harness: Harness) -> None:
    """The guards' canaries once more; at the start they have passed, or we were not here."""
    tried = await run_canaries(harness)
    text = f"{tried} calls that must be denied were denied" if tried else "no guard names a call that it must deny"
    checks.ok("guards", text, order=60)
    for name in ("permissions", "sandbox"):
        if harness.plugins.get_plugin(name) is None:
            checks.warning(
                "guards", f"the plugin {name} is not loaded", "run without --no-plugin, or install dsh anew", order=60
            )


def _tools(checks: Checks, harness: Harness) -> None:
    tools = Tools()
    try:
        handle = harness.create_unstored("doctor")
        handle.agent.hook.tools_register(agent=handle.agent, tools=tools)
        names = list(tools.by_name())
    except Exception as error:
        checks.error("tools", error_message(error), "leave one of them out with --no-plugin", order=70)
    else:
        unsaid = [tool.name for tool in tools if tool.effect is None]
        checks.ok("tools", ", ".join(names) or "none", order=70)
        if unsaid:
            text = f"{', '.join(unsaid)}: what they touch is not declared, so each call asks"
            checks.note("tools", text, f'[permissions] allow = ["{unsaid[0]}"] lets one pass', order=70)


async def _models(checks: Checks, harness: Harness, *, online: bool) -> None:
    adapters = harness.llm.adapters
    usable = [name for name, adapter in adapters.items() if getattr(adapter, "configured", False)]
    for name, adapter in adapters.items():
        if broken := getattr(adapter, "broken", None):
            checks.error("models", f"{name}: {broken}", "set the variable anew", order=80)
    if not usable:
        advice = "dsh auth set PROVIDER keeps a key; or DEEPSEEK_API_KEY=...; or pip install 'dsh-harness[local]'"
        checks.error("models", "no provider is configured", advice, order=80)
        return
    checks.ok("models", f"configured: {', '.join(usable)}", order=80)
    wanted = harness.config.model
    if wanted and wanted.partition("/")[0] not in adapters:
        checks.error(
            "models", f"the setting model = {wanted!r} names a provider that there is not", "mend the setting", order=80
        )
    if not online:
        checks.note("network", "not tried", "dsh doctor --online asks each provider for its models", order=81)
        return
    from .probe import check

    for name in usable:
        named = wanted if wanted and wanted.startswith(f"{name}/") else name
        verdict = (await check(harness, named)).masked(harness.secrets.mask)
        if verdict.status == "ok":
            checks.ok("network", verdict.message, order=81)
        else:
            checks.error("network", verdict.message, verdict.advice or "see what it says", order=81)
