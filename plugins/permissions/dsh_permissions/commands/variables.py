"""Variables of the environment: which change what programs do, and which do not."""

from __future__ import annotations

import re

from dsh.patterns import late

__all__ = ["RISKY_VARIABLES", "SAFE_VARIABLES", "is_risky"]

SAFE_VARIABLES = late(
    r"LANG|LC_[A-Z]+|LANGUAGE|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|DEBUG"
    r"|VERBOSE|NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|PYTHONUTF8"
    r"|GIT_TERMINAL_PROMPT|PYTEST_DISABLE_PLUGIN_AUTOLOAD|DEBIAN_FRONTEND|OMP_NUM_THREADS|SOURCE_DATE_EPOCH"
)
RISKY_VARIABLES = late(
    r"PATH|[A-Z]*PATH|LD_.*|DYLD_.*|GIT_.*|BASH.*|ENV|IFS|PS[0-9]|PROMPT_COMMAND|SHELL.*|HOME|USER|LOGNAME|TMPDIR"
    r"|.*PAGER|.*EDITOR|VISUAL|BROWSER|LESS.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|JAVA_.*|_JAVA.*|CLASSPATH|MAKEFLAGS"
    r"|.*_?PROXY|.*_proxy|SSH_.*|SSL_.*|XDG_.*|GLOBIGNORE|FIGNORE|HIST.*|INPUTRC|POSIXLY_CORRECT|FUNCNEST"
    r"|OLDPWD|PWD|CDPATH|MAIL.*|RIPGREP_.*|GREP_.*|LS_COLORS|TAR_OPTIONS|GZIP|CC|CXX|LDFLAGS|CFLAGS|RUSTC.*|CARGO_.*"
    r"|npm_.*|NPM_.*|PIP_.*|UV_.*|DOCKER_.*|KUBECONFIG|AWS_.*|DSH_.*|GCONV_PATH|NLSPATH|LOCPATH|HOSTALIASES|RES_.*"
    r"|MALLOC_.*|GLIBC_.*|.*_COMMAND|.*_ASKPASS|EXECIGNORE|TERMINFO.*|TERMCAP|MANOPT|MANROFFOPT|GROFF_.*"
)
_EVALUATED = late(r"RANDOM|SRANDOM|SECONDS|LINENO|OPTIND|OPTERR|HISTCMD|EPOCHSECONDS|EPOCHREALTIME|BASHPID")
"""Variables in which bash keeps numbers: what they are given, it evaluates as arithmetic."""


def is_risky(name: str, value: str | None) -> bool:
    """Whether giving the variable that value, or one that is not known, changes what programs do, or runs one."""
    if RISKY_VARIABLES.fullmatch(name):
        return True
    return _EVALUATED.fullmatch(name) is not None and re.fullmatch(r"\d*", value or "x") is None
