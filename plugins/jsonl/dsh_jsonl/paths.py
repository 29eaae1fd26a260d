"""Where a session's file is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dsh import SessionError
from dsh.jsonvalue import clean
from dsh.session.folder import encode_id

__all__ = ["SUFFIX", "bucket", "encode_id", "find"]

SUFFIX = ".jsonl"
_NO_CWD = "_no-cwd"


def bucket(cwd: str | None) -> str:
    """The name of the folder for sessions that work in `cwd`."""
    if cwd is None:
        return _NO_CWD
    return "cwd-" + hashlib.sha256(clean(cwd).encode()).hexdigest()[:12]


def find(root: Path, session_id: str) -> Path | None:
    """The session's file, in whichever folder it lies.

    Raises:
        SessionError: there are two, or `root` cannot be read.
    """
    name = encode_id(session_id) + SUFFIX
    try:
        with os.scandir(root) as folders:
            paths = [Path(folder.path, name) for folder in folders]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SessionError(f"cannot read the sessions in {root}: {error.strerror}") from error
    found = sorted(path for path in paths if os.path.lexists(path))
    if len(found) > 1:
        places = " and ".join(map(str, found))
        raise SessionError(f"the session {session_id!r} is stored twice, as {places}; move one of them away")
    return found[0] if found else None
