"""What customers find at ``/api``.

POST   /api/deliveryrequests           202: accepted, and durable
PATCH  /api/deliveryrequests/{id}      200: it will be rescheduled · 404 · 409 too late
DELETE /api/deliveryrequests/{id}      204: it will be cancelled · 404 · 409 too late
GET    /api/deliveries/{id}            200 the delivery · 202 not yet · 410 it was called off, and why · 404
GET    /api/deliveries/{id}/owner      200 · 404
GET    /api/deliveries/{id}/status     200 · 404
GET    /api/deliveries/{id}/events     200: what happened to it, in order · 404
GET    /api/deliveryhistory/{id}       200: the same, a moment later, for good · 404
GET    /api/probe                      200
GET    /health                         200: beside /api, for whoever looks there
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import HttpUnavailable, Unavailable
from drone_delivery.ingestion import delete_request, patch_request, post_request
from drone_delivery.inquiries import get_delivery, get_events, get_history, get_owner, get_status, probe
from drone_delivery.wire import (
    RETRY_AFTER,
    Refused,
    answer_http_error,
    answer_mistake,
    answer_refused,
    problem,
)


class HandedIn(HTTPEndpoint):
    """A request that was handed in."""

    patch = staticmethod(patch_request)
    delete = staticmethod(delete_request)


def _unavailable(_http: Request, _error: Exception) -> Response:
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "try again in a moment", headers=RETRY_AFTER)


_ERRORS = {
    Refused: answer_refused,
    HTTPException: answer_http_error,
    HttpUnavailable: _unavailable,
    Unavailable: _unavailable,
    Exception: answer_mistake,
}

customers = Starlette(
    routes=[
        Route("/deliveryrequests", post_request, methods=["POST"]),
        Route("/deliveryrequests/{delivery_id}", HandedIn),
        Route("/deliveries/{delivery_id}", get_delivery, name="delivery"),
        Route("/deliveries/{delivery_id}/owner", get_owner),
        Route("/deliveries/{delivery_id}/status", get_status),
        Route("/deliveries/{delivery_id}/events", get_events),
        Route("/deliveryhistory/{delivery_id}", get_history),
        Route("/probe", probe),
    ],
    exception_handlers=_ERRORS,
)

health = Starlette(routes=[Route("/", probe)], exception_handlers=_ERRORS)
