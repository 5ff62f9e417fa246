"""``python -m bench``: see ``bench.command``."""

from __future__ import annotations

from bench.command import main

if __name__ == "__main__":
    main()
