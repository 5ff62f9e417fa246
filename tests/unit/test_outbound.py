"""Which addresses requests may go to that somebody else wrote down."""

from __future__ import annotations

import pytest

from backstay.domain.outbound import Outbound, read_outbound
from backstay.errors import InvalidSetting

# Of every network the first address and the last.
INNER = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.0",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "192.88.99.0",
    "192.88.99.255",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    "::",
    "::1",
    "100::1",
    "2001::",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::",
    "5f00::1",
    "fc00::",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    # What leads to an address of IPv4: mapped, compatible, translated, 6to4, Teredo.
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
]
#: At which clouds tell who a machine is; the last ones lead to the first.
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.42.42",
    "169.254.0.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
    "fe80::a9fe:a9fe",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
]
# Beside every network, and far from all of them.
PUBLIC = [
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "3ffe:ffff::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


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
        # To some readers 8.0.0.1, to others 10.0.0.1; and to some no address.
        "010.0.0.1",
        "127.0.0.08",
        "8.8.8.0x8",
        "8.8.8.8.8",
        "\uff11\uff12\uff17.0.0.1",
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
        ("10.0.0.0/8", "64:ff9b::a00:1"),
        ("10.0.0.0/8, 2002::/16", "2002:a00:1::1"),
    ],
)
def test_settings_may_allow_more(allow: str, address: str):
    assert read_outbound(allow, name="outbound_allow").allows(address)


@pytest.mark.parametrize(
    ("allow", "address"),
    [
        ("private", "127.0.0.1"),
        ("loopback", "10.0.0.1"),
        ("10.1.0.0/16", "10.2.0.1"),
        # What leads somewhere is allowed only with where it leads.
        ("2002::/16", "2002:a00:1::1"),
        ("2001::/16", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
    ],
)
def test_what_is_allowed_allows_nothing_else(allow: str, address: str):
    assert not read_outbound(allow, name="outbound_allow").allows(address)


@pytest.mark.parametrize("address", METADATA[:-2])
def test_where_a_cloud_tells_who_a_machine_is_is_allowed_only_by_itself(address: str):
    around = Outbound(("private", "0.0.0.0/0", "::/0"))

    assert not around.allows(address)
    assert not around.allows(f"{address}%eth0")
    assert Outbound((address,)).allows(address)


def test_a_setting_that_is_no_network_is_refused_with_what_to_write():
    with pytest.raises(
        InvalidSetting, match=r"outbound_allow: 'intranet' is no network .*; write one such as"
    ):
        read_outbound("loopback, intranet", name="outbound_allow")
