"""Promise 10, over real sockets: an error has the cause, the place, and the size."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from tests.system.producer.observing import assert_accounts


class TestErrors:
    """Promise 10: the cause, the place, and the size."""

    async def test_an_unknown_topic_is_named_as_the_cause(self) -> None:
        async with (
            DevBroker(auto_create_topics_enable=False) as broker,
            KafkaProducer(broker.bootstrap_servers, max_block_ms=1_000) as producer,
        ):
            with pytest.raises(errors.MetadataTimeoutError) as caught:
                await producer.send("no-such-topic", b"x")
            assert "no-such-topic" in str(caught.value)
            assert "does not host" in str(caught.value)
            with pytest.raises(errors.MetadataTimeoutError):
                await producer.partitions_for("no-such-topic")

    async def test_a_partition_that_a_topic_lacks_is_an_error_that_says_how_many_it_has(self) -> None:
        # A second, so that the topic's metadata are there before it ends.
        async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers, max_block_ms=1_000) as producer:
            broker.create_topic("t", partitions=2)
            with pytest.raises(errors.MetadataTimeoutError, match="2 partitions"):
                await producer.send("t", b"x", partition=7)
            with pytest.raises(ValueError, match="partition -1"):
                await producer.send("t", b"x", partition=-1)

    async def test_an_invalid_name_is_an_error_at_once(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.InvalidTopicError):
                await producer.send("no spaces please", b"x")
            with pytest.raises(errors.InvalidTopicError):
                await producer.send("", b"x")

    async def test_the_error_for_wrong_data_has_the_remedy(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            for _ in range(2):  # with and without metadata
                wrong: Any = "text"
                with pytest.raises(errors.SerializationError, match="value_serializer"):
                    await producer.send("t", wrong)
                with pytest.raises(errors.SerializationError, match="key_serializer"):
                    await producer.send("t", b"x", key=wrong)
                with pytest.raises(errors.SerializationError, match="pairs"):
                    await producer.send("t", b"x", headers=["ab"])  # type: ignore[list-item]
                with pytest.raises(errors.SerializationError, match="header 'a'"):
                    await producer.send("t", b"x", headers=[("a", wrong)])
                await producer.send("t", b"fine")
            assert_accounts(producer)

    async def test_a_record_over_the_limit_says_size_and_limit(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.RecordTooLargeError) as caught:
                await producer.send("t", b"x" * 1_100_000)
            assert caught.value.limit == 1_048_576
            assert caught.value.size is not None
            assert caught.value.size > 1_100_000

    async def test_send_nowait_says_that_metadata_is_missing(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.MetadataNotReadyError, match="partitions_for"):
                producer.send_nowait("t", b"x")
            await producer.partitions_for("t")
            assert (await producer.send_nowait("t", b"x")).offset == 0
