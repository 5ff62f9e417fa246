"""Where jobs are, as paths say it: ``/jobs/night/health`` for what is where names are short.

A collection elsewhere is named with its subscription and resource group, ``/jobs/S:RG:night``: no name has a
colon in it. Names are short in the subscription and group that the settings name, as on the command line.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from backstay.console.visits import Visit
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.records import CollectionId
from backstay.errors import InvalidJob
from backstay.settings import Settings
from backstay.web.problems import UNKNOWN_PATH, Refused

_BETWEEN: Final = ":"
#: What a name that is not short has before it.
_WHERE: Final = ("SUBSCRIPTION", "GROUP")
_SPELLINGS: Final = ("NAME", _BETWEEN.join((*_WHERE, "NAME")))
#: What is sent as it is: a group may have parentheses in its name.
_PLAIN: Final = ":()"
#: The name of no job, so that what is done to a collection has a path of its own.
APART: Final = "-"


def path_of(visit: Visit, collection: CollectionId, *more: str) -> str:
    """The path of a collection; of a job in it, or whatever comes after."""
    name = _written(collection, visit.house.common.ports.settings)
    return "/".join(["/jobs", *(quote(part, safe=_PLAIN) for part in (name, *more))])


def collection_in(visit: Visit) -> CollectionId:
    """The collection that the page is about. Raises Refused for what cannot be the name of one."""
    settings = visit.house.common.ports.settings
    *where, name = visit.names["collection"].split(_BETWEEN)
    if where and len(where) != len(_WHERE):
        raise Refused(UNKNOWN_PATH, f"a job collection is {' or '.join(_SPELLINGS)}")
    subscription, group = where or (settings.job_subscription, settings.job_resource_group)
    try:
        return check_place(CollectionId(subscription, group, name))
    except InvalidJob as error:
        raise Refused(UNKNOWN_PATH, "no job collection can have this name") from error


def job_in(visit: Visit) -> str:
    """The name of the job that the page is about. Raises Refused for what cannot be one."""
    try:
        return check_name(visit.names["job"], "job")
    except InvalidJob as error:
        raise Refused(UNKNOWN_PATH, "no job can have this name") from error


def _written(collection: CollectionId, settings: Settings) -> str:
    near = CollectionId(settings.job_subscription, settings.job_resource_group, collection.name)
    if near.folded == collection.folded:
        return collection.name
    return _BETWEEN.join((collection.subscription, collection.resource_group, collection.name))
