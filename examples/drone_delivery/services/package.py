"""Packages: what is carried. One that is put without an id is given one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import Entity, Id, Package, Size, Text, Weight
from drone_delivery.services.records import Cancelled, Kept, cancel, find_live, keep
from drone_delivery.services.resources import (
    Call,
    Operation,
    Resource,
    Service,
    check_same_id,
    is_cancelled,
    not_found,
)
from drone_delivery.wire import json, nothing


class SentPackage(Entity, frozen=True):
    """A package whose id may be left out: the path has it."""

    size: Size
    weight: Weight
    tag: Text
    reference: Text = ""
    id: Id | msgspec.UnsetType = msgspec.UNSET


def put(call: Call[SentPackage]) -> Response:
    sent = call.body
    if sent.id is not msgspec.UNSET:
        check_same_id(call, "id", value=sent.id)
    package = Package(id=call.id, size=sent.size, weight=sent.weight, tag=sent.tag, reference=sent.reference)
    match keep(call.file, call.id, content=package):
        case Kept.REFUSED:
            return is_cancelled("package", call.id)
        case Kept.NEW:
            return json(package, HTTPStatus.CREATED)
        case Kept.REPLACED:
            return nothing()


def get(call: Call[None]) -> Response:
    record = find_live(call.file, call.id)
    return not_found("package", call.id) if record is None else json(record.read(Package))


def delete(call: Call[None]) -> Response:
    met = cancel(call.file, call.id)
    return not_found("package", call.id) if met is Cancelled.NOTHING else nothing()


PACKAGE: Final = Service(
    name="package",
    resources=(
        Resource(
            "/api/packages/{id}",
            {"GET": Operation(get), "PUT": Operation(put, SentPackage), "DELETE": Operation(delete)},
        ),
        Resource("/api/packages", {"PUT": Operation(put, SentPackage)}),
    ),
)
