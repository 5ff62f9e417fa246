"""Receivers that repeat whatever they are told, and actions for them, each with secrets of its own."""

from __future__ import annotations

import base64
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus
from xml.sax.saxutils import escape

import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support import storage_queue
from tests.support.job_documents import pfx_of
from tests.support.service import HttpService, http_service
from tests.support.service_bus import KEY, KEY_NAME, Bus, service_bus

NONE = {"retryType": "None"}
#: What the authority gives who has the right secret; whoever reads it may act as the job.
TOKEN = f"pl4nted-token-{secrets.token_hex(8)}"

Action = dict[str, Any]


async def repeats(request: web.Request) -> web.Response:
    """Good to whom it likes; to anybody it tells everything that it was told."""
    heard = f"{_understood(request.headers.get('Authorization', ''))} {dict(request.headers)}"
    return web.Response(status=200 if request.path.startswith("/there") else 500, text=f"you said {heard}")


def _understood(authorization: str) -> list[str]:
    """The password or the token itself, and as it would stand in a URL."""
    scheme, _, shown = authorization.partition(" ")
    text = base64.b64decode(shown).decode() if scheme == "Basic" else shown
    return [text, quote(text, safe=""), quote_plus(text.partition(":")[2])]


async def authority_that_repeats(request: web.Request) -> web.Response:
    if request.path.startswith("/there/"):
        return web.json_response({"access_token": TOKEN, "expires_in": "3600"})
    secret = str((await request.post())["client_secret"])
    return web.json_response({"error": "invalid_client", "error_description": f"not {secret}"}, status=401)


async def storage_that_repeats(request: web.Request) -> web.Response:
    answer = await storage_queue.storage(request)
    if answer.status == 201:
        return answer
    heard = escape(f"{request.query_string} {request.query.get('sig')}")
    body = f"<Error><Code>AuthenticationFailed</Code><Message>not {heard}</Message></Error>"
    return web.Response(status=403, text=body, content_type="application/xml")


@dataclass
class Receivers:
    http: HttpService
    https: HttpService
    tokens: HttpService
    storage: HttpService
    bus: Bus

    @property
    def settings(self) -> dict[str, str]:
        return {
            "outbound_allow": "loopback",
            "job_oauth_authority": self.tokens.url,
            "job_storage_endpoint": f"{self.storage.url}/{{account}}",
            "job_namespaces": f"legacy=amqps://127.0.0.1:{self.bus.port}",
        }


@asynccontextmanager
async def receivers(authority: trustme.CA) -> AsyncIterator[Receivers]:
    served, demanding = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    for context in (served, demanding):
        authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(demanding)
    demanding.verify_mode = ssl.CERT_REQUIRED
    async with (
        http_service(repeats) as http,
        http_service(repeats, tls=demanding) as https,
        http_service(authority_that_repeats) as tokens,
        http_service(storage_that_repeats) as storage,
        service_bus(served, refusal=lambda token: f"not {token}") as bus,
    ):
        yield Receivers(http, https, tokens, storage, bus)


class Planter:
    """Makes actions, and knows every secret that it put into one."""

    def __init__(self, those: Receivers, authority: trustme.CA) -> None:
        self._those = those
        self._authority = authority
        self._planted = {TOKEN}

    def planted(self) -> set[str]:
        """All secrets, and what was signed with them."""
        signed = {parse_qs(token.partition(" ")[2])["sig"][0] for token in self._those.bus.tokens}
        return self._planted | signed

    def action(self, kind: str, *, there: bool, **more: Any) -> Action:
        """One that succeeds, or one that fails."""
        return {**_KINDS[kind](self, there), "retryPolicy": NONE, **more}

    def _secret(self) -> str:
        return self._plant(f"pl4nted/{secrets.token_hex(8)}+&=")

    def _plant(self, secret: str) -> str:
        self._planted.add(secret)
        return secret

    def basic(self, there: bool) -> Action:
        shown = {"type": "Basic", "username": "u", "password": self._secret()}
        return _request(self._those.http, there, shown)

    def certificate(self, there: bool) -> Action:
        made = self._authority.issue_cert("client.example", common_name="nightly")
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        password = self._secret()
        pfx = self._plant(
            pfx_of(key, x509.load_pem_x509_certificate(made.cert_chain_pems[0].bytes()), password)
        )
        # A part of it is too much as well, and so is the key that is in it.
        self._planted |= {pfx[400:440], made.private_key_pem.bytes().decode().splitlines()[1]}
        shown = {"type": "ClientCertificate", "pfx": pfx, "password": password}
        return _request(self._those.https, there, shown)

    def oauth(self, there: bool) -> Action:
        shown = {
            "type": "ActiveDirectoryOAuth",
            "tenant": "there" if there else "none",
            "audience": "https://orders",
            "clientId": "c",
            "secret": self._secret(),
        }
        return _request(self._those.http, there, shown)

    def storage(self, there: bool) -> Action:
        forged = f"sv=2020-02-10&sp=a&sig=pl4nted{secrets.token_hex(8)}"
        token = self._plant(storage_queue.token() if there else forged)
        # Whoever has the signature knows the rest.
        self._planted |= set(parse_qs(token)["sig"])
        said = {
            "storageAccount": storage_queue.ACCOUNT,
            "queueName": storage_queue.QUEUE,
            "sasToken": token,
            "message": "m",
        }
        return {"type": "StorageQueue", "queueMessage": said}

    def bus_queue(self, there: bool) -> Action:
        return {
            "type": "ServiceBusQueue",
            "serviceBusQueueMessage": {"queueName": "orders", **self._message(there)},
        }

    def bus_topic(self, there: bool) -> Action:
        return {
            "type": "ServiceBusTopic",
            "serviceBusTopicMessage": {"topicPath": "news", **self._message(there)},
        }

    def _message(self, there: bool) -> Action:
        key = self._plant(KEY) if there else self._secret()
        shown = {"type": "SharedAccessKey", "sasKeyName": KEY_NAME, "sasKey": key}
        return {"namespace": "legacy", "message": "m", "transportType": "AMQP", "authentication": shown}


def _request(service: HttpService, there: bool, shown: Action) -> Action:
    request = {
        "uri": f"{service.url}/{'there' if there else 'none'}",
        "method": "POST",
        "body": "m",
        "authentication": shown,
    }
    return {"type": service.scheme.title(), "request": request}


_KINDS: dict[str, Callable[[Planter, bool], Action]] = {
    "basic": Planter.basic,
    "certificate": Planter.certificate,
    "oauth": Planter.oauth,
    "storage": Planter.storage,
    "queue": Planter.bus_queue,
    "topic": Planter.bus_topic,
}
KINDS = tuple(_KINDS)
