"""What ``dsh doctor`` says of the embedded model; nothing is started or joined to find out."""

from __future__ import annotations

import shutil

from dsh.checks import Checks, may_write

from .model import LocalModel
from .weights import INSTALL

__all__ = ["check"]

ORDER = 82


def check(model: LocalModel, checks: Checks) -> None:
    """Say where the model would come from."""
    config, weights, folder = model.config, model.weights, model.folder
    if config.server_url:
        checks.ok("local", f"the server at {config.server_url} is asked", order=ORDER)
    elif model.lack is not None:
        checks.note("local", f"the embedded model is not installed ({model.lack} is missing)", INSTALL, order=ORDER)
    elif (path := config.model_path()) is not None:
        if path.is_file():
            checks.ok("local", f"{path} is served", order=ORDER)
        else:
            checks.error("local", f"{path} is not there", "mend `model` in [local]", order=ORDER)
    elif weights.ready(folder):
        checks.ok("local", f"{weights.name} is ready in {folder}", order=ORDER)
    elif not may_write(folder):
        advice = "mend the folder's rights: the model's file is joined there"
        checks.error("local", f"{folder} cannot be written", advice, order=ORDER)
    elif (room := shutil.disk_usage(_there(model)).free) < weights.size:
        text = f"{weights.name} takes {weights.size >> 20} MiB in {folder}, where {room >> 20} MiB are free"
        checks.warning("local", text, "make room, or set DSH_HOME to a larger disk", order=ORDER)
    else:
        checks.ok("local", f"{weights.name} is installed; its first start joins it in {folder}", order=ORDER)


def _there(model: LocalModel) -> str:
    return str(next(each for each in (model.folder, *model.folder.parents) if each.is_dir()))
