"""What people configure of a service, checked before it is used."""

from __future__ import annotations

import pytest

from dsh import ConfigError
from dsh.llm.http.keys import check_headers, check_key, check_name, check_url, secret_headers


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "tab\there", "nul\0l"])
def test_key_that_is_none_is_refused_without_being_shown(key: str) -> None:
    value, problem = check_key("HOUSE_KEY", key)
    assert value is None
    assert problem is not None
    assert "HOUSE_KEY" in problem
    assert key not in problem


@pytest.mark.parametrize("quote", ['"', "'", "`"])
def test_quotation_marks_around_a_key_are_named(quote: str) -> None:
    value, problem = check_key("HOUSE_KEY", f"{quote}sk-123{quote}\r\n")
    assert value is None
    assert problem is not None
    assert "quotation marks" in problem
    assert "sk-123" not in problem


def test_white_space_around_a_key_is_no_part_of_it() -> None:
    assert check_key("HOUSE_KEY", " sk-1'2\"3 \r\n") == ("sk-1'2\"3", None)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://host/v1/", "https://host/v1"),
        (" http://host:80 ", "http://host:80"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
    ],
)
def test_base_urls(url: str, wanted: str) -> None:
    assert check_url("X", url, "/chat/completions") == wanted


@pytest.mark.parametrize(
    "url",
    [
        *("", "host/v1", "ftp://host", "http://", "http://host:port", "http://host:99999", "https://a b/v1"),
        *("https://me:secret@host/v1", "https://host/v1?key=secret", "https://host/\nv1"),
    ],
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(ConfigError, match="HERE") as caught:
        check_url("HERE", url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "a b", " a"])
def test_what_is_no_name_of_a_provider(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a provider"):
        check_name(name)


@pytest.mark.parametrize("headers", [{"X Y": "a"}, {"Host": "a"}, {"X": "sec\nret"}, {"X": "sécret"}])
def test_headers_that_cannot_be_sent(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"house\.headers") as caught:
        check_headers("house", headers)
    assert "ret" not in str(caught.value).replace("header", "")


def test_headers_that_sound_secret() -> None:
    headers = {"X-Team": "blue", "Authorization": "Bearer abc", "X-Token": "def"}
    assert dict(secret_headers("house", headers)) == {
        "house.headers.Authorization": "Bearer abc",
        "the key in house.headers.Authorization": "abc",
        "house.headers.X-Token": "def",
    }
