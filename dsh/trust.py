"""Trust in folders: what a project brings that runs code or loosens something, and whether a person said yes to it.

Such things come with whatever was cloned, so they count for nothing until somebody trusts the
folder.  The answer is kept in ``$DSH_HOME/trust.json``, by the folder's real path and by a digest of
all that lies in its settings and its ``.dsh/plugins``: what has changed is asked about anew.  Files are
read once, and what is used later is what was looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from .errors import ConfigError, all_mistakes
from .layers import Layer, label_of, needs_trust, parse_layer, read_bytes

__all__ = ["FILES", "Folder", "PluginFile", "TrustStore", "read_folder"]

FILES = ("config.toml", "config.local.toml", "config.allowed.toml")
"""The files of a project's settings, later ones over earlier ones; the last holds what a person allowed for good."""

PLUGINS = "plugins"
MOST_FILES, MOST_BYTES = 2000, 16 << 20


@frozen
class PluginFile:
    """A plugin of a project: ``.dsh/plugins/NAME.py``, as it was read."""

    name: str
    path: Path
    label: str
    source: bytes = field(repr=False)


@frozen
class Folder:
    """What a project brings.

    Attributes:
        root: the project's directory, with links resolved.
        files: its settings and everything below its plugins' folder, by their paths below ``.dsh``.
        digest: of all these files.
        wants: what counts only with trust, a line each, for people; empty where there is nothing to trust.
        layers: its settings.
        plugins: its plugins.
        broken: why it cannot be trusted; None if it can.
        trusted: whether a person trusts it as it is.
        declined: whether a person said no to it as it is.
    """

    root: Path
    files: Mapping[str, bytes] = field(repr=False)
    digest: str
    wants: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = field(default=(), repr=False)
    plugins: tuple[PluginFile, ...] = ()
    broken: str | None = None
    trusted: bool = False
    declined: bool = False

    def with_trust(self, trusted: bool) -> Folder:
        """The same folder, with somebody's answer."""
        layers = tuple(evolve(layer, trusted=trusted) for layer in self.layers)
        return evolve(self, trusted=trusted, declined=not trusted, layers=layers)

    def with_file(self, name: str, content: bytes) -> Folder:
        """The folder as it will be when the file `name` of its settings has that content; nobody trusts that yet.

        Raises:
            ConfigError: that is no TOML.
        """
        return _made(self.root, self.root, {**self.files, name: content}, self.broken)


def read_folder(root: Path, cwd: Path) -> Folder:
    """Read what the project in `root` brings; nobody's trust is looked up.

    Args:
        cwd: what labels of files are relative to.

    Raises:
        ConfigError: a file of settings cannot be read, or is no TOML.
    """
    files: dict[str, bytes] = {}
    for name in FILES:
        content = read_bytes(root / ".dsh" / name, label_of(root / ".dsh" / name, cwd))
        if content is not None:
            files[name] = content
    broken, size = None, 0
    for place, found in _contents(root / ".dsh" / PLUGINS, PLUGINS):
        if isinstance(found, _Broken):
            broken, found = broken or str(found), b""
        files[place], size = found, size + len(found)
        if len(files) > MOST_FILES or size > MOST_BYTES:
            broken = f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB, which is too much to look at"
            break
    return _made(root, cwd, files, broken)


def _made(root: Path, cwd: Path, files: Mapping[str, bytes], broken: str | None) -> Folder:
    from hashlib import sha256  # most starts have no project's settings to look at

    digest, layers, wants = sha256(), [], []
    mistakes: list[ConfigError] = []
    for name, content in sorted(files.items()):
        for part in (os.fsencode(name), content):
            digest.update(len(part).to_bytes(8, "big") + part)
    for name in FILES:
        if name not in files:
            continue
        label = label_of(root / ".dsh" / name, cwd)
        try:
            layer = parse_layer(files[name], label, trusted=False)
        except ConfigError as error:
            mistakes.append(error)
            continue
        layers.append(layer)
        if keys := needs_trust(layer.data):
            wants.append(f"{label}: {', '.join(keys)}")
    if mistakes:
        raise all_mistakes(mistakes)
    plugins: tuple[PluginFile, ...] = ()
    try:
        plugins = _plugins(root, cwd, files)
    except _Broken as error:
        broken = broken or str(error)
    if broken is not None:
        wants.append(f"{label_of(root / '.dsh' / PLUGINS, cwd)}: {broken}")
    wants += [plugin.label for plugin in plugins]
    real = Path(os.path.realpath(root))
    return Folder(real, files, digest.hexdigest(), tuple(wants), tuple(layers), plugins, broken)


