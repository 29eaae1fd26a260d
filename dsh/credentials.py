"""Keys that a person keeps in a file, for services whose variables are not set in the environment.

``$DSH_HOME/credentials.toml`` holds them by the variables that they stand for::

    DEEPSEEK_API_KEY = "sk-..."

``dsh auth set`` writes it, readable for its owner alone.  Whoever brings a provider looks its key up in
``harness.credentials.environ`` instead of in `os.environ`: what the environment says comes first there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field, frozen

from .errors import ConfigError
from .layers import parse_layer, read_bytes
from .textfile import replace_file

__all__ = ["FILE", "Credentials", "environment", "read_credentials", "write_credentials"]

FILE = "credentials.toml"
HEAD = "# Keys of services, which `dsh auth set` and `dsh auth remove` write; comments do not last.\n"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@frozen
class Credentials:
    """What the file holds.

    Attributes:
        path: where it is, or would be.
        keys: by the variables that they stand for.
        open_to: who else may read the file, in words; empty if nobody.
    """

    path: Path
    keys: Mapping[str, str] = field(factory=dict, repr=False)
    open_to: str = ""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment, with these keys behind it."""
        return environment(os.environ, self.keys)


@define(repr=False)
class _Behind(Mapping[str, str]):
    first: Mapping[str, str]
    behind: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        said = self.first.get(name)
        if said is not None and (said.strip() or name not in self.behind):
            return said
        return self.behind[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.behind, **self.first})

    def __len__(self) -> int:
        return len({*self.first, *self.behind})


def environment(environ: Mapping[str, str], keys: Mapping[str, str]) -> Mapping[str, str]:
    """`environ`, with `keys` for the variables that are not set there, or empty."""
    return _Behind(environ, keys) if keys else environ


def read_credentials(home: Path) -> Credentials:
    """The keys that are kept in `home`; without the file, none.

    Raises:
        ConfigError: the file cannot be read, or holds something else than keys; no key is in the message.
    """
    path = home / FILE
    raw = read_bytes(path, str(path))
    if raw is None:
        return Credentials(path)
    said = parse_layer(raw, str(path), trusted=True).data
    for name, value in said.items():
        if not isinstance(value, str) or _NAME.match(name) is None:
            shown = name if _NAME.match(name) else "a key in it"
            raise ConfigError(f'{path}: {shown}: expected VARIABLE = "key"; `dsh auth set PROVIDER` writes it so')
    return Credentials(path, {name: value.strip() for name, value in said.items() if value.strip()}, _open_to(path))


def _open_to(path: Path) -> str:
    mode = path.stat().st_mode
    return " and ".join(who for bits, who in ((0o070, "its group"), (0o007, "everybody")) if stat.S_IMODE(mode) & bits)


def write_credentials(home: Path, keys: Mapping[str, str]) -> Path:
    """Keep `keys`, and nothing else; without any, the file goes.

    Raises:
        ConfigError: it cannot be written.
    """
    import tomli_w

    path = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if keys:
            replace_file(path, (HEAD + tomli_w.dumps(dict(sorted(keys.items())))).encode(), mode=0o600)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path
