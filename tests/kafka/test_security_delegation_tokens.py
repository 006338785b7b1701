"""A delegation token that real Kafka gave (KIP-48): SCRAM with ``tokenauth``, by its id and HMAC."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import SaslAuthenticationFailedError
from aiokafkapy.testing import ApacheKafka, KafkaSecurity
from tests.oracle import read_back

DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


async def _new_token(kafka: ApacheKafka, security: KafkaSecurity, folder: Path) -> tuple[str, str]:
    """Id and HMAC of a token of alice's."""
    properties = folder / "alice.properties"
    allowed = security.client_properties("SASL_SSL", user="alice", mechanism="SCRAM-SHA-256")
    properties.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in allowed.items()))
    servers = kafka.bootstrap_servers_of("SASL_SSL")
    told = await kafka.tool(
        DELEGATION_TOKENS,
        *("--bootstrap-server", servers, "--command-config", properties),
        *("--create", "--max-life-time-period", "-1"),
    )
    found = re.search(r"^(\S{22})\s+(\S+={0,2})\s+User:alice\b", told, re.MULTILINE)
    assert found, told
    return found[1], found[2]


async def _until_known(producer: Callable[[], KafkaProducer]) -> None:
    """Wait for the node to know a token: the controller makes it, and a node reads of it in the metadata log."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(SaslAuthenticationFailedError):
                async with producer():
                    return


async def test_a_producer_gets_in_with_a_delegation_token(
    secure_kafka: ApacheKafka, security: KafkaSecurity, topic: str, tmp_path: Path
) -> None:
    await secure_kafka.create_topic(topic)
    token_id, token_hmac = await _new_token(secure_kafka, security, tmp_path)

    def producer(mechanism: str, hmac: str, more: str = ' tokenauth="true"') -> KafkaProducer:
        options = security.client_options("SASL_SSL")
        return KafkaProducer(
            secure_kafka.bootstrap_servers_of("SASL_SSL"),
            **options
            | {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": mechanism,
                "sasl_jaas_config": f'{SCRAM} required username="{token_id}" password="{hmac}"{more};',
            },
        )

    await _until_known(lambda: producer("SCRAM-SHA-256", token_hmac))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        async with producer(mechanism, token_hmac) as delegate:
            await delegate.send(topic, mechanism.encode())
    (records,) = (await read_back(secure_kafka.bootstrap_servers, topic)).values()
    assert [record.value for record in records] == [b"SCRAM-SHA-256", b"SCRAM-SHA-512"]
    for hmac, more in ((token_hmac[:-4] + "AAA=", ' tokenauth="true"'), (token_hmac, "")):
        with pytest.raises(SaslAuthenticationFailedError, match="invalid credentials"):
            async with producer("SCRAM-SHA-256", hmac, more):
                pass
