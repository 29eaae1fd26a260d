"""The server's process: llama.cpp's HTTP server around one model file.

It is started as a file, imports the runtime and the standard library alone, and is told
everything on standard input: one line of JSON, then nothing.  The other end of that pipe is
held by dsh, so its end of file means that dsh is gone, however it went, and the process
follows at once.  On standard output it writes one line, ``{"url": ...}``, when it listens.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, BinaryIO

NO_RUNTIME = 3
"""The exit status when the runtime cannot be imported."""


def _follow(parent: BinaryIO) -> None:
    while parent.read(4096):
        pass
    os._exit(0)


def _parameters(runtime: Any, order: dict[str, Any]) -> Any:
    wanted = runtime.CommonParams()
    wanted.model.path = order["model"]
    wanted.model_alias = {order["alias"]}
    wanted.port = order["port"]
    wanted.api_keys = [order["key"]]
    wanted.n_ctx = order["context"]
    wanted.n_parallel = 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = order["threads"]
    wanted.cache_ram_mib = 256
    wanted.sampling.temp = order["temperature"]
    wanted.ui = False
    wanted.verbosity = 1
    if order["template"]:
        wanted.chat_template = order["template"]
    return wanted


def main() -> None:
    # Whatever native code prints goes to stderr; the answer has a descriptor of its own.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    parent = sys.stdin.buffer
    order = json.loads(parent.readline())
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    try:
        import xllamacpp  # type: ignore[import-not-found,unused-ignore]  # an extra
    except (ImportError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(NO_RUNTIME)
    server = xllamacpp.Server(_parameters(xllamacpp, order))
    print(json.dumps({"url": server.listening_address}), file=answer, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
