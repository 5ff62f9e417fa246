"""Write the pages, or only say whether they are current."""

from __future__ import annotations

import argparse
import sys

from tools.reference.pages import pages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description="Write docs/reference.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when out of date")
    check: bool = parser.parse_args().check

    outdated = {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in outdated.items():
        if check:
            print(f"{path.name} is out of date: run `make reference`", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"Wrote {path}")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
