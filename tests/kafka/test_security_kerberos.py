"""GSSAPI on a real Kafka, with a real KDC of MIT Kerberos."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import SaslAuthenticationFailedError
from aiokafkapy.testing import Acl, ApacheKafka, KafkaSecurity, KerberosSettings, Listener
from aiokafkapy.testing.servers.kdc import Kdc
from tests.clusters import started
from tests.oracle import read_back


async def test_a_client_with_a_ticket_gets_in_and_nobody_else(kdc: Kdc, topic: str) -> None:
    service = KerberosSettings(kdc.configuration, kdc.add_principal("kafka/localhost"), f"kafka/localhost@{kdc.realm}")
    # A session ends with its ticket at the latest; these are renewed by the session lifetime that a broker gives.
    listener = Listener("SASL_PLAINTEXT", ["GSSAPI"], max_reauth_ms=1300)
    security = KafkaSecurity({"KERBEROS": listener}, gssapi=service, authorizer=True)
    values = [b"%d" % number for number in range(1000)]
    with started(ApacheKafka(security=security)) as kafka:
        await kafka.create_topic(topic)
        await kafka.add_acls(Acl("User:alice", "WRITE", topic=topic))

        def producer() -> KafkaProducer:
            options = security.client_options("KERBEROS")
            return KafkaProducer(kafka.bootstrap_servers_of("KERBEROS"), linger_ms=0, **options)

        with kdc.in_environment(kdc.tickets_of("alice", kdc.add_principal("alice"))):
            async with producer() as alice:
                for start in range(0, 1000, 50):  # three sessions
                    await asyncio.gather(*(alice.send(topic, value) for value in values[start : start + 50]))
                    await asyncio.sleep(0.2)
        with kdc.in_environment(kdc.environment):
            stranger = producer()
            with pytest.raises(SaslAuthenticationFailedError):
                await stranger.start()
            await stranger.close()
        (records,) = (await read_back(kafka.bootstrap_servers, topic)).values()
        assert [record.value for record in records] == values
