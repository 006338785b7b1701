"""A dev broker with every protocol and mechanism, and the options of our own client for it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.security.sasl.json_web_tokens import unsecured_token
from aiokafkapy.testing import TestCertificates

__all__ = ["MECHANISMS", "USERS", "secured", "settings", "token", "values"]

USERS = {"alice": "correct horse", "bob=,": "pässword"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@asynccontextmanager
async def secured(certificates: TestCertificates, **options: Any) -> AsyncIterator[DevBroker]:
    server = certificates.server_options()
    del server["security_protocol"]
    listeners = {
        "PLAINTEXT": Listener("PLAINTEXT"),
        "SSL": Listener("SSL", **server),
        "SASL_PLAINTEXT": Listener("SASL_PLAINTEXT"),
        "SASL_SSL": Listener("SASL_SSL", **server),
    }
    chosen: dict[str, Any] = {"sasl_users": USERS, "sasl_enabled_mechanisms": list(MECHANISMS), **options}
    async with DevBroker(listeners=listeners, **chosen) as broker:
        yield broker


def settings(
    certificates: TestCertificates, broker: DevBroker, protocol: str, mechanism: str | None = None, user: str = "alice"
) -> dict[str, Any]:
    """A client's options for a listener."""
    found: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers_of(protocol), "max_block_ms": 20_000}
    if protocol.endswith("SSL"):
        found |= certificates.client_options()
    found["security_protocol"] = protocol
    if mechanism == "OAUTHBEARER":
        found |= {"sasl_mechanism": mechanism, "sasl_oauthbearer_token_provider": token}
    elif mechanism is not None:
        found |= {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": USERS[user]}
    return found


async def token() -> str:
    now = int(time.time())
    return unsecured_token({"sub": "alice", "iat": now, "exp": now + 300})


def values(broker: DevBroker, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]
