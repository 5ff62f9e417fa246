"""Scripts, styles and pictures: read once, and kept by browsers until they are others."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from backstay.web.problems import UNKNOWN_PATH, Refused

_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

#: A file's address names what is in it, so that another content has another address.
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class File(msgspec.Struct, frozen=True):
    """A file as it is served."""

    body: bytes
    kind: str
    digest: str


class Files:
    """Everything below ``static``, by its name."""

    def __init__(self) -> None:
        found = (path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _KINDS)
        self._files = {path.name: _read(path) for path in found}

    def address(self, name: str) -> str:
        return f"/static/{name}?v={self._files[name].digest}"

    def answer(self, name: str) -> Response:
        """Raises Refused."""
        file = self._files.get(name)
        if file is None:
            raise Refused(UNKNOWN_PATH, "there is no such file")
        headers = {"Cache-Control": _FOR_EVER, "Content-Type": file.kind}
        return Response(file.body, status_code=HTTPStatus.OK, headers=headers)


def _read(path: Path) -> File:
    body = path.read_bytes()
    return File(body, _KINDS[path.suffix], hashlib.blake2b(body, digest_size=8).hexdigest())
