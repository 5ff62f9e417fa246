"""What is at a path."""

from __future__ import annotations

import pytest

from backstay.web.paths import Paths


@pytest.fixture
def paths() -> Paths[str]:
    paths: Paths[str] = Paths()
    for path in (
        "/",
        "/queues",
        "/queues/{queue}",
        "/queues/{queue}/dead/resubmit",
        "/queues/{queue}/dead/{id}/resubmit",
    ):
        paths.add(path, path)
    return paths


@pytest.mark.parametrize(
    ("path", "place", "names"),
    [
        ("/", "/", {}),
        ("/queues", "/queues", {}),
        ("/queues/a%2Fb", "/queues/{queue}", {"queue": "a%2Fb"}),
        ("/queues/queues", "/queues/{queue}", {"queue": "queues"}),
        ("/queues/q/dead/resubmit", "/queues/{queue}/dead/resubmit", {"queue": "q"}),
        ("/queues/q/dead/7/resubmit", "/queues/{queue}/dead/{id}/resubmit", {"queue": "q", "id": "7"}),
        # What is called like a part that is written out is found as well.
        (
            "/queues/q/dead/resubmit/resubmit",
            "/queues/{queue}/dead/{id}/resubmit",
            {"queue": "q", "id": "resubmit"},
        ),
    ],
)
def test_a_path_leads_to_its_place(paths: Paths[str], path: str, place: str, names: dict[str, str]):
    assert paths.find(path) == (place, names)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "queues",
        "/queue",
        "/queues/",
        "//queues",
        "/queues/q/",
        "/queues/q/dead",
        "/queues//dead/resubmit",
        "/a/b/c",
    ],
)
def test_there_is_nothing_at_any_other_path(paths: Paths[str], path: str):
    assert paths.find(path) is None
