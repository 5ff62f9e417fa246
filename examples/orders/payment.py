"""The payment provider: a service of somebody else, small enough to run beside the example.

    PUT    /payments/{id}    charge: 201, or 204 when it was charged already;
                             409 when that was another amount, and once it was refunded
    GET    /payments/{id}    200, or 404 when nothing was charged
    GET    /payments         the newest
    DELETE /payments/{id}    refund: 200, or 404 when nothing was charged; no PUT takes effect after it
    PUT    /tokens/{token}   {"behaviour": "works"}: how charges to this token go from now on

As with the test cards of real providers, the token decides how a charge goes: see ``orders.ledger``.

    python -m orders.payment --port 8090 --database payments.db
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orders.ledger import Behaviour, Ledger, LedgerUnusable, Payment, State
from orders.order import CardToken, Cents
from orders.wire import answer, body_as, refused

HOST: Final = "127.0.0.1"
PORT: Final = 8090
PORT_MAX: Final = 65_535

#: Longer than any caller waits: to it, this is never.
NEVER_SECONDS: Final = 600.0
SHUTDOWN_SECONDS: Final = 1


class Charge(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    cents: Cents
    card_token: CardToken


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a token behaves from now on."""

    behaviour: Behaviour


class Provider:
    """The handlers."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._changed = asyncio.Condition()

    async def charge(self, request: Request) -> Response:
        payment_id = request.path_params["id"]
        wanted = await body_as(request, Charge)
        called = self._ledger.called(payment_id)
        if called.state is not State.ASKED:
            return Response(status_code=self._charged(payment_id, wanted.cents))
        first = called.calls == 1
        behaviour = await self._unstuck(wanted.card_token)
        if behaviour is Behaviour.DECLINED:
            raise HTTPException(HTTPStatus.PAYMENT_REQUIRED, "the card was declined")
        if behaviour is Behaviour.STUCK or (behaviour is Behaviour.FLAKY and first):
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "come again")
        status = self._charged(payment_id, wanted.cents)
        if behaviour is Behaviour.SLOW and first:
            await asyncio.sleep(NEVER_SECONDS)
        return Response(status_code=status)

    def _charged(self, payment_id: str, cents: int) -> HTTPStatus:
        before = self._ledger.payment(payment_id)
        if before.state is State.REFUNDED:
            raise HTTPException(HTTPStatus.CONFLICT, "this payment was refunded, and stays so")
        if before.state is State.CHARGED and before.cents != cents:
            raise HTTPException(HTTPStatus.CONFLICT, "this payment was charged with another amount")
        self._ledger.charge(payment_id, cents)
        return HTTPStatus.CREATED if before.state is State.ASKED else HTTPStatus.NO_CONTENT

    async def refund(self, request: Request) -> Response:
        before = self._ledger.payment(request.path_params["id"])
        self._ledger.refund(before.id)
        _check_there(before)
        return answer(self._ledger.payment(before.id))

    async def show(self, request: Request) -> Response:
        payment = self._ledger.payment(request.path_params["id"])
        _check_there(payment)
        return answer(payment)

    async def newest(self, _request: Request) -> Response:
        return answer(self._ledger.newest())

    async def change(self, request: Request) -> Response:
        change = await body_as(request, Change)
        self._ledger.change(request.path_params["token"], change.behaviour)
        async with self._changed:
            self._changed.notify_all()
        return answer(change)

    async def _unstuck(self, token: str) -> Behaviour:
        """How the token behaves once it is not stuck any more; nobody is kept waiting for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NEVER_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._ledger.behaviour(token) is not Behaviour.STUCK)
        behaviour = self._ledger.behaviour(token)
        if behaviour is None:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "there is no such cardToken")
        return behaviour


def _check_there(payment: Payment) -> None:
    if payment.state is State.ASKED:
        raise HTTPException(HTTPStatus.NOT_FOUND, "nothing was charged under this id")


def web_application(ledger: Ledger) -> Starlette:
    provider = Provider(ledger)
    return Starlette(
        routes=[
            Route("/payments", provider.newest, methods=["GET"]),
            Route("/payments/{id}", provider.charge, methods=["PUT"]),
            Route("/payments/{id}", provider.show, methods=["GET"]),
            Route("/payments/{id}", provider.refund, methods=["DELETE"]),
            Route("/tokens/{token}", provider.change, methods=["PUT"]),
        ],
        exception_handlers={HTTPException: refused},
    )


# The process


class PortUnusable(Exception):
    """Nobody can listen there; says what to do."""


def main() -> int:
    """0 after Ctrl-C, 1 when the provider cannot start; argparse ends with 2."""
    options = _read_options()
    try:
        # The port first: whoever starts the provider twice is told so before the second one touches the file.
        with _listening(options.port) as listening:
            _run(Ledger(options.database), listening)
    except (PortUnusable, LedgerUnusable) as error:
        print(f"payment provider: {error}", file=sys.stderr)
        return 1
    return 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m orders.payment", description="The payment provider.")
    parser.add_argument("--port", type=_port, default=PORT, help="0 takes any that is free (default: 8090)")
    parser.add_argument("--database", default="payments.db", help="its SQLite file (default: payments.db)")
    return parser.parse_args()


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a whole number from 0 to {PORT_MAX}")
    return int(text)


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen()
        except OSError as error:
            where = f"{HOST}:{port}"
            raise PortUnusable(f"cannot listen on {where}: {error.strerror}; give another --port") from error
        yield listening


def _run(ledger: Ledger, listening: socket.socket) -> None:
    address = f"http://{HOST}:{listening.getsockname()[1]}"
    print(f"payments are taken on {address}; Ctrl-C stops it", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        web_application(ledger), log_level="warning", timeout_graceful_shutdown=SHUTDOWN_SECONDS
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has stopped.
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    sys.exit(main())
