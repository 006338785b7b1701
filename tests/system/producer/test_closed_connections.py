"""A topic whose name has brokers close the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.producers import assert_accounts


class TestATopicThatBrokersCloseTheConnectionOn:
    """As Kafka does on a name of 40,000 characters: our client refuses it, so this broker rejects another name."""

    @pytest.fixture
    async def broker(self) -> AsyncIterator[DevBroker]:
        async with DevBroker() as broker:

            def refuse(context: Any, body: Any) -> Any:
                if not any(topic.name == "bad" for topic in body.topics or ()):
                    return None
                closing = asyncio.get_running_loop().create_future()
                closing.cancel()
                return closing

            broker.controls.on_request(ApiKey.METADATA, refuse)
            yield broker

    async def test_it_fails_alone_and_keeps_no_other_topic_waiting(self, broker: DevBroker) -> None:
        others = [f"t{number}" for number in range(20)]
        for topic in others:
            broker.create_topic(topic)
        async with KafkaProducer(broker.bootstrap_servers, max_block_ms=3_000, reconnect_backoff_ms=10) as producer:
            bad = asyncio.ensure_future(producer.send("bad", b"x"))
            async with asyncio.timeout(2.5):
                await asyncio.gather(*(producer.send(topic, b"x") for topic in others[:10]))
                for topic in others[10:]:
                    await producer.send(topic, b"x")
            assert not bad.done()
            with pytest.raises(errors.MetadataTimeoutError, match="asked for it alone"):
                await bad
            assert_accounts(producer)
