"""What there is to manage, and where: some clients ask before they ask for anything else."""

from __future__ import annotations

from typing import Any, Final

from backstay.api.arm.shapes import API_VERSIONS, ProviderQuery, SubscriptionPath
from backstay.api.calls import Call, Nothing
from backstay.domain.jobs.locations import LOCATIONS

_NAMESPACE: Final = "Microsoft.Scheduler"
_TYPES: Final = ("jobcollections", "operations", "operationResults")


async def get_provider(call: Call[SubscriptionPath, ProviderQuery, Nothing]) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{call.path.subscription}/providers/{_NAMESPACE}",
        "namespace": _NAMESPACE,
        "resourceTypes": [
            {"resourceType": name, "locations": LOCATIONS, "apiVersions": API_VERSIONS} for name in _TYPES
        ],
        "registrationState": "Registered",
    }
