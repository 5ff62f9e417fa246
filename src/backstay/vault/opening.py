"""Opens the certificate file that comes on standard input, and says nothing of it.

Run by its path, as a process of its own (``trial``); it knows nothing of the rest.
"""

from __future__ import annotations

import base64
import json
import sys


def main() -> None:
    _bound(int(sys.argv[1]))
    pfx, password = json.load(sys.stdin)

    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415  Within the bound.

    pkcs12.load_pkcs12(base64.b64decode(pfx), password.encode())


def _bound(seconds: int) -> None:
    """Past so much computing the system ends this process, and keeps no picture of the key in its memory."""
    if sys.platform == "win32":
        return  # Whoever waits for it has a limit as well.
    import resource  # noqa: PLC0415  Windows has none.

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


if __name__ == "__main__":
    main()
