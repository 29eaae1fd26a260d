"""Run dsh beside the floors (and any other peer) of the benchmark rig.

    python bench/run.py --rig RIG --root ROOT --scenario s1 s2-noop-200 --peers floor-hooks floor-httpx-fast dsh-lib dsh

RIG is the folder of the rig (its README says what each scenario measures); ROOT holds the peers:
`bench/install.sh ROOT` makes the two that are needed, ``venv-floor`` and ``venv-dsh``.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

rig = Path(os.environ.get("BENCH_RIG", "../shared/bench"))
if "--rig" in sys.argv:
    at = sys.argv.index("--rig")
    rig = Path(sys.argv[at + 1])
    del sys.argv[at : at + 2]
if not (rig / "benchlib.py").exists():
    sys.exit(f"there is no benchmark rig in {rig}: name its folder with --rig")
sys.path.insert(0, str(rig.resolve()))

import dsh_peers  # noqa: E402, F401  # registers the peers

rig_run = importlib.import_module("run")  # the rig's, which stands before this folder on the path

if __name__ == "__main__":
    rig_run.main()
