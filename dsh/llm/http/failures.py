"""What goes wrong with a service - it refuses, it breaks, it is not there - turned into `LlmError`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ...errors import LlmError
from ...jsonvalue import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

__all__ = [
    "Complaint",
    "http_failure",
    "read_complaint",
    "retry_after",
    "shorten",
    "stream_failure",
    "transport_failure",
]

_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt (is )?too long|input token count|input tokens exceeded"
    r"|too[ _]many[ _](input[ _]|prompt[ _])?tokens|all messages is too long|exceeds? .{0,40}maximum number of tokens",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|invalid[_ ]model|supported api model names|model\b.{0,80}(does not exist|not found|not exist)",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient_quota|insufficient[ _]balance|depleted your|credit balance is too low", re.IGNORECASE
)
_BY_TYPE = (
    (re.compile(r"auth|api_key|permission", re.IGNORECASE), 401),
    (re.compile(r"rate_?limit|too_many_requests|resource_exhausted", re.IGNORECASE), 429),
    (re.compile(r"not_found", re.IGNORECASE), 404),
    (re.compile(r"invalid|bad_request", re.IGNORECASE), 400),
)
_CODES = {
    400: "INVALID_REQUEST",
    401: "AUTH",
    403: "AUTH",
    404: "NOT_FOUND",
    408: "TIMEOUT",
    422: "INVALID_REQUEST",
    429: "RATE_LIMIT",
}
_HINTS = {
    402: "the account has no credit left",
    404: "check the model's name and the base URL",
    413: "the request is too large",
}


@frozen
class Complaint:
    """What an error body says.

    Attributes:
        message: for people; empty when the body has none.
        kind: the body's ``type``.
        code: the body's ``code``, as text.
        status: the HTTP status that the body itself names.
        delay: seconds that the body asks to wait.
    """

    message: str = ""
    kind: str = ""
    code: str = ""
    status: int | None = None
    delay: float | None = None


def shorten(text: str, limit: int = 300) -> str:
    """`text` on one line, with its middle left out when it is longer than `limit`."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]} … {text[-limit // 4 :]}"


def read_complaint(body: bytes) -> Complaint:
    """What an error body says, whatever its shape: JSON of several dialects, HTML, or text."""
    try:
        value = loads(body)
    except ValueError:
        text = body.decode("utf-8", "replace")
        if re.search(r"<\w+[^>]*>", text):
            text = re.sub(r"(?is)<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", " ", text)
        from html import unescape

        return Complaint(shorten(unescape(text)))
    return from_json(value)


