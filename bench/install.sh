#!/bin/sh
# Install what the benchmark compares:  bench/install.sh ROOT [PYTHON]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
py=${2:-python3}
[ -x "$root/venv-floor/bin/python" ] || {
  "$py" -m venv "$root/venv-floor"
  "$root/venv-floor/bin/pip" install -q trio httpx pluggy orjson msgspec
}
[ -x "$root/venv-dsh/bin/python" ] || "$py" -m venv "$root/venv-dsh"
"$root/venv-dsh/bin/pip" install -q --force-reinstall --no-deps "$here"
"$root/venv-dsh/bin/pip" install -q "$here"
# Compiled bytecode, so that the first start is not measured.
"$root/venv-dsh/bin/python" -m compileall -q "$root/venv-dsh/lib" || true
