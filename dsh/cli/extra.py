"""Plugins that are named by hand: a file, a folder, or a module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ..errors import PluginError
from ..trust import PluginFile

__all__ = ["load_plugin", "load_source"]


def load_plugin(spec: str, base: Path, said: str) -> tuple[str, ModuleType]:
    """Import a plugin, and name it: by the file, or by the module without its ``dsh_``.

    Args:
        spec: the path of a Python file or of a package's folder, or the name of a module.
        base: what a relative path is relative to.
        said: what stands before `spec` in complaints.

    Raises:
        PluginError: there is no such plugin, or importing it failed.
    """
    path = base / Path(spec).expanduser()
    is_path = spec.endswith(".py") or "/" in spec or path.is_dir()
    name = (path.stem if is_path else spec.rpartition(".")[2]).removeprefix("dsh_").replace("-", "_")
    try:
        return name, _file(path, said + spec) if is_path else importlib.import_module(spec)
    except PluginError:
        raise
    except ModuleNotFoundError as error:
        if error.name == spec.partition(".")[0] and not is_path:
            raise PluginError(f"{said}{spec}: there is no such module, and no such file") from None
        raise PluginError(f"{said}{spec}: cannot be imported: {error}") from error
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno}"
        raise PluginError(f"{said}{spec}: cannot be imported: {place}: {error.msg}") from error
    except Exception as error:
        raise PluginError(f"{said}{spec}: cannot be imported: {type(error).__name__}: {error}") from error


def load_source(plugin: PluginFile) -> ModuleType:
    """Import a project's plugin from what was read of it when it was looked at; nothing is written beside it.

    Raises:
        PluginError: importing it failed.
    """
    name = f"_dsh_project_{plugin.name}"
    module = ModuleType(name)
    module.__file__ = str(plugin.path)
    sys.modules[name] = module
    try:
        exec(compile(plugin.source, str(plugin.path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        sys.modules.pop(name, None)
        raise PluginError(f"{plugin.label}: cannot be imported: line {error.lineno}: {error.msg}") from error
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PluginError(f"{plugin.label}: cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _file(path: Path, said: str) -> ModuleType:
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        what = "is a folder without __init__.py" if path.is_dir() else "there is no such file"
        raise PluginError(f"{said}: {what}")
    # a name of its own: a plugin called json.py must not take the place of the real one
    name = f"_dsh_extra_{path.stem}"
    folders = [str(path)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise PluginError(f"{said}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
