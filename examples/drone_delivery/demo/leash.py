"""``python -m drone_delivery.demo.leash MODULE …``: run a module that stops when nobody holds its leash.

The leash is a pipe on standard input. However the holder ends, its end of the pipe is closed; without this
a demo that is killed would leave its processes behind.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    threading.Thread(target=_stop_when_let_go, name="leash", daemon=True).start()
    _, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stop_when_let_go() -> None:
    # Not through sys.stdin: a thread that waits in it holds its lock, and the interpreter cannot end.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
