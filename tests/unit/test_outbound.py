"""Which addresses requests may go to that somebody else wrote down."""

from __future__ import annotations

import pytest

from backstay.domain.outbound import Outbound, read_outbound
from backstay.errors import InvalidSetting

INNER = [
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "192.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
]
METADATA = ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254"]
PUBLIC = ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]


@pytest.mark.parametrize("address", INNER + METADATA)
def test_what_is_not_public_is_refused(address: str):
    assert not Outbound().allows(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_allowed(address: str):
    assert Outbound().allows(address)


@pytest.mark.parametrize(
    "text", ["localhost", "example.org", "", "127.1", "0x7f000001", "2130706433", "017700000001"]
)
def test_what_is_not_an_address_in_full_is_refused(text: str):
    assert not Outbound().allows(text)


@pytest.mark.parametrize(
    "host",
    [
        *INNER,
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0",
        "10.1",
        "4294967296",
        "1.2.3.4.5.6",
    ],
)
def test_nobody_else_is_asked_to_connect_to_what_is_plainly_not_public(host: str):
    assert not Outbound().may_name(host)


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "0x7f.example", "localhost.example", *PUBLIC]
)
def test_names_are_left_to_whoever_resolves_them(host: str):
    assert Outbound().may_name(host)


@pytest.mark.parametrize(
    ("allow", "address"),
    [
        ("loopback", "127.0.0.1"),
        ("loopback", "::1"),
        ("loopback", "::ffff:127.0.0.1"),
        ("private", "10.2.3.4"),
        ("private", "fd12::1"),
        ("10.1.0.0/16", "10.1.2.3"),
        ("10.1.0.0/16, 192.168.0.7", "192.168.0.7"),
        ("10.0.0.0/8", "2002:a00:1::1"),
    ],
)
def test_settings_may_allow_more(allow: str, address: str):
    assert read_outbound(allow, name="outbound_allow").allows(address)


@pytest.mark.parametrize(
    ("allow", "address"), [("private", "127.0.0.1"), ("loopback", "10.0.0.1"), ("10.1.0.0/16", "10.2.0.1")]
)
def test_what_is_allowed_allows_nothing_else(allow: str, address: str):
    assert not read_outbound(allow, name="outbound_allow").allows(address)


@pytest.mark.parametrize("address", METADATA[:4])
def test_where_a_cloud_tells_who_a_machine_is_is_allowed_only_by_itself(address: str):
    around = Outbound(("private", "169.254.0.0/16", "100.64.0.0/10", "168.0.0.0/8", "fd00::/8"))

    assert not around.allows(address)
    assert Outbound((address,)).allows(address)


def test_a_setting_that_is_no_network_is_refused_with_what_to_write():
    with pytest.raises(
        InvalidSetting, match=r"outbound_allow: 'intranet' is no network .*; write one such as"
    ):
        read_outbound("loopback, intranet", name="outbound_allow")
