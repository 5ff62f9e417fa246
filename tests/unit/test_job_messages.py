"""What the history says of attempts."""

from __future__ import annotations

import pytest

from backstay.domain.jobs.messages import EXCERPT_LENGTH_MAX, http_answered, http_failed, status_name


def test_a_response_is_told_as_the_original_service_told_it():
    message = http_answered("h", 200, [("Date", "today"), ("Server", "s")], "done")

    assert message == (
        "Http Action - Response from host 'h': 'OK' Response Headers: Date: today\r\nServer: s\r\n Body: done"
    )


def test_no_response_is_told_with_the_kind_of_failure():
    message = http_failed("h", "ConnectFailure", "Unable to connect to the remote server")

    assert message == (
        "Http Action - Request to host 'h' failed: ConnectFailure Unable to connect to the remote server"
    )


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (202, "Accepted"),
        (404, "NotFound"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
        (599, "599"),
    ],
)
def test_statuses_have_the_names_of_dot_net(status: int, name: str):
    assert status_name(status) == name


def test_of_a_body_its_beginning_is_kept():
    assert http_answered("h", 200, [], "é" * 5_000).endswith(f"Body: {'é' * EXCERPT_LENGTH_MAX}")


def test_what_no_store_can_keep_is_replaced():
    message = http_answered("h", 200, [("X", "\udc80")], "a\0b")

    assert "\0" not in message
    assert "X: \ufffd" in message
    message.encode()