def from_json(value: Any) -> Complaint:
    """`Complaint` out of a parsed error body."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return Complaint(shorten(value, 1000))
    if not isinstance(value, dict):
        return Complaint()
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    said = (inner.get("message"), error, inner.get("detail"), value.get("detail"), inner.get("msg"))
    message = next((words if isinstance(words, str) else str(words) for words in said if words), "")
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"
    code = inner.get("code")
    numbers = (inner.get("status_code"), code, value.get("status"))
    status = next((n for n in numbers if isinstance(n, int) and 400 <= n <= 599), None)
    kind = str(inner.get("type") or "")
    return Complaint(shorten(message, 1000), kind, "" if code is None else str(code), status, _asked_delay(inner))


def _asked_delay(error: Mapping[str, Any]) -> float | None:
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a response asks to wait, from its headers in lower case; None if it asks for nothing it can say."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * scale
        if name == "retry-after" and value:
            # A package of some size, for a header that is rarely a date.
            from email.utils import parsedate_to_datetime

            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
            except ValueError:
                return None
    return None


def http_failure(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, *, key_hint: str = ""
) -> LlmError:
    """The error for a response that is not 200.

    Args:
        headers: with names in lower case.
        key_hint: what to check when the key was refused.
    """
    if 300 <= status <= 399:
        target = shorten(headers.get("location", "another address"))
        return LlmError(
            f"{provider} redirects to {target} (HTTP {status}), which is not followed; set base_url to that place",
            code=f"HTTP_{status}",
            status=status,
        )
    said = read_complaint(body)
    code, retryable = _classify(status, said)
    if (wish := headers.get("x-should-retry")) in ("true", "false"):
        retryable = wish == "true"
    hint = key_hint if code == "AUTH" else _HINTS.get(status, "")
    text = said.message or f"the service answered with HTTP status {status} and no explanation"
    wait = retry_after(headers)
    return LlmError(
        f"{provider}: {text} (HTTP {status}{'; ' + hint if hint else ''})",
        code=code,
        status=status,
        retryable=retryable,
        retry_after=said.delay if wait is None else wait,
    )


def stream_failure(provider: str, value: Any) -> LlmError:
    """The error for an error object that came inside an answer."""
    said = from_json(value)
    status = said.status
    if status is None:
        status = next((s for pattern, s in _BY_TYPE if pattern.search(f"{said.kind} {said.code}")), None)
    code, retryable = _classify(status or 500, said)
    return LlmError(
        f"{provider}: {said.message or 'the service reported an error without a message'}",
        code=code,
        status=status,
        retryable=retryable,
        retry_after=said.delay,
    )


def _classify(status: int, said: Complaint) -> tuple[str, bool]:
    text = f"{said.kind} {said.code} {said.message}"
    if status in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return "CONTEXT_OVERFLOW", False
    if status in (400, 404, 422) and _NO_MODEL.search(text):
        return "NOT_FOUND", False
    if said.code == "tool_use_failed":
        # The model wrote a call that the service could not read; the next sample may be right.
        return "TOOL_USE_FAILED", True
    if status >= 500:
        return "SERVER", status not in (501, 505)
    if status == 429 and _NO_MONEY.search(text):
        return "QUOTA", False
    return _CODES.get(status, f"HTTP_{status}"), status in (408, 409, 425, 429)


def transport_failure(
    who: str,
    error: httpx.TransportError | httpx.InvalidURL,
    timeouts: Mapping[str, float | None] | None = None,
    *,
    answering: bool = False,
) -> LlmError:
    """The error for a request that found no answer, or an answer that broke off.

    Args:
        who: the service and its address, for the message.
        timeouts: of the request, to be named when one was exceeded.
        answering: the head of the response had come.
    """
    import httpx

    what, code, retryable = _unanswered(error, timeouts or {}, answering)
    # A proxy's refusal begins with the status it gave.
    status = re.match(r"(\d{3}) ", str(error)) if isinstance(error, httpx.ProxyError) else None
    return LlmError(f"{who} {what}", code=code, retryable=retryable, status=int(status[1]) if status else None)


def _unanswered(
    error: httpx.TransportError | httpx.InvalidURL, timeouts: Mapping[str, float | None], answering: bool
) -> tuple[str, str, bool]:
    """What happened, its code, and whether to try again."""
    import ssl

    import h11
    import httpx

    chain = list(_chain(error))
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return f"did not accept a connection{_within(timeouts.get('connect'))}", "TIMEOUT", True
        case httpx.TimeoutException():
            return f"did not answer{_within(timeouts.get('read'))}", "TIMEOUT", True
        case httpx.ProxyError():
            hint = "; the proxy's address needs a name and password" if str(error).startswith("407") else ""
            return f"cannot be reached: the proxy refused ({error}{hint})", "UNAVAILABLE", str(error).startswith("5")
        case httpx.ConnectError():
            broken = next((cause for cause in chain if isinstance(cause, ssl.SSLError)), None)
            if broken is None:
                return f"cannot be reached: {_words(chain)}", "UNAVAILABLE", True
            refused = isinstance(broken, ssl.SSLCertVerificationError)
            why = broken.verify_message if isinstance(broken, ssl.SSLCertVerificationError) else _words([broken])
            return f"failed the TLS handshake: {why}", "UNAVAILABLE", not refused
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.InvalidURL():
            return f"cannot be asked: {_words(chain)}; check base_url and headers", "UNAVAILABLE", False
    if answering:
        return f"broke off in the middle of the answer: {_words(chain)}", "STREAM_CLOSED", True
    if any(isinstance(cause, h11.RemoteProtocolError) for cause in chain):
        return "does not speak HTTP here; check the base URL and its scheme", "MALFORMED_RESPONSE", False
    return f"closed the connection without an answer: {_words(chain)}", "STREAM_CLOSED", True


def _within(seconds: float | None) -> str:
    return " in time" if seconds is None else f" within {seconds:g} seconds"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and what caused it, from the outside to the inside."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _words(chain: Sequence[BaseException]) -> str:
    return next((str(error) for error in chain if str(error)), type(chain[0]).__name__)
