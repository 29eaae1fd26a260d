"""The files of ``dsh batch``: the tasks, and the results that are there already."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import field, fields_dict, frozen

from ..errors import ConfigError
from ..jsonvalue import Json, dumps, loads
from ..structure import did_you_mean

__all__ = ["BatchTask", "Results", "read_tasks", "refusal"]

COMPLAINTS = 20
"""How many bad lines are told of one by one."""
TEXTS = ("prompt", "model", "cwd", "system_prompt", "append_system_prompt")
LISTS = ("tools", "disallowed_tools")


@frozen
class BatchTask:
    """One line of the tasks' file.

    Attributes:
        line: its number, from 1.
        cwd: the directory to work in, as it was written.
        tools: the names of the only tools it has; of those that the flags leave.
        disallowed_tools: the names of tools it does not have, with those of the flags.
    """

    line: int = field(metadata={"given": False})
    id: str
    prompt: str
    model: str | None = None
    cwd: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()


_BEGINNING = b'{"id":'
"""How every result begins."""
_KEYS = tuple(name for name in fields_dict(BatchTask) if name != "line")


def read_tasks(path: Path) -> list[BatchTask]:
    """The tasks of a file; empty lines count as none.

    Raises:
        ConfigError: the file cannot be read, or lines of it are no tasks; each is told with its number.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}", code="USAGE") from None
    tasks: dict[str, BatchTask] = {}
    wrong: list[str] = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            task = _task(number, line, tasks)
        except ValueError as error:
            wrong.append(f"{path}, line {number}: {error}")
            continue
        tasks[task.id] = task
    if wrong:
        raise refusal(wrong)
    if not tasks:
        raise ConfigError(f"{path}: there is no task in it", code="USAGE")
    return list(tasks.values())


def refusal(wrong: Sequence[str]) -> ConfigError:
    """The error of a file in which lines are wrong."""
    more = len(wrong) - COMPLAINTS
    tail = [f"and {more} more lines"] if more > 0 else []
    return ConfigError("\n".join([*wrong[:COMPLAINTS], *tail, "no task was begun"]), code="USAGE")


def _task(number: int, line: bytes, others: Mapping[str, BatchTask]) -> BatchTask:
    value = loads(line.strip())
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    for key in value:
        if key not in _KEYS:
            raise ValueError(f"unknown key {key!r}{did_you_mean(key, _KEYS)}")
    given = {key: item for key, item in value.items() if item is not None}
    for key in TEXTS:
        if key in given and (not isinstance(given[key], str) or not given[key].strip()):
            raise ValueError(f"{key} must be a text that is not empty")
    if "prompt" not in given:
        raise ValueError("there is no prompt")
    for key in LISTS:
        if key in given:
            given[key] = _names(key, given[key])
    return BatchTask(**{**given, "line": number, "id": _id(given, others)})


def _names(key: str, value: Json) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise ValueError(f"{key} must be a list of names")
    return tuple(value)


def _id(given: Mapping[str, Any], others: Mapping[str, BatchTask]) -> str:
    """The task's own id, or one that is the same whenever the same task is read, wherever it stands."""
    if "id" in given:
        id = given["id"]
        if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
            raise ValueError("id must be a text that is not empty, or a whole number")
        if str(id) in others:
            raise ValueError(f"the id {str(id)!r} is that of line {others[str(id)].line}, too")
        return str(id)
    made = f"task-{sha256(dumps(dict(sorted(given.items())))).hexdigest()[:12]}"
    name, count = made, 1
    while name in others:
        count += 1
        name = f"{made}-{count}"
    return name


def _half(line: bytes) -> bool:
    """Whether a line without an end may be a result: one that was cut off, or all of one."""
    try:
        record = loads(line)
    except ValueError:
        return True
    return isinstance(record, dict) and "exit_code" in record


class Results:
    """The file of results: a line is added whole, as each task ends.

    Args:
        path: the file; it is made if it is not there.

    Attributes:
        recorded: whether each task that stands in it completed, by id.

    Raises:
        ConfigError: it cannot be written, another program writes it, or it holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorded: dict[str, bool] = {}
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}", code="USAGE") from None
        try:
            self._begin(stat.S_IFMT(os.fstat(self._descriptor).st_mode))
        except BaseException:
            self.close()
            raise

    def _begin(self, kind: int) -> None:
        if kind == stat.S_IFCHR:
            return  # /dev/null and its like hold nothing, and are nobody's
        if kind != stat.S_IFREG:
            raise ConfigError(f"{self.path}: is no file; for results on stdout write --out -", code="USAGE")
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{self.path}: another program writes it; name another file with --out") from None
        except OSError as error:
            # A file system without locks: better results than none.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise ConfigError(f"{self.path}: cannot be locked: {error.strerror or error}", code="USAGE") from None
        try:
            self._take_up()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror or error}", code="USAGE") from None

    def _take_up(self) -> None:
        """Read what is there, and cut off a line that was never completely written."""
        data = self.path.read_bytes()
        good = data.rfind(b"\n") + 1
        whole, rest = data[:good], data[good:]
        for number, line in enumerate(whole.split(b"\n"), 1):
            if line.strip():
                self._note(number, line)
        if rest:
            if rest[: len(_BEGINNING)] != _BEGINNING[: len(rest)] or not _half(rest):
                self._note(whole.count(b"\n") + 1, b"")  # somebody else's
            os.ftruncate(self._descriptor, good)

    def _note(self, number: int, line: bytes) -> None:
        try:
            record = loads(line)
            self.recorded[str(record["id"])] = record["exit_code"] == 0
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{self.path}, line {number}: is no result of `dsh batch`; name another file with --out", code="USAGE"
            ) from None

    def add(self, record: Mapping[str, Json]) -> None:
        """Write one result, all of it or nothing.

        Raises:
            OSError: it cannot be written.
        """
        line = dumps(record) + b"\n"
        found = os.fstat(self._descriptor)
        if not found.st_nlink:
            raise OSError(f"{self.path} was deleted meanwhile")
        size = found.st_size
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                raise OSError("only a part of it could be written")
        except OSError:
            with suppress(OSError):  # what is no file has no end to cut off
                os.ftruncate(self._descriptor, size)
            raise

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)
