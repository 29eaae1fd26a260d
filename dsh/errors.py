"""The errors of dsh.

    DshError
    ├── ConfigError             a setting, flag or file is wrong                (exit 2)
    │   ├── PluginError         a plugin cannot be loaded or registered         (exit 2)
    │   └── PromptError         a section or variable of the system prompt is wrong
    ├── HookError               a hook implementation broke the rules of its hook
    ├── AgentError              an agent cannot be made or used as asked
    ├── SessionError            a session cannot be opened, read or written
    │   ├── SessionNotFound
    │   ├── SessionLocked       another process writes it
    │   └── CorruptSession      its log cannot be trusted
    ├── LimitError              a limit of the run was reached                  (exit 124)
    ├── LlmError                the model or its provider failed                (exit 1, or 75)
    └── ToolError               a tool call failed in a way the model should read
        ├── ToolNotFoundError
        └── ToolArgsError

Every error has a `code`, a word for programs; the message is for people and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

__all__ = [
    "AgentError",
    "ConfigError",
    "CorruptSession",
    "DshError",
    "HookError",
    "LimitError",
    "LlmError",
    "PluginError",
    "PromptError",
    "SessionError",
    "SessionLocked",
    "SessionNotFound",
    "ToolArgsError",
    "ToolError",
    "ToolNotFoundError",
    "all_mistakes",
    "blamed_message",
    "error_code",
    "error_message",
    "survivable",
]


class DshError(Exception):
    """Base of all errors that dsh raises on purpose.

    Args:
        message: for people; names what was wrong and what to do.
        code: for programs; defaults to the class's own.
    """

    default_code: ClassVar[str] = "ERROR"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code


class ConfigError(DshError):
    """A setting, a flag or a file of settings is wrong."""

    default_code = "CONFIG"


def all_mistakes(errors: Iterable[ConfigError]) -> ConfigError:
    """One error that says what each of `errors` says, a line each; of one alone it is that one."""
    found = list(errors)
    if len(found) == 1:
        return found[0]
    return ConfigError("\n".join(dict.fromkeys(line for error in found for line in error.message.splitlines())))


class PluginError(ConfigError):
    """A plugin cannot be loaded or registered."""

    default_code = "PLUGIN"


class PromptError(ConfigError):
    """A section or variable of the system prompt is wrong."""

    default_code = "PROMPT"


class HookError(DshError):
    """A hook implementation broke the rules of its hook: lost a result, yielded twice, answered the wrong type."""

    default_code = "HOOK"


class AgentError(DshError):
    """An agent cannot be made or used as asked: its id is taken, it is disposed, no loop is installed."""

    default_code = "AGENT"


class SessionError(DshError):
    """A session cannot be opened, read or written."""

    default_code = "SESSION"


class SessionNotFound(SessionError):
    """There is no session with that id."""

    default_code = "SESSION_NOT_FOUND"


class SessionLocked(SessionError):
    """Another process writes that session."""

    default_code = "SESSION_LOCKED"


class CorruptSession(SessionError):
    """The log of a session breaks its own rules; the message names the place."""

    default_code = "SESSION_CORRUPT"


class LimitError(DshError):
    """A limit of the run was reached: of requests, tokens, money or time.  The codes begin with ``LIMIT_``."""

    default_code = "LIMIT_REACHED"


class LlmError(DshError):
    """The model or its provider failed.

    Codes: ``AUTH`` ``RATE_LIMIT`` ``QUOTA`` (no money left) ``OVERLOADED`` ``INVALID_REQUEST`` ``CONTEXT_OVERFLOW``
    ``NOT_FOUND`` ``REFUSED`` (for what was asked) ``CONTENT_FILTER`` (for what was answered)
    ``TOOL_USE_FAILED`` ``SERVER`` ``HTTP_<n>``
    ``UNAVAILABLE`` (no connection) ``TIMEOUT`` ``EMPTY_RESPONSE`` ``STREAM_CLOSED`` ``ANSWER_TOO_LONG``
    ``MALFORMED_RESPONSE`` ``NO_ADAPTER`` ``DUPLICATE_ADAPTER`` ``ABORTED``, or the provider's own.

    Args:
        status: the HTTP status, where there was one.
        retryable: whether the same request may work later.
        retry_after: seconds the provider asked to wait.
    """

    default_code = "LLM"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class ToolError(DshError):
    """A tool call failed; raised in a tool, it becomes an error result with this name and code."""

    default_code = "TOOL"


class ToolNotFoundError(ToolError):
    """The model called a tool that does not exist for this agent."""

    default_code = "UNKNOWN_TOOL"


class ToolArgsError(ToolError):
    """The arguments of a call do not fit the tool; `violations` lists every one of them."""

    default_code = "INVALID_ARGS"

    def __init__(self, message: str, violations: Sequence[str] = (), *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.violations = tuple(violations)


PROBLEMS = (Exception, SystemExit, BaseExceptionGroup)
"""What a plugin's code may raise without ending the program; `survivable` looks into groups."""


def error_message(error: BaseException) -> str:
    """The text of `error` for people: its message, or its type where it has none.

    Of a group, the first member speaks.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def blamed_message(error: BaseException) -> str:
    """`error_message`, with the notes that name the plugin an error came from.

    A limit that was reached is nobody's fault, and has none.
    """
    message = error_message(error)
    if isinstance(error, LimitError):
        return message
    notes = [*getattr(error, "__notes__", ())]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        notes += getattr(error, "__notes__", ())
    return f"{message} ({'; '.join(notes)})" if notes else message


def survivable(error: BaseException) -> Exception:
    """`error`, or what stands for it where a hook cannot let it pass.

    That is other people's wish to end the program (`SystemExit`, alone or as a nursery wraps it), and
    `StopIteration`, which no coroutine lets out.

    Raises:
        BaseException: `error` itself, as it holds what is to end the program, or a cancellation.
    """
    wish = _exit_in(error)
    if wish is not None:
        why = f"it wants to end the program ({type(wish).__name__}: {wish}), which is not its to end"
    elif isinstance(error, StopIteration):
        why = f"it raised {error!r}: something was to come next, and there was nothing"
    elif isinstance(error, Exception):
        return error
    else:
        raise error
    refused = HookError(why)
    refused.__cause__ = error
    return refused


def _exit_in(error: BaseException) -> SystemExit | None:
    """The wish to end the program that `error` is, or holds beside ordinary errors."""
    if isinstance(error, SystemExit):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    wishes, rest = error.split(SystemExit)
    if wishes is None or not (rest is None or isinstance(rest, Exception)):
        return None
    wish: BaseException = wishes
    while isinstance(wish, BaseExceptionGroup):
        wish = wish.exceptions[0]
    return wish if isinstance(wish, SystemExit) else None


def error_code(error: BaseException) -> str | None:
    """The machine word of `error`, where it carries one; of a group, that of the first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else None
