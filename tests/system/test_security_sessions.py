"""Sessions of the dev broker that end every second and are renewed for a minute under load (KIP-368)."""

from __future__ import annotations

import asyncio
import functools

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import TestCertificates
from tests.sessions import SESSION_MS, send_over_sessions

from .secured_broker import secured, settings, values

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SECONDS = 60


async def test_sessions_are_renewed_for_a_minute_under_five_in_flight(
    certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(certificates, connections_max_reauth_ms=SESSION_MS) as broker:
        sending = {}
        async with asyncio.TaskGroup() as group:
            for mechanism in MECHANISMS:
                broker.create_topic(mechanism, 1)
                producer = functools.partial(KafkaProducer, **settings(certificates, broker, "SASL_SSL", mechanism))
                sending[mechanism] = group.create_task(send_over_sessions(producer, mechanism, SECONDS))
        for mechanism, sent in sending.items():
            assert values(broker, mechanism) == sent.result()
        # At 95 % of a session's life at the latest.
        renewals = SECONDS * 1000 // SESSION_MS * len(MECHANISMS)
        assert broker.controls.request_count(ApiKey.SASL_HANDSHAKE) > renewals
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
