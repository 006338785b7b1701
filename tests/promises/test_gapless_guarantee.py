"""The promise of no gap, with ``enable_gapless_guarantee``: no partition is resumed too early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey


class TestGaplessGuarantee:
    async def test_a_partition_is_resumed_when_nothing_older_waits_for_it(self, broker: DevBroker) -> None:
        """A record that waited for room, and one whose serializer takes its time, would come behind the gap."""
        release = asyncio.Event()

        async def slow(value: bytes) -> bytes:
            if value == b"slow":
                await release.wait()
            return value

        options: Any = {"linger_ms": 0, "enable_gapless_guarantee": True, "value_serializer": slow}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"0", partition=0)
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError.code or 0)
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.send("t", b"refused", partition=0)
            with pytest.raises(errors.GaplessGuaranteeError, match="one failed"):
                await producer.send("t", b"behind", partition=0)
            elder = asyncio.create_task(producer.send("t", b"slow", partition=0))
            await asyncio.sleep(0)
            with pytest.raises(errors.IllegalStateError, match="t-0: 1 older records have no outcome yet"):
                producer.resume("t", 0)
            release.set()
            await producer.flush()
            with pytest.raises(errors.GaplessGuaranteeError):
                await elder
            producer.resume("t", 0)
            await producer.send("t", b"1", partition=0)
        assert [record.value for record in broker.records("t", 0)] == [b"0", b"1"]

    async def test_an_invalid_partition_to_resume_is_an_error(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(ValueError, match="partition -1"):
                producer.resume("t", -1)
            producer.resume("nowhere", 2_000_000_000)
        with pytest.raises(errors.ProducerClosedError):
            producer.resume("t", 0)

    @pytest.mark.parametrize("option", [{"acks": 1}, {"enable_idempotence": False}, {"transactional_id": "one"}])
    def test_without_its_requirements_it_is_refused(self, option: Any) -> None:
        with pytest.raises(errors.ConfigurationError, match="enable_gapless_guarantee=True"):
            KafkaProducer("localhost:9092", enable_gapless_guarantee=True, **option)
