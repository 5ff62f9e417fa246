"""What the audit trail and an alert call the thing they tell of: ``task:delivery-17``, ``agent:drone``.

Whoever acts on a thing takes up the alerts that tell of it: both must call it the same.
"""

from __future__ import annotations

from typing import Final

from backstay.domain.control import Subject

#: All secrets of jobs together.
SECRETS_TARGET: Final = "store:secrets"


def task_target(task_id: str) -> str:
    return f"task:{task_id}"


def control_target(subject: Subject, name: str) -> str:
    return f"{subject}:{name}"


def stream_target(name: str) -> str:
    return f"stream:{name}"


def queue_target(name: str) -> str:
    return f"queue:{name}"


def group_target(stream: str, name: str) -> str:
    return f"group:{stream}/{name}"


def collection_target(name: str) -> str:
    return f"collection:{name}"


def job_target(collection: str, name: str) -> str:
    return f"job:{collection}/{name}"
