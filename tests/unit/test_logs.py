"""Which log the setting ``streams`` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstay.errors import InvalidSetting
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.logs import log_of, log_url
from backstay.settings import Settings


@pytest.mark.parametrize(
    ("store", "streams", "url"),
    [
        ("sqlite:///orders.db", "", "sqlite:///orders-streams.db"),
        ("sqlite:////var/lib/orders.db", "", "sqlite:////var/lib/orders-streams.db"),
        ("sqlite:///data/orders", "", "sqlite:///data/orders-streams"),
        ("postgresql://host/db", "", "sqlite:///backstay-streams.db"),
        ("sqlite:///orders.db", "sqlite:///elsewhere.db", "sqlite:///elsewhere.db"),
        ("postgresql://host/db", "sqlite:////var/log.db", "sqlite:////var/log.db"),
    ],
)
def test_streams_are_where_the_setting_says_or_beside_the_store(store: str, streams: str, url: str):
    settings = Settings(store=store, streams=streams)

    assert log_url(settings) == url
    log = log_of(settings)
    assert isinstance(log, EmbeddedLog)
    assert log.path == Path(url.removeprefix("sqlite:///"))


@pytest.mark.parametrize("streams", ["pulsar://me:secret@host", "streams.db", "sqlite://streams.db"])
def test_another_kind_of_address_is_refused_with_what_is_allowed(streams: str):
    with pytest.raises(InvalidSetting, match=r"streams has the scheme '.*'; known: sqlite, a log") as refused:
        log_of(Settings(streams=streams))

    assert "secret" not in str(refused.value)


def test_an_address_without_a_file_is_refused():
    with pytest.raises(InvalidSetting, match=r"streams is 'sqlite:///'; write sqlite:///relative\.db"):
        log_of(Settings(streams="sqlite:///"))


def test_the_streams_are_not_kept_in_the_store(tmp_path: Path):
    settings = Settings(store=f"sqlite:///{tmp_path}/all.db", streams=f"sqlite:///{tmp_path}/x/../all.db")

    with pytest.raises(InvalidSetting, match="which is the store; name another file, or leave it out"):
        log_of(settings)
