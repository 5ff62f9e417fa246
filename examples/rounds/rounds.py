"""The supervisor's rounds, made by a job: for a server without the role ``supervisor``.

Serve, and then have a round made each minute, at once if you like, and look at the last one:

    BACKSTAY_OUTBOUND_ALLOW=loopback backstay serve --roles api,scheduler,agents,jobs
    python examples/rounds/rounds.py http://127.0.0.1:8080 --now
    curl localhost:8080/v1/supervisor

Jobs reach only public addresses unless they are allowed more; this one calls the server itself. It is written
as for Azure Scheduler, and any client of that would do. Tokens: one with the role operate for
whoever writes the job (BACKSTAY_TOKEN), and another for the job itself, which is sent with every round
(ROUNDS_TOKEN). Whoever may read the job can read that one.
"""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.request
from typing import Any

PLACE = "/subscriptions/shop/resourceGroups/night/providers/Microsoft.Scheduler/jobCollections/care"
VERSION = "api-version=2016-03-01"


def rounds(server: str, token: str | None) -> dict[str, Any]:
    """The job: each minute one round; one that fails is tried again once."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {
        "properties": {
            "action": {
                "type": "Https" if server.startswith("https:") else "Http",
                "request": {"uri": f"{server}/v1/supervisor/run", "method": "POST", "headers": headers},
                "retryPolicy": {"retryType": "Fixed", "retryInterval": "00:00:15", "retryCount": 1},
            },
            "recurrence": {"frequency": "Minute", "interval": 1},
        }
    }


def ask(server: str, method: str, path: str, document: object = None) -> Any:
    """What the server answers; an error of its own ends the program with what it says."""
    request = urllib.request.Request(  # noqa: S310  The address is whoever's who types it.
        f"{server}{path}?{VERSION}",
        method=method,
        data=None if document is None else json.dumps(document).encode(),
        headers={"Content-Type": "application/json"},
    )
    if token := os.environ.get("BACKSTAY_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  As above.
            said = answer.read()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error
    return json.loads(said) if said else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Have a job make the supervisor's rounds.")
    parser.add_argument("server", help="as in http://127.0.0.1:8080")
    parser.add_argument("--now", action="store_true", help="and the first of them now")
    options = parser.parse_args()
    server = options.server.rstrip("/")
    ask(server, "PUT", PLACE, {"location": "westus", "properties": {"sku": {"name": "Standard"}}})
    job = ask(server, "PUT", f"{PLACE}/jobs/rounds", rounds(server, os.environ.get("ROUNDS_TOKEN")))
    print(f"the next round is made at {job['properties']['status']['nextExecutionTime']}")
    if options.now:
        ask(server, "POST", f"{PLACE}/jobs/rounds/run")
        print("and one is made now")


if __name__ == "__main__":
    main()
