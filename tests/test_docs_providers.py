"""docs/providers.md: its tables are what the profiles say.

``DSH_WRITE_DOCS=1 pytest tests/test_docs_providers.py`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import fields_dict
from dsh_anthropic.settings import BASE_URL, KEY_ENV, MODELS
from dsh_chat.dialect import Dialect
from dsh_chat.profiles import PROFILES, Profile
from dsh_chat.providers import ProviderSettings

from dsh.cli.outcome import is_mistake, is_unavailable
from dsh.jsonvalue import dumps

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/providers.md"


def services() -> Iterator[str]:
    """The table of services."""
    yield "| service | `-m` | key | address | models |"
    yield "|---|---|---|---|---|"
    rows = [
        (profile.title, name, profile.key_envs, profile.needs_key, profile.base_url, profile.models)
        for name, profile in PROFILES.items()
    ]
    rows.insert(2, ("Anthropic", "anthropic", (KEY_ENV,), True, BASE_URL, MODELS))
    for title, name, variables, needed, url, models in rows:
        keys = " or ".join(f"`{variable}`" for variable in variables)
        shown = ", ".join(f"`{model}`" for model in models) or "what you run"
        yield f"| {title} | `{name}` | {keys if needed else f'none; {keys} if set'} | `{url}` | {shown} |"


def quirks() -> Iterator[str]:
    """What differs, service by service."""
    for profile in PROFILES.values():
        if profile.sources:
            yield from (f"### {profile.title}", "", "| key | value | source |", "|---|---|---|")
            yield from _differences(profile)
            yield ""
    yield from (
        "### Anthropic",
        "",
        "A protocol of its own; see the [plugin anthropic](../plugins/anthropic/README.md).",
    )


def _differences(profile: Profile) -> Iterator[str]:
    for name in fields_dict(Dialect):
        value = getattr(profile.dialect, name)
        if value == getattr(Dialect(), name):
            continue
        source = re.sub(r"https://[^\s,;)]+", lambda found: f"<{found[0]}>", profile.sources[name])
        if name != "variants":
            yield f"| `{name}` | {_shown(value)} | {source} |"
            continue
        for pattern, switches in value.items():
            yield f"| only `{pattern}` | {_shown(switches) or 'nothing else'} | {source} |"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"`{name} = {dumps(inner).decode()}`" for name, inner in value.items())
    return f"`{dumps(list(value) if isinstance(value, tuple) else value).decode()}`"


def written(page: str) -> str:
    """The page with its tables written anew."""
    for name, lines in (("services", services()), ("quirks", quirks())):
        table = "\n".join(lines).strip()
        page, count = re.subn(
            rf"(<!-- {name} -->).*?(<!-- /{name} -->)",
            lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}",  # type: ignore[misc]  # mypy loses the default
            page,
            flags=re.DOTALL,
        )
        assert count == 1, name
    return page


def test_the_tables_are_those_of_the_data() -> None:
    page = PAGE.read_text(encoding="utf-8")
    wanted = written(page)
    if os.environ.get("DSH_WRITE_DOCS"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert page == wanted, "DSH_WRITE_DOCS=1 pytest tests/test_docs_providers.py writes them anew"


def test_every_setting_of_a_service_is_in_the_plugin_s_readme() -> None:
    readme = (ROOT / "plugins/chat/README.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE))
    assert set(fields_dict(ProviderSettings)) <= told


FAILURES = re.findall(r"^\| `([A-Z_]+)` \|.*\| (yes|no)[^|]* \| (\d+)[^|]* \|$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("code", "again", "exit_code"), FAILURES)
def test_exit_codes_are_those_of_the_command(code: str, again: str, exit_code: str) -> None:
    assert is_unavailable(code) == (exit_code == "75")
    assert is_mistake(code) == (exit_code == "2")


def test_every_code_of_a_failure_is_explained() -> None:
    from dsh.llm.http import failures

    source = Path(failures.__file__).read_text(encoding="utf-8")
    codes = set(re.findall(r'"([A-Z]{4,}(?:_[A-Z]+)*)"', source)) - {"SSL_CERT_FILE", "SSL_CERT_DIR"}
    assert len(codes) > 10
    assert codes <= {code for code, _, _ in FAILURES}
