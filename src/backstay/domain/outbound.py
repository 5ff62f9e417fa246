"""Which addresses a request may go to that somebody else wrote down.

Whoever may write a job or a webhook has requests sent from where this process is. Behind that may stand
services that trust whoever reaches them: on this machine, in this network, at the cloud's metadata address.
So nothing but the public Internet is reached, unless it is allowed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from backstay.errors import InvalidSetting

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: What a word stands for. None of them holds the addresses at which clouds tell who a machine is.
WORDS: Final = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
}
_METADATA: Final = frozenset(
    ipaddress.ip_address(one)
    for one in (
        "169.254.169.254",  # Most clouds; the next two are what containers of one of them ask.
        "169.254.170.2",
        "169.254.170.23",
        "169.254.42.42",
        "169.254.0.23",
        "100.100.100.200",
        "168.63.129.16",  # The host below a machine, which has a public address.
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
        "fe80::a9fe:a9fe",
    )
)
# Addresses of IPv6 that lead to one of IPv4, which is written in their last 32 bits.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
# All that is handed out of IPv6.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
# What the registries of special addresses set aside, and what was in use once. Written out, since the tables
# of the library differ from one release of Python to the next, and lack some.
_NEVER_PUBLIC: Final = tuple(
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
# To somebody that is an address of IPv4. Which one, readers disagree: in one piece, octal, hexadecimal, or
# with parts left out.
_ENDS_IN_A_NUMBER: Final = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)")


@dataclass(frozen=True, slots=True)
class Outbound:
    """What may be reached: what is public, and what ``allow`` names beside it.

    ``allow`` holds networks ("10.1.0.0/16"), addresses, and the words "loopback" and "private".
    """

    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.networks()

    def networks(self) -> tuple[Network, ...]:
        return tuple(network for one in self.allow for network in _networks(one))

    def allows(self, address: str) -> bool:
        """Whether a connection may be made to it. ``address`` is numbers, not a name."""
        try:
            given = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        meant = tuple(_meant(given))
        networks = self.networks()
        if any(one in _METADATA for one in meant):
            # Only by itself, never because a network around it is allowed.
            return any(network.num_addresses == 1 and given in network for network in networks)
        return all(_is_public(one) or any(one in network for network in networks) for one in meant)

    def may_name(self, host: str) -> bool:
        """Whether somebody else may be asked to connect to ``host``, who resolves names by himself.

        Of a name nothing is known but that one of them always means this machine.
        """
        name = host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            return self.allows("127.0.0.1")
        if ":" in name or _ENDS_IN_A_NUMBER.fullmatch(name):
            return self.allows(name)
        return True


def read_outbound(text: str, *, name: str) -> Outbound:
    """From a setting: what is allowed, with commas between. Raises InvalidSetting."""
    parts = tuple(one.strip() for one in text.split(",") if one.strip())
    try:
        return Outbound(allow=parts)
    except InvalidSetting as error:
        raise InvalidSetting(f"{name}: {error}") from error


def _networks(text: str) -> Iterable[Network]:
    try:
        return [ipaddress.ip_network(one) for one in WORDS.get(text, (text,))]
    except ValueError as error:
        raise InvalidSetting(
            f"{text!r} is no network ({error}); write one such as 10.1.0.0/16, an address,"
            f" or one of {', '.join(WORDS)}"
        ) from error


def _meant(address: Address) -> Iterable[Address]:
    """The address, and the one of IPv4 that it leads to if it stands for one."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    mapped = address.ipv4_mapped
    if mapped is not None:
        yield mapped
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _TRANSLATED:
        yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return address in _TRANSLATED  # What it leads to is looked at as well.
    return not any(address in one for one in _NEVER_PUBLIC)
