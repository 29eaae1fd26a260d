"""What people configure of a service - its address, its key, headers - checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ...errors import ConfigError

__all__ = ["check_headers", "check_key", "check_name", "check_url", "secret_headers"]

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def check_name(name: str) -> None:
    """Raises: ConfigError: `name` cannot stand before the slash of a model's name."""
    if not name or "/" in name or name.split() != [name]:
        raise ConfigError(
            f"{name!r} cannot name a provider: models are called NAME/MODEL, so it has no slash and no space"
        )


def check_key(variable: str, value: str | None) -> tuple[str | None, str | None]:
    """The key in `value` and what is wrong with it; an empty one is none.  The value is in no message."""
    key = (value or "").strip()
    if not key:
        return None, f"there is no key; set {variable}"
    if key[0] == key[-1] and key[0] in "\"'`" and len(key) > 1:
        return None, f"{variable} holds a key in quotation marks, which are no part of it; set it anew, without them"
    if not key.isascii() or not key.isprintable() or " " in key:
        return (
            None,
            f"{variable} holds no key: there is a line break, a space or a letter outside of ASCII in it; set it anew",
        )
    return key, None


def check_url(what: str, url: str, *endings: str) -> str:
    """`url` without what a request adds to it.

    Args:
        endings: what may be cut off its end, one after the other.

    Raises:
        ConfigError: it is no address of an HTTP service; names `what` has to be corrected.
    """
    url = url.strip().rstrip("/")
    for ending in endings:
        url = url.removesuffix(ending)
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{what} is no address of a service; it looks like https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{what} has a name or password in it; put the key in a variable and name it with key_env")
    if parts.query or parts.fragment:
        raise ConfigError(f"{what} ends in a query or fragment, which a base URL cannot have; remove it")
    return url


def check_headers(table: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """`headers` of the configuration's `table`, if they can be sent.

    Raises:
        ConfigError: one cannot; its value is not in the message.
    """
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ConfigError(f"{table}.headers: {name!r} is no name of a header")
        if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
            raise ConfigError(f"{table}.headers: {name!r} is written by dsh itself; remove it")
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"{table}.headers.{name}: its value has a line break or a letter outside of ASCII")
    return dict(headers)


def secret_headers(table: str, headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Where it stands and value, of every header of `table` that sounds as if it were secret."""
    for name, value in headers.items():
        if _SECRET_HEADER.search(name):
            yield f"{table}.headers.{name}", value
            if (bare := value.rpartition(" ")[2]) != value:
                yield f"the key in {table}.headers.{name}", bare
