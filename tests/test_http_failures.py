"""Refusals of services: what they mean, whether to try again, and what the person reads."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from dsh.llm.http.failures import http_failure, read_complaint, retry_after, shorten

ERRORS = Path(__file__).parents[1] / "../shared/streams/errors"
KINDS = {
    "auth": "AUTH",
    "context_overflow": "CONTEXT_OVERFLOW",
    "invalid_request": "INVALID_REQUEST",
    "not_found": "NOT_FOUND",
    "payment": "HTTP_402",
    "rate_limit": "RATE_LIMIT",
    "server": "SERVER",
    "tool_generation_failed": "TOOL_USE_FAILED",
    "tool_history": "INVALID_REQUEST",
}
RETRYABLE = {"RATE_LIMIT", "SERVER", "TOOL_USE_FAILED"}


def recorded() -> list[Any]:
    files = sorted(ERRORS.glob("*.json")) if ERRORS.exists() else []
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip("the recorded errors are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("file", recorded())
def test_recorded_error_is_classified_and_explained(file: Path) -> None:
    answer = json.loads(file.read_bytes())
    headers = {name.lower(): value for name, value in answer["headers"].items()}

    error = http_failure("house", answer["status"], headers, answer["body"].encode())

    wanted = KINDS[answer["kind"]]
    if answer["kind"] == "invalid_request" and answer["status"] >= 500:
        wanted = "SERVER"  # nothing but the wording tells that asking again is no use
    assert (error.code, error.status, error.retryable) == (wanted, answer["status"], wanted in RETRYABLE)
    assert str(answer["status"]) in str(error)
    assert len(str(error)) < 1200
    assert "<" not in str(error).replace("<400>", "")
    assert "\n" not in str(error)


def test_wait_that_only_the_body_asks_for() -> None:
    body = {"error": {"code": 429, "message": "quota", "details": [{"@type": "x"}, {"retryDelay": "48s"}]}}
    assert http_failure("house", 429, {}, json.dumps([body]).encode()).retry_after == 48.0


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "INVALID_REQUEST", False),
        (401, "AUTH", False),
        (402, "HTTP_402", False),
        (403, "AUTH", False),
        (404, "NOT_FOUND", False),
        (408, "TIMEOUT", True),
        (409, "HTTP_409", True),
        (413, "HTTP_413", False),
        (418, "HTTP_418", False),
        (422, "INVALID_REQUEST", False),
        (429, "RATE_LIMIT", True),
        (500, "SERVER", True),
        (501, "SERVER", False),
        (503, "SERVER", True),
        (529, "SERVER", True),
    ],
)
def test_statuses(status: int, code: str, retryable: bool) -> None:
    error = http_failure("house", status, {}, b"")
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert f"HTTP status {status}" in str(error)


def test_service_may_say_whether_to_try_again() -> None:
    assert not http_failure("house", 500, {"x-should-retry": "false"}, b"").retryable
    assert http_failure("house", 400, {"x-should-retry": "true"}, b"").retryable


def test_quota_that_is_used_up_is_not_waited_for() -> None:
    body = b'{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}'
    error = http_failure("house", 429, {}, body)
    assert (error.code, error.retryable) == ("QUOTA", False)


def test_hint_says_what_to_do() -> None:
    assert "check HOUSE_KEY" in str(http_failure("house", 401, {}, b"no", key_hint="check HOUSE_KEY"))
    assert "base URL" in str(http_failure("house", 404, {}, b"{}", key_hint="check HOUSE_KEY"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"m"}}', "m"),
        (b'{"error":"m"}', "m"),
        (b'{"message":"m"}', "m"),
        (b'{"detail":"m"}', "m"),
        (b'{"detail":[{"msg":"m"}]}', "[{'msg': 'm'}]"),
        (b'[{"error":{"message":"m"}}]', "m"),
        (b'"m"', "m"),
        (b'{"error":{"message":"p","metadata":{"raw":"r"}}}', "p: r"),
        (b"plain  text\n", "plain text"),
        (
            b"<html><title>502</title><style>x{}</style><p>Bad &amp; gone<script>1</script></html>",
            "502 Bad & gone",
        ),
        (b"{}", ""),
        (b"null", ""),
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_message_of_a_body(body: bytes, message: str) -> None:
    assert read_complaint(body).message == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_a_date() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert wait is not None
    assert 90 < wait < 101


def test_shorten_keeps_both_ends() -> None:
    assert shorten("a" + "b" * 1000 + "c", 100).startswith("ab")
    assert shorten("a" + "b" * 1000 + "c", 100).endswith("bc")
    assert len(shorten("x" * 1000, 100)) < 100
