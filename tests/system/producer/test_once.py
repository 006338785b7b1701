"""Promise 4, over real sockets: a retry never duplicates, and no gap stays."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import KafkaProducer, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.system.producer.observing import SHORT, numbered, values


class TestOnce:
    """Promise 4: a retry never duplicates; no gap stays; a bump rewrites only the batches it must."""

    async def test_lost_answers_duplicate_nothing(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=2000, retry_backoff_ms=5) as producer:
            await producer.send("t", b"first")
            broker.controls.drop_next(ApiKey.PRODUCE, after=True, times=3)
            await producer.send_many("t", numbered(2000))
            broker.controls.fail_next(ApiKey.PRODUCE, errors.RequestTimedOutError, times=3, after_append=True)
            await producer.send_many("t", numbered(2000))
        assert values(broker, "t") == [b"first", *numbered(2000), *numbered(2000)]

    async def test_duplicate_sequence_is_success_without_an_offset(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.DuplicateSequenceNumberError, after_append=True)
            metadata = await producer.send("t", b"second")
        assert metadata.offset == -1
        assert not metadata.has_offset

    async def test_an_expired_batch_that_was_never_sent_leaves_no_gap(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, **SHORT) as producer:
            await producer.send("t", b"0")
            broker.controls.set_leader("t", 0, None)
            with pytest.raises(errors.DeliveryTimeoutError):
                await producer.send("t", b"refused")  # sent to the old leader: this is how we learn that it is none
            epoch = producer.statistics().producer_epoch
            with pytest.raises(errors.DeliveryTimeoutError, match="no leader"):
                await producer.send("t", b"never sent")
            broker.controls.set_leader("t", 0, 2)
            await producer.send("t", b"2")
            assert producer.statistics().producer_epoch <= epoch + 1
            assert broker.controls.request_count(ApiKey.INIT_PRODUCER_ID) == 1
        assert values(broker, "t") == [b"0", b"2"]

    async def test_an_expired_batch_in_doubt_bumps_the_epoch_and_the_rest_arrives_once(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=2)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=0, **SHORT) as producer:
            await producer.send("t", b"0", partition=0)
            await producer.send("t", b"0", partition=1)
            # Never carried out, and the connection is lost instead of an answer: in doubt for us.
            broker.controls.drop_next(ApiKey.PRODUCE, after=False, times=None)
            with pytest.raises(errors.DeliveryTimeoutError) as caught:
                await producer.send("t", b"in doubt", partition=0)
            assert caught.value.outcome_unknown
            broker.controls.clear()
            for number in range(1, 4):
                await producer.send("t", b"%d" % number, partition=0)
                await producer.send("t", b"%d" % number, partition=1)
            assert producer.statistics().producer_epoch >= 1
        assert values(broker, "t", 0) == [b"0", b"1", b"2", b"3"]
        assert values(broker, "t", 1) == [b"0", b"1", b"2", b"3"]

    @pytest.mark.parametrize("error", [errors.OutOfOrderSequenceNumberError, errors.UnknownProducerIdError])
    async def test_a_lost_producer_state_is_repaired_by_a_new_epoch(
        self, broker: DevBroker, error: type[errors.KafkaError]
    ) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=500, retry_backoff_ms=5) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, error)
            await producer.send_many("t", numbered(500))
        assert values(broker, "t") == [b"first", *numbered(500)]

    async def test_a_batch_too_large_for_the_broker_is_halved_until_it_fits(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1, config={"max.message.bytes": "3000"})
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=20) as producer:
            outcomes = await producer.send_many("t", [value + b"x" * 100 for value in numbered(500)])
            assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(500))
            with pytest.raises(errors.RecordTooLargeError) as caught:
                await producer.send("t", b"x" * 5000)
            assert caught.value.size is not None
            assert caught.value.topic == "t"
            await producer.send("t", b"last")
            assert producer.metrics()["batch-split-total"] > 3
        assert [value[:6] for value in values(broker, "t") if value] == [*numbered(500), b"last"]

    async def test_a_poison_record_fails_alone(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)

        refused: list[int] = []

        def refuse(context: Any, body: Any) -> Any:
            if refused:
                return None  # the rest of the batch comes again at once, and is valid
            refused.append(context.api_version)
            return context.respond(
                responses=[
                    {
                        "name": getattr(body.topic_data[0], "name", None),
                        "topic_id": getattr(body.topic_data[0], "topic_id", None),
                        "partition_responses": [
                            {
                                "index": 0,
                                "error_code": 87,
                                "base_offset": -1,
                                "log_append_time": -1,
                                "record_errors": [{"batch_index": 3, "batch_index_error_message": "poison"}],
                                "error_message": "invalid",
                            }
                        ],
                    }
                ]
            )

        async with KafkaProducer(broker.bootstrap_servers, linger_ms=30) as producer:
            await producer.send("t", b"first")
            broker.controls.on_request(ApiKey.PRODUCE, refuse)
            outcomes = await producer.send_many("t", numbered(6), return_exceptions=True)
            await producer.send("t", b"last")
        assert [isinstance(outcome, RecordMetadata) for outcome in outcomes] == [True, True, True, False, True, True]
        assert isinstance(outcomes[3], errors.InvalidRecordError)
        assert "poison" in str(outcomes[3])
        sixth = numbered(6)
        assert values(broker, "t") == [b"first", *sixth[:3], *sixth[4:], b"last"]
