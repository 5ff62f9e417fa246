"""What a delivery consists of, as it goes over the wire: camelCase, and unknown fields refused."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Self

import msgspec

LATITUDE_MAX: Final = 90.0
LONGITUDE_MAX: Final = 180.0
_COORDINATES: Final = 3
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")

#: Ids go into paths and into the ids of tasks; "." and ".." would lead elsewhere.
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^(?!\.{1,2}\Z)[A-Za-z0-9._:@~-]+\Z")]
Text = Annotated[str, msgspec.Meta(max_length=200)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1_000)]


class Entity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value: once made it does not change."""


class Word(StrEnum):
    """One of a few words; a caller may write it in any letter case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        written = str(value).lower()
        return next((word for word in cls if word.value.lower() == written), None)


class Size(Word):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Confirmation(Word):
    FINGER_PRINT = "FingerPrint"
    PICTURE = "Picture"
    VOICE = "Voice"
    NONE = "None"


class Stage(Word):
    CREATED = "Created"
    RESCHEDULED = "Rescheduled"
    HEADED_TO_PICKUP = "HeadedToPickup"
    HEADED_TO_DROPOFF = "HeadedToDropoff"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class Location(Entity, frozen=True):
    altitude: float
    latitude: Annotated[float, msgspec.Meta(ge=-LATITUDE_MAX, le=LATITUDE_MAX)]
    longitude: Annotated[float, msgspec.Meta(ge=-LONGITUDE_MAX, le=LONGITUDE_MAX)]

    @classmethod
    def parse(cls, written: str) -> Self:
        """``"altitude,latitude,longitude"``, as requests write it. Raises ValueError."""
        parts = written.split(",")
        if len(parts) != _COORDINATES:
            raise ValueError(f"{written!r} is no location; write altitude,latitude,longitude")
        if not all(_NUMBER.fullmatch(part.strip()) for part in parts):
            raise ValueError(f"{written!r} is no location; its parts must be numbers")
        numbers = [float(part) for part in parts]
        altitude, latitude, longitude = numbers
        if abs(latitude) > LATITUDE_MAX or abs(longitude) > LONGITUDE_MAX:
            raise ValueError(f"{written!r} is nowhere on earth; latitude to ±90, longitude to ±180")
        return cls(altitude=altitude, latitude=latitude, longitude=longitude)


class PackageInfo(Entity, frozen=True):
    """The package as the customer describes it; its id is what the customer calls it."""

    package_id: Id
    size: Size
    weight: Weight
    tag: Text


class NewDelivery(Entity, frozen=True):
    """What a customer asks for."""

    owner_id: Id
    pickup_location: Text
    drop_off_location: Text
    pickup_time: Text
    deadline: Text
    expedited: bool
    confirmation_required: Confirmation
    package_info: PackageInfo


class DeliveryRequest(NewDelivery, frozen=True):
    """The same with the id of the delivery, which is ours to give."""

    delivery_id: Id


class Package(Entity, frozen=True, omit_defaults=True):
    """A package in our hands. Two customers may call theirs the same: its id is ours."""

    id: Id
    size: Size
    weight: Weight
    tag: Text
    #: What the customer calls it.
    reference: Text = ""


class Route(Entity, frozen=True):
    """From where to where."""

    pickup: Location
    dropoff: Location


class PackageDetail(Entity, frozen=True):
    id: Id
    size: Size


class DroneDelivery(Entity, frozen=True):
    """What a drone is asked to carry."""

    delivery_id: Id
    pickup: Location
    dropoff: Location
    expedited: bool
    package_detail: PackageDetail


class UserAccount(Entity, frozen=True):
    user_id: Id
    account_id: Id


class Delivery(Entity, frozen=True):
    id: Id
    owner: UserAccount
    pickup: Location
    dropoff: Location
    pickup_time: Text
    deadline: Text
    expedited: bool
    confirmation_required: Confirmation
    drone_id: Id


class NewSchedule(Entity, frozen=True, omit_defaults=True):
    """What is to be different from now on; what is left out stays as it is."""

    pickup: Location | msgspec.UnsetType = msgspec.UNSET
    dropoff: Location | msgspec.UnsetType = msgspec.UNSET
    pickup_time: Text | msgspec.UnsetType = msgspec.UNSET
    deadline: Text | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if not self._given():
            raise ValueError("nothing is to change; send pickup, dropoff, pickupTime or deadline")

    def applied_to(self, delivery: Delivery) -> Delivery:
        return msgspec.structs.replace(delivery, **self._given())

    def _given(self) -> dict[str, Any]:
        return {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not msgspec.UNSET
        }


class TrackingEvent(Entity, frozen=True):
    delivery_id: Id
    stage: Stage
    location: Location
    at: str


class DeliveryEvent(Entity, frozen=True):
    """What happened to a delivery, as the world is told; ``delivery``: as it is from then on."""

    #: Grows with each event of a delivery.
    number: int
    event: TrackingEvent
    delivery: Delivery


class DeliveryHistory(Entity, frozen=True):
    """All that happened to a delivery, in order."""

    id: Id
    delivery: Delivery
    delivery_tracking_events: tuple[TrackingEvent, ...]


class FailedOperation(Entity, frozen=True):
    """A delivery that cannot be made: what was asked for, and which service said what."""

    delivery_request: DeliveryRequest
    service_name: str
    error_message: str


class Notice(Entity, frozen=True):
    """What a customer is told of a delivery."""

    delivery_id: Id
    owner_id: Id
    text: Text


class DeliveryStatus(Entity, frozen=True):
    stage: Stage
    last_known_location: Location
    pickup_eta: str = msgspec.field(name="pickupETA")
    delivery_eta: str = msgspec.field(name="deliveryETA")