class _Broken(Exception):
    """There is no saying what the plugins are."""


def _plugins(root: Path, cwd: Path, files: Mapping[str, bytes]) -> tuple[PluginFile, ...]:
    found: dict[str, PluginFile] = {}
    for place, content in sorted(files.items()):
        folder, _, file = place.rpartition("/")
        if folder != PLUGINS or not file.endswith(".py") or file.startswith(("_", ".")):
            continue
        name = file.removesuffix(".py").removeprefix("dsh_").replace("-", "_")
        if not name.isidentifier():
            raise _Broken(f"{file} is no name for a plugin: letters, digits and _ make one")
        if name in found:
            raise _Broken(f"{found[name].path.name} and {file} are both a plugin {name}")
        path = root / ".dsh" / place
        found[name] = PluginFile(name, path, label_of(path, cwd), content)
    return tuple(found.values())


def _contents(top: Path, name: str) -> Iterator[tuple[str, bytes | _Broken]]:
    """Every file below `top`, called `name`, with what it holds, or why not; links to folders are not followed."""
    try:
        with os.scandir(top) as scan:
            entries = list(scan)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield name, _Broken(f"cannot be read: {error.strerror or error}")
        return
    for entry in entries:
        path, place = top / entry.name, f"{name}/{entry.name}"
        if entry.name == "__pycache__":
            continue  # what is run is compiled from the source
        if entry.is_dir(follow_symlinks=False):
            yield from _contents(path, place)
        elif entry.is_symlink() and path.is_dir():
            yield place, b"link to " + os.fsencode(os.readlink(path))
        else:
            yield place, _file(path)


def _file(path: Path) -> bytes | _Broken:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(MOST_BYTES + 1)
    except OSError as error:
        return _Broken(f"{path.name} cannot be read: {error.strerror or error}")
    return _Broken(f"{path.name} is no regular file")


class TrustStore:
    """What people said about folders: ``trust.json`` in `home`.

    Its methods raise `ConfigError` where the file cannot be read or written, is damaged, or may be
    written by others.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / "trust.json"

    def judged(self, folder: Folder) -> Folder:
        """The folder with what was said about it as it is now."""
        if not folder.wants or folder.broken:
            return folder
        entry = self.entries().get(str(folder.root))
        if entry is None or entry.get("digest") != folder.digest:
            return folder
        return folder.with_trust(entry.get("trusted") is True)

    def keep(self, folder: Folder, trusted: bool) -> Folder:
        """Note somebody's answer about the folder as it is, and return it with that answer.

        Raises:
            ConfigError: it cannot be trusted, or as said above.
        """
        if trusted and folder.broken:
            raise ConfigError(f"{folder.root} cannot be trusted: .dsh/{PLUGINS}: {folder.broken}")
        self._change(str(folder.root), {"digest": folder.digest, "trusted": trusted})
        return folder.with_trust(trusted)

    def remove(self, root: Path) -> bool:
        """Forget what was said about a folder; whether there was something."""
        return self._change(os.path.realpath(root), None)

    def entries(self) -> dict[str, Mapping[str, object]]:
        """Everything that was said, by the folders' real paths."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        from .jsonvalue import loads

        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_mode & 0o022 or status.st_uid not in (0, os.geteuid()):
                raise ConfigError(f"{self.path}: others may write it, so it proves nothing: chmod 600, or delete it")
            try:
                data = loads(file.read())
            except ValueError:
                data = None
        folders = data.get("folders") if isinstance(data, dict) else None
        if not isinstance(folders, dict) or not all(isinstance(entry, dict) for entry in folders.values()):
            raise ConfigError(f"{self.path}: is damaged; delete it, and trust your folders again")
        return dict(folders)

    def _change(self, root: str, entry: Mapping[str, object] | None) -> bool:
        import fcntl

        from .jsonvalue import dumps

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # held for a moment, by others of the same person
                folders = self.entries()
                known = folders.pop(root, None) is not None
                if entry is not None:
                    folders[root] = entry
                if known or entry is not None:
                    _replace(self.path, dumps({"version": 1, "folders": folders}) + b"\n")
            finally:
                os.close(lock)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        return known


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    os.replace(beside, path)
