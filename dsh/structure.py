"""Tables of settings into attrs classes: strict about types, and all complaints at once.

cattrs does the work; what it would quietly convert (a number into text, text into a list of
letters) is refused here, and its errors come out as `Problem`s that say where.  cattrs is
imported when there is something to structure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, MutableSequence, MutableSet, Sequence, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from attrs import fields_dict, frozen, has

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["KeyPath", "Problem", "StructureError", "did_you_mean", "show_path", "structure"]

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SEQUENCES: dict[Any, Callable[[Any], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: tuple,
    MutableSequence: list,
    Set: frozenset,
    MutableSet: set,
}


@frozen
class Problem:
    """One thing that is wrong, and the key it is wrong at."""

    path: KeyPath
    message: str


class StructureError(ValueError):
    """A value does not fit; `problems` has at least one entry."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{show_path(problem.path)}: {problem.message}" for problem in problems))
        self.problems = tuple(problems)


def show_path(path: Iterable[str | int]) -> str:
    """A key path as TOML writes it: ``providers."my host".models[0]``."""
    shown = ""
    for key in path:
        if isinstance(key, int):
            shown += f"[{key}]"
        else:
            shown += ("." if shown else "") + (key if _BARE.match(key) else f'"{key}"')
    return shown


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a complaint about `word`: ``, did you mean X?``, or what there is, or nothing."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(word, names, 1, 0.6)
    if close:
        return f", did you mean {close[0]}?"
    return f" (known: {', '.join(names)})" if 0 < len(names) <= 12 else ""


def structure(value: Any, cls: type[T], path: KeyPath = ()) -> T:
    """`value`, as TOML or JSON gave it, as a `cls`.

    Args:
        cls: an attrs class, or any type that cattrs takes, as ``dict[str, SomeClass]``.
        path: where `value` stands, for the errors.

    Raises:
        StructureError: it does not fit.
    """
    try:
        return _converter().structure(value, cls)
    except Exception as error:
        raise StructureError(list(_problems(error, path))) from None


def _problems(error: BaseException, path: KeyPath) -> Iterable[Problem]:
    from cattrs import BaseValidationError, ForbiddenExtraKeysError
    from cattrs.errors import AttributeValidationNote, IterableValidationNote

    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            at = path
            for note in getattr(inner, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    at = (*path, note.name)
                elif isinstance(note, IterableValidationNote):
                    at = (*path, note.index)
            yield from _problems(inner, at)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = [name for name, attribute in fields_dict(error.cl).items() if attribute.init]
        for name in sorted(error.extra_fields):
            yield Problem((*path, name), f"unknown key{did_you_mean(name, known)}")
    elif isinstance(error, KeyError):
        yield Problem(path, "is missing, and has no default")
    else:
        yield Problem(path, str(error) or type(error).__name__)


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn

    converter = Converter(forbid_extra_keys=True)
    for kind, name in ((str, "a string"), (bool, "true or false"), (int, "a whole number")):
        converter.register_structure_hook(kind, _exactly(kind, name))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(Path, _path)

    def attrs_class(cls: type[Any], converter: Converter) -> Callable[[Any, Any], Any]:
        inner = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True)
        return _only(Mapping, "a table", inner)

    def mapping(cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
        from cattrs.cols import mapping_structure_factory

        wanted: Any = dict.__class_getitem__(get_args(cls) or (str, Any))
        return _only(Mapping, "a table", mapping_structure_factory(wanted, converter))

    def sequence(cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
        from cattrs.cols import list_structure_factory

        wanted: Any = list.__class_getitem__((get_args(cls) or (Any,))[0])
        inner = list_structure_factory(wanted, converter)
        make = _SEQUENCES[get_origin(cls) or cls]
        return _only(list | tuple, "a list", lambda value, _: make(inner(value, wanted)))

    factories = ((has, attrs_class), (_is_mapping, mapping), (_is_sequence, sequence), (_is_literal, _literal))
    for applies, factory in factories:
        converter.register_structure_hook_factory(applies, factory)
    return converter


def _is_mapping(cls: Any) -> bool:
    return (get_origin(cls) or cls) in (dict, Mapping)


def _is_literal(cls: Any) -> bool:
    return get_origin(cls) is Literal


def _is_sequence(cls: Any) -> bool:
    origin = get_origin(cls) or cls
    arguments = get_args(cls)
    fixed = origin is tuple and arguments and arguments[-1] is not Ellipsis
    return origin in _SEQUENCES and not fixed


def _only(kind: Any, name: str, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def check(value: Any, cls: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected {name}, got {_show(value)}")
        return inner(value, cls)

    return check


def _exactly(kind: type[Any], name: str) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {name}, got {_show(value)}")
        return value

    return check


def _number(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {_show(value)}")
    return float(value)


def _path(value: Any, _: Any) -> Path:
    if not isinstance(value, str):
        raise TypeError(f"expected a path, got {_show(value)}")
    return Path(os.path.expanduser(value))


def _literal(cls: Any, _: Converter) -> Callable[[Any, Any], Any]:
    choices = get_args(cls)

    def check(value: Any, _: Any) -> Any:
        if value in choices and any(type(value) is type(choice) for choice in choices):
            return value
        raise ValueError(f"expected one of {', '.join(map(repr, choices))}, got {value!r}")

    return check


def _show(value: Any) -> str:
    """What was found instead.  Text is not quoted: it may be a secret that stands at the wrong key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    kinds: dict[Any, str] = {str: "a string", list: "a list", tuple: "a list", dict: "a table"}
    return kinds.get(type(value), f"a {type(value).__name__}")
