"""The services by name, and the application that each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from drone_delivery.services.account import ACCOUNT
from drone_delivery.services.delivery import DELIVERY
from drone_delivery.services.disturbance import Disturbance, DisturbanceMiddleware
from drone_delivery.services.drone import DRONE
from drone_delivery.services.file import ServiceFile
from drone_delivery.services.history import HISTORY
from drone_delivery.services.package import PACKAGE
from drone_delivery.services.resources import Now, Service, route_of
from drone_delivery.services.third_party import THIRD_PARTY
from drone_delivery.wire import Refused, answer_http_error, answer_mistake, answer_refused, json

SERVICES: Final[Mapping[str, Service]] = {
    service.name: service for service in (ACCOUNT, PACKAGE, THIRD_PARTY, DRONE, DELIVERY, HISTORY)
}


def build(service: Service, file: ServiceFile, *, now: Now, disturbance: Disturbance) -> Starlette:
    """The whole application of one service, over a file that is open."""

    async def health(_request: Request) -> Response:
        return json({"service": service.name})

    # Around the resources alone: health and the dial itself are never disturbed.
    disturbed = Middleware(DisturbanceMiddleware, disturbance=disturbance)
    application = Starlette(
        routes=[
            Route("/healthz", health, methods=["GET"]),
            *disturbance.routes(),
            *(route_of(resource, file, now=now, around=disturbed) for resource in service.resources),
        ],
        exception_handlers={
            Refused: answer_refused,
            HTTPException: answer_http_error,
            Exception: answer_mistake,
        },
    )
    application.router.redirect_slashes = False
    return application
