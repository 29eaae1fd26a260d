"""What goes wrong with a service - it refuses, it breaks, it is not there - turned into `LlmError`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ...errors import LlmError
from ...jsonvalue import clean, loads
from ...patterns import late

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Complaint",
    "http_failure",
    "read_complaint",
    "retry_after",
    "shorten",
    "stream_failure",
    "transport_failure",
]

_OVERFLOW = late(
    r"context[ _](length|window|size)|maximum context|(prompt|conversation) (is )?too long|(input|prompt) token count"
    r"|too[ _]many[ _](input[ _]|prompt[ _])?tokens|all messages is too long|exceeds? .{0,40}maximum number of tokens"
    r"|maximum prompt length|exceeded model token limit|input (length|is too long)|request_too_large"
    r"|request too large for|tokens . .?max_new_tokens.? must be|max(imum)? (model|sequence) length"
    r"|(prompt|input|request) (exceeds|is longer than) |(input|total( number of)?) tokens.{0,40} exceed"
    r"|must have less than \d+ .{0,10}tokens|reduce the length of (the|your) |more than max tokens allowed",
    re.IGNORECASE,
)
_NO_MODEL = late(
    r"model_not_found|invalid[_ ]model|supported api model names|model\b.{0,80}(does not exist|not found|not exist)",
    re.IGNORECASE,
)
_NO_MONEY = late(
    r"insufficient_quota|exceeded_current_quota|insufficient[_ ](balance|credits|funds)|depleted your|arrearage"
    r"|billing_error|credit balance is too low|credit[_ ]limit|spending[_ ]limit|hard_limit_reached"
    r"|used all available credits|balance is (insufficient|not enough|too low)",
    re.IGNORECASE,
)
_OVERLOADED = late(
    r"overload|(over|at|no|out of|exceeded|insufficient) capacity|capacity (is )?exceeded|too busy|high demand",
    re.IGNORECASE,
)
_REFUSED = late(
    r"content[_ ]?(filter|policy|management)|data_?inspection_?failed|was flagged|flagged (by|as|for)|moderation"
    r"|inappropriate content|safety (system|polic)",
    re.IGNORECASE,
)
_BAD_KEY = late(r"api[_ ]key (is )?(not valid|invalid)|(invalid|incorrect)[_ ]api[_ ]key", re.IGNORECASE)
_BAD_SAMPLE = late(r"tool_use_failed|failed to parse input at pos", re.IGNORECASE)
_TOO_LARGE = re.compile(r"request too large for", re.IGNORECASE)
# Servers that answer 500 to what will never work.
_WRONG_REQUEST = late(
    r"does(n't| not) support|not supported|unsupported|requires? (the )?--|jinja|unable to generate parser"
    r"|invalid[_ ](request|param|argument|value)",
    re.IGNORECASE,
)
_BY_TYPE = (
    (_NO_MONEY, 402),
    (_OVERLOADED, 529),
    (late(r"rate_?limit|too_many_requests|resource_exhausted", re.IGNORECASE), 429),
    (late(r"auth|api_key|permission", re.IGNORECASE), 401),
    (late(r"not_found", re.IGNORECASE), 404),
    (late(r"invalid|bad_request|too_large|context_length", re.IGNORECASE), 400),
)
_BY_WORDS = (
    (_NO_MONEY, 402),
    (_BAD_KEY, 401),
    (_NO_MODEL, 404),
    (late(r"rate[ _-]?limit|too many requests", re.IGNORECASE), 429),
)
_CODES = {
    400: "INVALID_REQUEST",
    401: "AUTH",
    402: "QUOTA",
    403: "AUTH",
    404: "NOT_FOUND",
    408: "TIMEOUT",
    413: "CONTEXT_OVERFLOW",
    422: "INVALID_REQUEST",
    429: "RATE_LIMIT",
    498: "OVERLOADED",
    499: "STREAM_CLOSED",
    503: "OVERLOADED",
    529: "OVERLOADED",
}
_WORDS = (
    "message",
    "Message",
    "error_description",
    "detail",
    "msg",
    "error_msg",
    "error_message",
    "errors",
    "error",
    "faultstring",
    "fault",
    "reason",
    "description",
    "status_msg",
    "base_resp",
    "title",
)
"""Where services put what they have to say, the clearest first; each may hold more of the kind."""
_BAD_ANSWER = "MALFORMED_RESPONSE"
_DEPTH, _PARTS = 6, 8
"""How deep an error is looked into, and how many of several are told."""
_LATER = (408, 409, 425, 429, 498, 499)
_NO_TLS = ("wrong_version_number", "http_request", "record_layer_failure")
"""How OpenSSL calls it when what comes back is no TLS at all, as from a server that expects plain HTTP."""
_HINTS = {
    402: "the account has no credit left",
    407: "a proxy on the way wants a name and password, which belong in its address",
    408: "the service waited too long for the request",
    404: "check the model's name and the base URL",
    413: "the request is too large",
    499: "something on the way closed the connection",
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
    """`text` on one line and in Unicode, with its middle left out when it is longer than `limit`."""
    text = clean(" ".join(text.split()))
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
    message = _said(inner) or _said(value)
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and (raw := _said(metadata.get("raw"))):
        message = f"{message}: {raw}"
    code = inner.get("code")
    numbers = (_status(n) for n in (inner.get("status_code"), code, value.get("status")))
    status = next((n for n in numbers if n is not None), None)
    kind = str(inner.get("type") or "")
    return Complaint(shorten(message, 1000), kind, "" if code is None else str(code), status, _asked_delay(inner))


def _said(value: Any, depth: int = _DEPTH) -> str:
    """What an error, or a part of one, says in words; empty if it says nothing."""
    if isinstance(value, str):
        return value
    if not depth or not value:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_said(item, depth - 1) for item in value[:_PARTS])))
    if not isinstance(value, dict):
        return ""
    text = next(filter(None, (_said(value.get(name), depth - 1) for name in _WORDS)), "")
    where = value.get("loc")
    if text and isinstance(where, list):
        text = f"{'.'.join(map(str, where))}: {text}"
    return text


def _status(value: Any) -> int | None:
    """The HTTP status that `value` is, a number or one in text."""
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        return int(value)
    return value if isinstance(value, int) and 400 <= value <= 599 else None


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
        if re.fullmatch(r"\d+(\.\d+)?(\s*,\s*\d+(\.\d+)?)*", value):
            # Something on the way may have asked for as much as well, and the longest wait does for all.
            return max(map(float, value.split(","))) * scale
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
        target = _shown(headers.get("location", "another address"))
        return LlmError(
            f"{provider} redirects to {target} (HTTP {status}), which is not followed; set base_url to that place",
            code=f"HTTP_{status}",
            status=status,
        )
    if 200 <= status <= 299:
        return LlmError(
            f"{provider} gave no model's answer (HTTP {status}); check the base URL", code=_BAD_ANSWER, status=status
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


def _shown(address: str) -> str:
    """`address` without what may be secret in it: name and password, and what is asked for."""
    return shorten(re.sub(r"//[^/?#]*@", "//", re.split(r"[?#]", address, maxsplit=1)[0]))


def stream_failure(provider: str, value: Any) -> LlmError:
    """The error for an error object that came inside an answer."""
    said = from_json(value)
    status = said.status
    if status is None:
        status = next((s for pattern, s in _BY_TYPE if pattern.search(f"{said.kind} {said.code}")), None)
    if status is None:
        # Who names neither kind nor status may still say it in words.
        status = next((s for pattern, s in _BY_WORDS if pattern.search(said.message)), None)
    code, retryable = _classify(status or 500, said)
    return LlmError(
        f"{provider}: {said.message or 'the service reported an error without a message'}",
        code=code,
        status=status,
        retryable=retryable,
        retry_after=said.delay,
    )


_SERVER_SIDE = tuple(range(500, 600))
_BY_TEXT: tuple[tuple[re.Pattern[str], tuple[int, ...], str, bool], ...] = (
    # The model wrote a call that the service could not read; the next sample may be right.
    (_BAD_SAMPLE, (400, 422, 500), "TOOL_USE_FAILED", True),
    (_OVERFLOW, (400, 413, 422, 500), "CONTEXT_OVERFLOW", False),
    # More than the service takes in a minute: it will not take that later either.
    (_TOO_LARGE, (429,), "CONTEXT_OVERFLOW", False),
    (_NO_MODEL, (400, 404, 422), "NOT_FOUND", False),
    (_NO_MONEY, (400, 402, 403, 429), "QUOTA", False),
    (_BAD_KEY, (400,), "AUTH", False),
    (_REFUSED, (400, 403, 422, 451, 500), "REFUSED", False),
    (_OVERLOADED, (429, *_SERVER_SIDE), "OVERLOADED", True),
    (_WRONG_REQUEST, (500,), "INVALID_REQUEST", False),
)


def _classify(status: int, said: Complaint) -> tuple[str, bool]:
    """The code of a complaint, and whether the same request may work later.

    What the body says goes before the status: services answer 400 to a wrong key, 429 to an empty
    account and 500 to a request that they will never understand.
    """
    text = f"{said.kind} {said.code} {said.message}"
    for pattern, statuses, code, retryable in _BY_TEXT:
        if status in statuses and pattern.search(text):
            return code, retryable
    if status >= 500:
        return _CODES.get(status, "SERVER"), status not in (501, 505)
    return _CODES.get(status, f"HTTP_{status}"), status in _LATER


def transport_failure(
    who: str,
    error: Exception,
    timeouts: Mapping[str, float | None] | None = None,
    *,
    answering: bool = False,
) -> LlmError:
    """The error for a request that found no answer, or an answer that broke off.

    Args:
        who: the service and its address, for the message.
        error: any that httpx or one of its transports raises.
        timeouts: of the request, to be named when one was exceeded.
        answering: the head of the response had come.
    """
    import httpx

    what, code, retryable = _unanswered(error, timeouts or {}, answering)
    # A proxy's refusal begins with the status it gave.
    status = re.match(r"(\d{3}) ", str(error)) if isinstance(error, httpx.ProxyError) else None
    return LlmError(f"{who} {what}", code=code, retryable=retryable, status=int(status[1]) if status else None)


def _unanswered(error: Exception, timeouts: Mapping[str, float | None], answering: bool) -> tuple[str, str, bool]:
    """What happened, its code, and whether to try again."""
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
            return _unconnected(chain)
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.InvalidURL():
            return f"cannot be asked: {_words(chain)}; check base_url and headers", "UNAVAILABLE", False
        case httpx.DecodingError() | httpx.TooManyRedirects():
            return f"gave no model's answer: {_words(chain)}; check the base URL", _BAD_ANSWER, False
    if answering:
        return f"broke off in the middle of the answer: {_words(chain)}", "STREAM_CLOSED", True
    if any(isinstance(cause, h11.RemoteProtocolError) for cause in chain):
        return "does not speak HTTP here; check the base URL and its scheme", _BAD_ANSWER, False
    return f"closed the connection without an answer: {_words(chain)}", "STREAM_CLOSED", True


def _unconnected(chain: Sequence[BaseException]) -> tuple[str, str, bool]:
    import ssl

    broken = next((cause for cause in chain if isinstance(cause, ssl.SSLError)), None)
    if broken is None:
        return f"cannot be reached: {_words(chain)}", "UNAVAILABLE", True
    if (broken.reason or "").lower() in _NO_TLS:
        return f"speaks no TLS here ({_words([broken])}); check the base URL and its scheme", "UNAVAILABLE", False
    if not isinstance(broken, ssl.SSLCertVerificationError):
        return f"failed the TLS handshake: {_words([broken])}", "UNAVAILABLE", True
    return f"failed the TLS handshake: {broken.verify_message}; {_whom_to_trust()}", "UNAVAILABLE", False


def _whom_to_trust() -> str:
    named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    if named:
        return f"{' and '.join(named)} name the certificates that are trusted, and this one's issuer is not among them"
    return (
        "if its certificate is issued by a CA of your own, name a file of that CA's certificate with SSL_CERT_FILE, "
        "or with ca_bundle in [network]"
    )


def _within(seconds: float | None) -> str:
    return " in time" if seconds is None else f" within {seconds:g} seconds"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and what caused it, from the outside to the inside; of a group, its members."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from _chain(member)
        else:
            yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _words(chain: Sequence[BaseException]) -> str:
    """What the errors say, each thing once."""
    said: list[str] = []
    for error in chain:
        text = re.sub(r"^\[Errno -?\d+\] (Error connecting to \(.*?\): )?", "", str(error))
        if text and not any(text.lower() in other.lower() for other in said):
            said.append(text)
    return shorten(": ".join(said), 500) or type(chain[0]).__name__
