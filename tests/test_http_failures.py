"""Refusals of services: what they mean, whether to try again, and what the person reads."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh.llm.http.failures import (
    http_failure,
    read_complaint,
    retry_after,
    shorten,
    stream_failure,
    transport_failure,
)

ERRORS = Path(__file__).parents[1] / "../shared/streams/errors"
KINDS = {
    "auth": "AUTH",
    "context_overflow": "CONTEXT_OVERFLOW",
    "invalid_request": "INVALID_REQUEST",
    "not_found": "NOT_FOUND",
    "payment": "QUOTA",
    "rate_limit": "RATE_LIMIT",
    "server": "SERVER",
    "tool_generation_failed": "TOOL_USE_FAILED",
    "tool_history": "INVALID_REQUEST",
}
RETRYABLE = {"RATE_LIMIT", "SERVER", "OVERLOADED", "TOOL_USE_FAILED"}


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
        (402, "QUOTA", False),
        (403, "AUTH", False),
        (404, "NOT_FOUND", False),
        (408, "TIMEOUT", True),
        (409, "HTTP_409", True),
        (413, "CONTEXT_OVERFLOW", False),
        (418, "HTTP_418", False),
        (422, "INVALID_REQUEST", False),
        (429, "RATE_LIMIT", True),
        (500, "SERVER", True),
        (501, "SERVER", False),
        (498, "OVERLOADED", True),
        (499, "STREAM_CLOSED", True),
        (503, "OVERLOADED", True),
        (504, "SERVER", True),
        (529, "OVERLOADED", True),
    ],
)
def test_statuses(status: int, code: str, retryable: bool) -> None:
    error = http_failure("house", status, {}, b"")
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert f"HTTP status {status}" in str(error)


def test_service_may_say_whether_to_try_again() -> None:
    assert not http_failure("house", 500, {"x-should-retry": "false"}, b"").retryable
    assert http_failure("house", 400, {"x-should-retry": "true"}, b"").retryable


OVERFLOWS = """\
The decoder prompt (length 9000) is longer than the maximum model length of 4096.
Prompt exceeds max length
prompt token count of 130000 exceeds the limit of 128000
Input validation error: `inputs` must have less than 4095 `input` tokens. Given: 5000
Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.
Please reduce the length of the messages or completion.
Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.
Your input exceeds the context window of this model.
prompt is too long: 210000 tokens > 200000 maximum
input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000
The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).
Input is too long for requested model.
Prompt contains 40000 tokens, too large for model with 32768 maximum context length
This model's maximum prompt length is 131072 but the request contains 150000 tokens.
Your request exceeded model token limit: 8192
Range of input length should be [1, 30720]
the request exceeds the available context size, try increasing it
too many tokens: total number of tokens in the prompt cannot exceed 4081
Total tokens of image and text exceed max message tokens
The total number of tokens (prompt + max_tokens) exceeds the model's limit
max sequence length exceeded"""


@pytest.mark.parametrize("words", OVERFLOWS.splitlines())
def test_a_conversation_that_is_too_long_is_known_by_many_words(words: str) -> None:
    body = json.dumps({"error": {"message": words}}).encode()
    for error in (http_failure("house", 400, {}, body), stream_failure("house", json.loads(body))):
        assert (error.code, error.retryable) == ("CONTEXT_OVERFLOW", False)


NO_OVERFLOWS = """\
max_tokens must be at most 8192
Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40.
max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens
max_tokens is too large: 100000. This model supports at most 16384 completion tokens
tool name exceeds maximum length of 64
Invalid 'tools': array too long. Expected an array with maximum length 128"""


@pytest.mark.parametrize("words", NO_OVERFLOWS.splitlines())
def test_other_things_may_be_too_long_as_well(words: str) -> None:
    assert http_failure("house", 400, {}, json.dumps({"error": {"message": words}}).encode()).code == "INVALID_REQUEST"


def test_a_request_that_is_larger_than_what_a_minute_allows_is_not_waited_for() -> None:
    large = {"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."}
    later = {"message": "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000."}
    found = [http_failure("house", 429, {}, json.dumps({"error": error}).encode()) for error in (large, later)]
    assert [(error.code, error.retryable) for error in found] == [("CONTEXT_OVERFLOW", False), ("RATE_LIMIT", True)]


def test_quota_that_is_used_up_is_not_waited_for() -> None:
    body = b'{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}'
    error = http_failure("house", 429, {}, body)
    assert (error.code, error.retryable) == ("QUOTA", False)


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (529, {"type": "overloaded_error", "message": "Overloaded"}, "OVERLOADED", True),
        (500, {"type": "api_error", "message": "Overloaded"}, "OVERLOADED", True),
        (429, {"type": "engine_overloaded_error", "message": "The engine is currently overloaded"}, "OVERLOADED", True),
        (502, {"message": "The model is at capacity, try again later"}, "OVERLOADED", True),
        (500, {"message": "Service unavailable."}, "SERVER", True),
        (429, {"type": "tokens", "message": "Rate limit reached"}, "RATE_LIMIT", True),
        (429, {"type": "exceeded_current_quota_error", "message": "your account is suspended"}, "QUOTA", False),
        (400, {"message": "Your credit balance is too low to access the API."}, "QUOTA", False),
        (402, {"message": "Insufficient Balance"}, "QUOTA", False),
        (400, {"code": "invalid-argument", "message": "Incorrect API key provided: xa***9."}, "AUTH", False),
        (400, {"message": "API key not valid. Please pass a valid API key."}, "AUTH", False),
        (400, {"code": "content_filter", "message": "The response was filtered"}, "REFUSED", False),
        (400, {"code": "data_inspection_failed", "message": "inappropriate content"}, "REFUSED", False),
        (403, {"message": "Your chosen model requires moderation and your input was flagged"}, "REFUSED", False),
        (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}, "CONTEXT_OVERFLOW", False),
        (400, {"message": "This model's maximum prompt length is 131072"}, "CONTEXT_OVERFLOW", False),
        (500, {"message": "the request exceeds the available context size"}, "CONTEXT_OVERFLOW", False),
        (500, {"message": "This model does not support images"}, "INVALID_REQUEST", False),
        (500, {"message": "Failed to parse input at pos 12: <tool_call>"}, "TOOL_USE_FAILED", True),
    ],
)  # fmt: skip
def test_the_body_tells_more_than_the_status(status: int, error: dict[str, str], code: str, retryable: bool) -> None:
    found = http_failure("house", status, {}, json.dumps({"error": error}).encode())
    assert (found.code, found.retryable) == (code, retryable)
    assert error["message"] in str(found)


@pytest.mark.parametrize(
    ("value", "code", "status"),
    [
        ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, "OVERLOADED", 529),
        ({"error": {"type": "rate_limit_error", "message": "slow down"}}, "RATE_LIMIT", 429),
        ({"error": {"code": "insufficient_quota", "message": "no more"}}, "QUOTA", 402),
        ({"error": {"code": "context_length_exceeded", "message": "too long"}}, "CONTEXT_OVERFLOW", 400),
        ({"error": {"code": 503, "message": "No instances"}}, "OVERLOADED", 503),
        ({"error": {"code": "429", "message": "no"}}, "RATE_LIMIT", 429),
        ({"error": "Rate limit reached, wait a bit"}, "RATE_LIMIT", 429),
        ({"error": {"message": "Incorrect API key provided"}}, "AUTH", 401),
        ({"error": {"message": "Your credit balance is too low"}}, "QUOTA", 402),
        ({"type": "error", "error": {"type": "billing_error", "message": "no"}}, "QUOTA", 402),
        ({"error": {"message": "Sorry, your account balance is insufficient"}}, "QUOTA", 402),
        ({"error": 'model "x" not found, try pulling it first'}, "NOT_FOUND", 404),
        ("it broke", "SERVER", None),
        ({"error": {"message": "who knows"}}, "SERVER", None),
        ({"error": {"message": "half a letter: \ud800"}}, "SERVER", None),
    ],
)
def test_an_error_inside_an_answer(value: Any, code: str, status: int | None) -> None:
    found = stream_failure("house", value)
    assert (found.code, found.status) == (code, status)
    assert str(found).encode()


def everything_httpx_raises() -> list[Any]:
    """An instance of each of its errors."""
    found: list[Exception] = []
    for name in sorted(httpx.__all__):
        kind = getattr(httpx, name)
        if not (isinstance(kind, type) and issubclass(kind, httpx.RequestError | httpx.StreamError | httpx.InvalidURL)):
            continue
        made: Any = kind
        bare = kind in (httpx.StreamConsumed, httpx.StreamClosed, httpx.ResponseNotRead, httpx.RequestNotRead)
        found.append(made() if bare else made(f"what {name} says"))
    assert len(found) >= 24
    return [pytest.param(error, id=type(error).__name__) for error in found]


CODES = {"UNAVAILABLE", "TIMEOUT", "STREAM_CLOSED", "MALFORMED_RESPONSE"}


@pytest.mark.parametrize("answering", [False, True])
@pytest.mark.parametrize("error", everything_httpx_raises())
def test_everything_that_httpx_raises_is_mapped(error: Exception, answering: bool) -> None:
    found = transport_failure("house (models.example:80)", error, {"connect": 1.0, "read": 2.0}, answering=answering)
    assert found.code in CODES
    timeout = isinstance(error, httpx.TimeoutException)
    assert (found.code == "TIMEOUT") == timeout
    assert timeout or str(error) in str(found)
    assert found.retryable != (found.code == "MALFORMED_RESPONSE" or isinstance(error, FOR_EVER))


FOR_EVER = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, httpx.ProxyError)
"""What asking again does not change."""


def test_the_whole_chain_of_causes_is_told_each_thing_once() -> None:
    first = OSError(113, "No route to host")
    second = OSError(111, "Connection refused")
    outer = httpx.ConnectError("all attempts failed")
    outer.__cause__ = ExceptionGroup("two addresses", [second, first])
    again = httpx.ConnectError("All attempts failed")
    again.__cause__ = outer

    text = str(transport_failure("house", again))

    assert text == "house cannot be reached: All attempts failed: Connection refused: No route to host"


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
        (b'{"detail":[{"msg":"m"}]}', "m"),
        (b'{"detail":[{"loc":["body","n",0],"msg":"m"},{"msg":"k"}]}', "body.n.0: m; k"),
        (b'{"object":"error","message":{"detail":[{"loc":["body"],"msg":"m"}]},"type":"t"}', "body: m"),
        (b'{"Message":"m"}', "m"),
        (b'{"error_code":17,"error_msg":"m"}', "m"),
        (b'{"errors":[{"message":"m","code":1},{"message":"n"}],"success":false}', "m; n"),
        (b'{"base_resp":{"status_code":1004,"status_msg":"m"}}', "m"),
        (b'{"type":"about:blank","title":"t","status":400}', "t"),
        (b'{"title":"t","detail":"m"}', "m"),
        (b'{"fault":{"faultstring":"m","detail":{"errorcode":"e"}}}', "m"),
        (b'{"error":"invalid","error_description":"m"}', "m"),
        (b'{"error":{"error":{"message":"m"}}}', "m"),
        (b'{"error":{"message":{"error":"m"}}}', "m"),
        (b'{"error":["m","n"]}', "m; n"),
        (b'{"error":{"message":"p","metadata":{"raw":{"error":{"message":"r"}}}}}', "p: r"),
        (b'{"error":{"message":""},"message":"m"}', "m"),
        (b'{"error":{}}', ""),
        (b'{"error":[[[[[[[["m"]]]]]]]]}', ""),
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
        ({"retry-after": "9, 30"}, 30.0),
        ({"retry-after": "9, soon"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after-ms": "-1", "retry-after": "2"}, 2.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 +9900"}, None),
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "detail", "status", "metadata"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(status=st.integers(201, 599), body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_some_error(status: int, body: bytes) -> None:
    error = http_failure("house", status, {}, body)
    assert error.code
    assert error.status == status
    assert "\n" not in str(error)
    assert str(error).startswith("house")


@settings(max_examples=100)
@given(value=JSON)
def test_any_value_inside_an_answer_is_some_error(value: Any) -> None:
    error = stream_failure("house", value)
    assert error.code
    assert len(str(error)) > len("house: ")
