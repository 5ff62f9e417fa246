"""Which addresses a request may go to that somebody else wrote down.

Whoever may write a job or a webhook has requests sent from where this process is. Behind that may stand
services that trust whoever reaches them: on this machine, in this network, at the cloud's metadata address.
So nothing but the public Internet is reached, unless it is allowed.
"""

from __future__ import annotations

import ipaddress
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
    # Most clouds; Amazon by IPv6; Alibaba; Azure's host, which has a public address.
    for one in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)
# Addresses of IPv6 that lead to one of IPv4, which is written in their last 32 bits.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
# What the library's tables of special addresses lack: translation inside a site, and what was in use once.
_NEVER_PUBLIC: Final = tuple(
    ipaddress.IPv6Network(one) for one in ("::/96", "64:ff9b:1::/48", "fec0::/10", "5f00::/16")
)


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
        written = _written(name)
        return written is None or self.allows(written)


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


def _written(host: str) -> str | None:
    """The address that a host is, in full; None if it is a name.

    What is all numbers is an address of IPv4 to somebody: in one piece, octal, hexadecimal, or with parts
    left out.
    """
    if ":" in host:
        return host
    try:
        *first, last = [_number(part) for part in host.split(".")]
    except ValueError:
        return None
    shifts = (24, 16, 8)
    whole = last + sum(one << shift for one, shift in zip(first, shifts, strict=False))
    return str(ipaddress.IPv4Address(whole)) if len(first) <= len(shifts) and whole < 1 << 32 else host


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text, 16)
    return int(text, 8 if text.startswith("0") else 10)


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
    if address.is_multicast or (address.is_reserved and address not in _TRANSLATED):
        return False
    if address in _TRANSLATED:
        return True  # What it leads to is looked at as well.
    return address.is_global and not any(address in one for one in _NEVER_PUBLIC)
