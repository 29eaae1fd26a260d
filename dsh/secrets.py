"""Secrets: values that must not enter the log, and the mask that keeps them out.

A plugin registers what it knows::

    @hookimpl
    def secrets_register(secrets):
        secrets.add(os.environ.get("MY_SERVICE_KEY", ""), "MY_SERVICE_KEY")

and whatever is learnt later goes to ``harness.secrets.add``.  From then on the value, and what it looks
like in base64, hexadecimal, JSON and addresses, is replaced wherever text enters the log, and no child
process gets it in its environment.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from attrs import evolve, frozen

from .hooks import Collector, refuse_other
from .hooks.markers import hookimpl
from .patterns import late
from .process import Process, scrubbed_environment

__all__ = ["CleanEnvironment", "Secrets", "SecretsConfig"]

SHORTEST = 6
"""Shorter values are not masked: they would blot out ordinary words."""
ENCODED = 8
"""Of shorter values the encoded forms are left alone, and so are variables that have more in them."""
NEEDED = frozenset({"PATH", "HOME", "PWD", "SHELL", "USER", "LOGNAME", "LANG", "TERM", "TMPDIR"})
"""Variables that no program goes well without; a secret that looks like one of them does not take it away."""

SHAPES = (
    ("Anthropic key", r"sk-ant-[\w-]{24,}"),
    ("OpenAI key", r"sk-(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{32,}"),
    ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,}"),
    ("GitLab token", r"glpat-[\w-]{20,}"),
    ("AWS key", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    ("Slack token", r"xox[abeprs]-[A-Za-z0-9-]{20,}"),
    ("Google key", r"AIza[\w-]{35}"),
    ("Stripe key", r"[sr]k_live_[A-Za-z0-9]{24,}"),
    ("npm token", r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", r"pypi-AgEI[\w-]{50,}"),
    ("Hugging Face token", r"hf_[A-Za-z0-9]{34,}"),
    ("SendGrid key", r"SG\.[\w-]{22}\.[\w-]{43}"),
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----"),
)
"""What keys of well-known services look like."""

_SHAPED = late("|".join(f"(?<![A-Za-z0-9])(?:{pattern})" for _, pattern in SHAPES))
# Looked for first, since it is thirty times as fast.
_LIKELY = late(r"sk-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|xox[abeprs]-|AIza|[sr]k_live_|npm_|pypi-|hf_|SG\.|-----B")
_BEGINNINGS = (
    "sk-",
    "gh",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "xox",
    "AIza",
    "k_live_",
    "npm_",
    "pypi-",
    "hf_",
    "SG.",
    "-----B",
)


@frozen
class SecretsConfig:
    """The table ``[secrets]``.

    Attributes:
        keep_env: names of variables, and patterns such as ``CI_*``, that child processes get although their names
            or values say that they hold a secret.
        shapes: mask in tools' output what looks like a key of a well-known service, although nobody registered it.
    """

    keep_env: tuple[str, ...] = ()
    shapes: bool = True


class _Mask(NamedTuple):
    """What hides so many secrets: all forms as one pattern, their names, and the forms by their first character."""

    number: int
    pattern: re.Pattern[str] | None
    names: Mapping[str, str]
    starts: Mapping[str, Sequence[str]]
    longest: int


class Secrets(Collector[tuple[str, str]]):
    """The collector of ``secrets_register``, and afterwards the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SecretsConfig()
        self._cache = _Mask(0, None, {}, {}, 0)

    def add(self, value: str, name: str) -> None:
        """Never log `value`; ``[secret NAME]`` is shown in its place."""
        for given in (value, name):
            refuse_other("secrets.add", given, str)
        self.collect((value, name))

    def values(self) -> frozenset[str]:
        """The values, for whoever must not pass them on."""
        return frozenset(value for value, _ in self)

    @property
    def any(self) -> bool:
        """Whether there is anything to mask."""
        return self._current().pattern is not None

    def mask(self, text: str) -> str:
        """`text` without secrets."""
        mask = self._current()
        if mask.pattern is None or len(text) < SHORTEST:
            return text
        return mask.pattern.sub(lambda match: f"[secret {mask.names[match[0]]}]", text)

    def mask_output(self, text: str) -> str:
        """What a tool said, without secrets, and without what looks like a key."""
        masked = self.mask(text)
        if not self.config.shapes or not any(beginning in masked for beginning in _BEGINNINGS):
            return masked
        parts, done = [], 0
        for likely in _LIKELY.finditer(masked):
            match = _SHAPED.match(masked, likely.start()) if likely.start() >= done else None
            if match is not None:
                parts += [masked[done : match.start()], f"[secret: {_kind(match[0])}]"]
                done = match.end()
        return "".join([*parts, masked[done:]]) if parts else masked

    def pending(self, text: str) -> int:
        """How many characters at the end of `text` may be the beginning of a secret that more text completes."""
        # Asked of every delta: only where a form's first character stands there is something to compare.
        mask, size = self._current(), len(text)
        starts = mask.starts
        if size >= mask.longest:
            text = text[size - mask.longest + 1 :]
        for at, first in enumerate(text):
            if first in starts:
                tail = text[at:]
                if any(form.startswith(tail) for form in starts[first]):
                    return len(tail)
        return 0

    def without(self, process: Process) -> Process:
        """`process` without the variables that hold a secret, but for those that it is meant to have."""
        keep = (*self.config.keep_env, *process.keep)
        env = scrubbed_environment(process.env, keep=keep)
        values = self.values()
        long = [value for value in values if len(value) >= ENCODED]
        for name, value in list(env.items()):
            if name in NEEDED or not value or _is_kept(name, keep):
                continue
            if value in values or any(secret in value for secret in long):
                del env[name]
        return process if env == process.env else evolve(process, env=env)

    def _current(self) -> _Mask:
        """The mask for the secrets that there are by now."""
        if self._cache.number != len(self):
            names = {form: name for value, name in self if len(value) >= SHORTEST for form in _forms(value)}
            names |= {value: name for value, name in self if len(value) >= SHORTEST}
            longest_first = sorted(names, key=len, reverse=True)
            pattern = re.compile("|".join(map(re.escape, longest_first))) if names else None
            starts: dict[str, list[str]] = {}
            for form in names:
                starts.setdefault(form[0], []).append(form)
            self._cache = _Mask(len(self), pattern, names, starts, max(map(len, names), default=0))
        return self._cache


class CleanEnvironment:
    """The core's own wrapper around ``process_prepare``: no child process is handed a secret by accident."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    @hookimpl(wrapper=True, tryfirst=True)
    def process_prepare(self) -> Generator[None, Process, Process]:
        process = yield
        return self._secrets.without(process)


def _is_kept(name: str, keep: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in keep)


def _kind(found: str) -> str:
    return next(kind for kind, pattern in SHAPES if re.fullmatch(pattern, found))


def _forms(value: str) -> Iterator[str]:
    """What `value` looks like where programs write it in another way."""
    if len(value) < ENCODED:
        return
    import base64
    import json
    from urllib.parse import quote, quote_plus

    raw = value.encode("utf-8", "surrogatepass")
    yield from {quote(raw, safe=""), quote(raw), quote_plus(raw), json.dumps(value)[1:-1]}
    yield from (raw.hex(), raw.hex().upper())
    for before in range(3):
        # Of text around it base64 shows only the signs that depend on nothing else.
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * before + raw).decode()[first:last]
