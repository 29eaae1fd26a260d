"""``dsh plugin``: one plugin - write it, look at it, install it, remove it, switch it off and on."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import ConfigError
from ...jsonvalue import dumps

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Do what the action says.

    Raises:
        ConfigError: a name is missing or wrong.
    """
    names: list[str] = args.names
    if args.action == "list":
        if names:
            raise ConfigError(f"dsh plugin list shows all of them; of one: dsh plugin info {names[0]}", code="USAGE")
        from .. import plugins

        return plugins.run(args)
    # of `install`, which loads no plugins, -e is what it is to pip
    editable = list(args.plugin) if args.action == "install" else []
    if not names and not editable:
        raise ConfigError(f"dsh plugin {args.action}: name a plugin", code="USAGE")
    if args.action == "install":
        from .manage import install

        return install(
            [*names, *(f"--editable={path}" for path in editable)], upgrade=args.upgrade, verbose=bool(args.verbose)
        )
    if args.action == "remove":
        from .manage import remove

        return remove(names, verbose=bool(args.verbose))
    if args.action in ("enable", "disable"):
        from .switch import disable, enable

        return (enable if args.action == "enable" else disable)(args, names)
    return _new(args, names) if args.action == "new" else _info(args, names)


def _new(args: argparse.Namespace, names: list[str]) -> int:
    from .new import write

    if len(names) > 2:
        raise ConfigError("dsh plugin new NAME [FOLDER]", code="USAGE")
    name = names[0]
    base = Path(args.cd or ".")
    folder = base / (names[1] if len(names) == 2 else f"dsh-{name}")
    for path in write(name, folder):
        print(path)
    if not args.quiet:
        print(f"\nnext: cd {folder} && pip install -e '.[test]' && pytest")
    return 0


def _info(args: argparse.Namespace, names: list[str]) -> int:
    from ..start import loaded, settle
    from .info import about, lines

    manager = loaded(settle(args))
    for name in names:
        record = about(manager, name)
        print(dumps(record).decode() if args.json else "\n".join(lines(record)))
    return 0
