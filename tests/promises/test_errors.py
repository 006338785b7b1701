"""Promise 10: errors say topic, partition, size and limit, the cause (last OS error per address), whether it is
retriable, and whether the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.fault_proxy import Answer, Hold, Request
from aiokafkapy.testing.servers.ports import free_port

from .observing import assert_accounts_balance, outcomes
from .proxied_clusters import Cluster

SHORT: dict[str, Any] = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 2_000,
    "linger_ms": 0,
    "retry_backoff_ms": 20,
}


def assert_says(error: BaseException, *words: object, **attributes: object) -> None:
    """The text has every word, the error every attribute; it prints as one line."""
    text = str(error)
    assert "\n" not in text
    for word in words:
        assert re.search(str(word), text), f"{word!r} is not in {text!r}"
    for name, value in attributes.items():
        assert getattr(error, name) == value, f"{name} of {error!r}"


async def test_a_record_over_the_producers_limit_is_refused_at_once_with_size_and_limit(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(max_request_size=5_000, batch_size=4_000) as producer:
        await producer.partitions_for(topic)
        with pytest.raises(errors.RecordTooLargeError) as raised:
            await producer.send(topic, bytes(6_000), partition=0)
        assert_says(raised.value, topic, "60[0-9][0-9]", "5000", "max_request_size", topic=topic, limit=5_000)
        assert raised.value.size is not None
        assert 6_000 < raised.value.size < 6_200
        assert not raised.value.retriable
        assert not raised.value.outcome_unknown
        for call in (producer.send_nowait, producer.enqueue):
            with pytest.raises(errors.RecordTooLargeError):
                await call(topic, bytes(6_000))
        (result,) = await producer.send_many(topic, [bytes(6_000)], return_exceptions=True)
        assert isinstance(result, errors.RecordTooLargeError)
        assert producer.statistics().accepted == 0


async def test_a_record_over_the_topics_limit_says_which_and_how_large(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": "2000"})
    async with cluster.producer() as producer:
        with pytest.raises(errors.RecordTooLargeError) as raised:
            await producer.send(topic, bytes(3_000), partition=0)
    assert_says(raised.value, rf"{topic}-0", "30[0-9][0-9]", "max.message.bytes|2000", topic=topic, partition=0)
    assert raised.value.size is not None
    assert 3_000 < raised.value.size < 3_200
    assert not raised.value.retriable


async def test_no_answer_in_time_is_an_error_with_the_attempts_and_an_unknown_outcome(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**SHORT) as producer:
        await producer.send(topic, b"")
        hold = cluster.net.hold(ApiKey.PRODUCE)
        results = await asyncio.gather(*(producer.send(topic, b"") for _ in range(3)), return_exceptions=True)
        hold.release()
    address = cluster.bootstrap_servers
    for error in results:
        assert isinstance(error, errors.DeliveryTimeoutError)
        assert_says(
            error, rf"{topic}-0", "3 records", "delivery_timeout_ms=2000", "may or may not", address,
            topic=topic, partition=0, outcome_unknown=True, retriable=True,
        )  # fmt: skip
        assert isinstance(error, TimeoutError)


async def test_a_broker_that_cannot_be_reached_is_named_with_the_systems_own_error(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**SHORT, reconnect_backoff_max_ms=100) as producer:
        await producer.send(topic, b"")
        cluster.net.go_down()
        for _ in range(100):
            await asyncio.sleep(0)  # until the lost connection is known
        with pytest.raises(errors.DeliveryTimeoutError) as raised:
            await producer.send(topic, b"")
        await cluster.net.come_back()
    (port,) = cluster.net.ports
    assert_says(
        raised.value, rf"{topic}-0", "1 record ", "not written", f"127.0.0.1:{port}", "(?i)refused",
        topic=topic, outcome_unknown=False,
    )  # fmt: skip


async def test_start_names_every_address_with_its_last_error() -> None:
    """Refused, not resolved, and no broker at all: three addresses, three causes. No cluster is needed."""
    refused = free_port()
    silent = socket.create_server(("127.0.0.1", 0))
    silent_port = silent.getsockname()[1]
    servers = f"127.0.0.1:{refused},no-such-host.invalid:9092,127.0.0.1:{silent_port}"
    producer: KafkaProducer[Any, Any] = KafkaProducer(
        servers,
        max_block_ms=1_500,
        request_timeout_ms=300,
        socket_connection_setup_timeout_ms=300,
        reconnect_backoff_max_ms=100,
    )
    with pytest.raises(errors.MetadataTimeoutError) as raised:
        await producer.start()
    silent.close()
    assert_says(
        raised.value, "max_block_ms=1500", rf"127.0.0.1:{refused}: [^;]*(?i:refused)", r"no-such-host\.invalid:9092: ",
        rf"127.0.0.1:{silent_port}: ", retriable=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (errors.NotEnoughReplicasError, "not written"),
        (errors.CorruptMessageError, "not written"),
        # A broker also sends these after it appended the record, and lost the lead or the disk before its followers had
        # it.
        (errors.NotLeaderOrFollowerError, "may or may not have been written"),
        (errors.KafkaStorageError, "may or may not have been written"),
    ],
)
async def test_the_last_answer_is_the_cause_of_a_delivery_timeout(
    cluster: Cluster, error: type[errors.KafkaError], fate: str
) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer() as first:
        await first.send(topic, b"")  # a broker may be asked twice for its first producer id
    # The back-off is longer than the time left: the time runs out beside no request, so the answer tells the outcome.
    waiting = SHORT | {"retry_backoff_ms": 5_000, "retry_backoff_max_ms": 5_000}
    async with cluster.producer(**waiting) as producer:
        await producer.send(topic, b"")
        cluster.net.fail_produce(error, times=None, error_message="because of the test")
        with pytest.raises(errors.DeliveryTimeoutError, match="because of the test") as raised:
            await producer.send(topic, b"")
        cluster.net.clear(ApiKey.PRODUCE)
    assert isinstance(raised.value.__cause__, error)
    assert_says(raised.value, fate, outcome_unknown=fate != "not written")


async def test_a_broker_s_refusal_is_its_own_error_with_its_message(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=2)
    async with cluster.producer() as producer:
        for error in (errors.TopicAuthorizationFailedError, errors.InvalidRecordError, errors.PolicyViolationError):
            cluster.net.fail_produce(error, error_message="the reason given")
            with pytest.raises(error) as raised:
                await producer.send(topic, b"", partition=1)
            assert_says(
                raised.value, rf"{topic}-1", "the reason given", topic=topic, partition=1, retriable=False,
                outcome_unknown=False, code=error.code,
            )  # fmt: skip


async def test_an_error_from_a_newer_broker_says_its_number(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**SHORT) as producer:
        cluster.net.fail_produce(4_321, times=None)
        with pytest.raises(errors.KafkaError, match="4321") as raised:
            await producer.send(topic, b"")
        cluster.net.clear(ApiKey.PRODUCE)
        assert_says(raised.value, topic, topic=topic, partition=0)


async def test_an_unknown_topic_and_a_partition_out_of_range_are_told_apart(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic(partitions=2)
    async with cluster3.producer(max_block_ms=1_000) as producer:
        with pytest.raises(errors.MetadataTimeoutError) as unknown:
            await producer.send("promise-missing", b"")
        with pytest.raises(errors.MetadataTimeoutError) as beyond:
            await producer.send(topic, b"", partition=7)
        with pytest.raises(ValueError, match="partition -1"):
            await producer.send(topic, b"", partition=-1)
        with pytest.raises(errors.MetadataNotReadyError) as not_ready:
            producer.send_nowait("promise-missing-too", b"")
    assert_says(unknown.value, "promise-missing", "max_block_ms=1000", "does not host")
    assert_says(beyond.value, f"{topic}-7", "2 partitions", "0 to 1", topic=topic, partition=7)
    assert_says(not_ready.value, "promise-missing-too", "enqueue|partitions_for", topic="promise-missing-too")


async def test_metadata_that_will_not_come_fails_at_once(cluster: Cluster) -> None:
    """An invalid name, and a topic that one may not see: waiting would not help."""

    def unauthorized(request: Request, _: bytes) -> bytes:
        host, port = cluster.net.address_of(1)
        return request.respond(
            brokers=[{"node_id": 1, "host": host, "port": port}],
            topics=[{"name": topic.name, "error_code": 29} for topic in request.body.topics],
            controller_id=1,
        )

    async with cluster.producer(max_block_ms=20_000) as producer:
        async with asyncio.timeout(3):
            with pytest.raises(errors.InvalidTopicError, match="not a valid/name"):
                await producer.send("not a valid/name", b"")
            cluster.net.on_request(ApiKey.METADATA, lambda _: Answer(forward=False, replace=unauthorized))
            with pytest.raises(errors.TopicAuthorizationFailedError) as raised:
                await producer.send("promise-secret", b"")
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.partitions_for("promise-secret")
            cluster.net.clear(ApiKey.METADATA)
    assert_says(raised.value, "promise-secret", topic="promise-secret", retriable=False)


async def test_the_error_of_a_full_buffer_has_its_size_and_its_partitions(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    small = {"buffer_memory": 20_000, "max_request_size": 20_000, "batch_size": 4_000}
    async with cluster.producer(**small) as producer:
        await producer.send(topic, b"")
        cluster.net.stall()
        with pytest.raises(errors.BufferExhaustedError) as raised:
            while True:
                producer.send_nowait(topic, bytes(1_000))
        cluster.net.resume()
    assert_says(raised.value, topic, "buffer_memory", "of 20000 bytes", r"\d+ batches", topic=topic, retriable=True)


async def test_close_and_flush_name_the_records_they_left(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    producer = cluster.producer()
    await producer.start()
    await asyncio.gather(*(producer.send(topic, b"", partition=n) for n in range(3)))
    cluster.net.stall()
    tasks = [asyncio.create_task(producer.send(topic, b"", partition=n % 3)) for n in range(30)]
    waiting = asyncio.create_task(producer.send("promise-nowhere", b""))
    await asyncio.sleep(0)
    with pytest.raises(errors.FlushTimeoutError) as flush:
        await producer.flush(timeout=0.1)
    assert_says(flush.value, "30 records", f"{topic}-1: 10", "1 .*waiting")
    await producer.close(timeout=0.1)
    delivered, failed = outcomes(await asyncio.gather(*tasks, waiting, return_exceptions=True))
    assert delivered == []
    assert_says(failed[0], f"{topic}-0", "10 records", topic=topic, partition=0, outcome_unknown=True)
    assert isinstance(failed[0], errors.CloseTimeoutError)
    assert_says(failed[-1], "promise-nowhere", topic="promise-nowhere", outcome_unknown=False)


async def test_the_error_for_a_wrong_key_value_or_header_names_it_and_its_topic(cluster: Cluster) -> None:
    topic = await cluster.create_topic()

    def refuse(value: Any) -> bytes:
        raise ZeroDivisionError("the serializer's own error")

    async def refuse_later(value: Any) -> bytes:
        raise ZeroDivisionError("the serializer's own error")

    for serializer in (refuse, refuse_later):
        async with cluster.producer(value_serializer=serializer) as producer:
            with pytest.raises(errors.SerializationError) as raised:
                await producer.send(topic, b"")
            assert_says(raised.value, topic, "value", "the serializer's own error", topic=topic)
            assert isinstance(raised.value.__cause__, ZeroDivisionError)
    async with cluster.producer() as producer:
        await producer.partitions_for(topic)
        wrong: list[dict[str, Any]] = [
            {"value": "text"},
            {"value": 7},
            {"value": b"", "key": "text"},
            {"value": b"", "headers": [("name", "text")]},
            {"value": b"", "headers": [(b"name", b"")]},
            {"value": b"", "headers": {"name": 7}},
        ]
        for arguments in wrong:
            (name,) = [name for name in ("headers", "key", "value") if arguments.get(name)]
            with pytest.raises((errors.SerializationError, TypeError)) as refused:
                await producer.send(topic, **arguments)
            assert re.search(f"(?i){name.rstrip('s')}", str(refused.value)), refused.value
        assert (await producer.send(topic, b"good")).offset == 0
        assert producer.statistics().accepted == 1


async def test_the_outcome_is_unknown_exactly_when_it_is(cluster: Cluster) -> None:
    """Refused by the broker: known. Sent, and never answered: unknown. Not sent: known."""
    topic = await cluster.create_topic()
    async with cluster.producer() as first:
        await first.send(topic, b"")  # a broker may be asked twice for its first producer id
    # The back-off is longer than the time left: the time runs out beside no request but the one that is held.
    waiting = SHORT | {"retry_backoff_ms": 5_000, "retry_backoff_max_ms": 5_000}
    async with cluster.producer(**waiting) as producer:
        await producer.send(topic, b"")
        cluster.net.fail_produce(errors.InvalidRecordError)
        (refused,) = await asyncio.gather(producer.send(topic, b""), return_exceptions=True)
        cluster.net.fail_produce(errors.NotEnoughReplicasError, times=None)
        (never_taken,) = await asyncio.gather(producer.send(topic, b""), return_exceptions=True)
        hold = Hold()
        cluster.net.on_request(ApiKey.PRODUCE, lambda _: Answer(hold=hold))
        (unanswered,) = await asyncio.gather(producer.send(topic, b""), return_exceptions=True)
        cluster.net.clear(ApiKey.PRODUCE)
        hold.release()
    assert [getattr(error, "outcome_unknown", None) for error in (refused, never_taken, unanswered)] == [
        False,
        False,
        True,
    ]


def test_the_error_for_contradictory_options_has_the_remedy() -> None:
    for options, words in [
        ({"linger": 5}, "linger_ms"),
        ({"bufer_memory": 5}, "buffer_memory"),
        ({"acks": 2}, "acks"),
        ({"acks": 1, "enable_idempotence": True}, "idempotence"),
        ({"linger_ms": -1}, "linger_ms"),
        ({"delivery_timeout_ms": 10, "request_timeout_ms": 1_000}, "delivery_timeout_ms"),
        ({"compression_type": "brotli"}, "gzip.*zstd|zstd.*gzip"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection"),
    ]:
        with pytest.raises(errors.ConfigurationError, match=rf"(?s){words}"):
            KafkaProducer("127.0.0.1:9092", **options)  # type: ignore[arg-type]


async def test_an_invalid_name_is_an_error_at_once(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(errors.InvalidTopicError):
            await producer.send("no spaces please", b"x")
        with pytest.raises(errors.InvalidTopicError):
            await producer.send("", b"x")


async def test_the_error_for_wrong_data_has_the_remedy(broker: DevBroker) -> None:
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
        assert_accounts_balance(producer)


async def test_send_nowait_says_that_metadata_is_missing(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(errors.MetadataNotReadyError, match="partitions_for"):
            producer.send_nowait("t", b"x")
        await producer.partitions_for("t")
        assert (await producer.send_nowait("t", b"x")).offset == 0
