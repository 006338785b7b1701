"""Promise 4: with idempotence (the default) a retry never duplicates; an expired batch leaves no sequence gap; an epoch
bump rewrites only refused batches.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request_header, decode_response
from aiokafkapy.testing.fault_proxy import Answer, Hold, Request
from tests.producers import values

from .observing import assert_accounts_balance, outcomes
from .proxied_clusters import Cluster

QUICK: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 20, "reconnect_backoff_ms": 20}
SHORT: dict[str, Any] = QUICK | {"request_timeout_ms": 1_500, "delivery_timeout_ms": 3_000}


async def test_a_lost_acknowledgement_is_not_written_again(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster.net.drop_next(ApiKey.PRODUCE)
        mark = cluster.net.mark()
        metadata = await producer.send(topic, b"1")
        first, again = cluster.net.batches(since=mark)
        assert first == again, "a retry must be the same bytes"
        await producer.send(topic, b"2")
        assert metadata.offset == 1
    assert await cluster.log(topic) == [b"0", b"1", b"2"]


async def test_the_answers_of_five_in_flight_are_lost_and_nothing_is_written_again(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    values = [b"%03d" % n + bytes(300) for n in range(60)]
    async with cluster.producer(**QUICK, batch_size=1_500, max_request_size=40_000) as producer:
        await producer.send(topic, b"first")
        cluster.net.hold(ApiKey.PRODUCE)
        answered = cluster.net.answers_received
        tasks = [asyncio.create_task(producer.send(topic, value)) for value in values]
        await cluster.net.until(lambda: cluster.net.answers_received >= answered + 5)
        assert await cluster.log(topic) == [b"first", *values[:20]]
        cluster.net.cut()
        cluster.net.clear(ApiKey.PRODUCE)
        results = await asyncio.gather(*tasks)
    assert await cluster.log(topic) == [b"first", *values]
    assert [result.offset for result in results] == list(range(1, 61))


async def test_nothing_overtakes_the_first_batch_of_a_new_producer(cluster: Cluster) -> None:
    """A broker that knows nothing of a producer takes any sequence. Had a later batch been written while the first was
    refused, the first would be out of order until it expires.
    """
    topic = await cluster.create_topic()
    values = [b"%03d" % n + bytes(300) for n in range(60)]
    async with cluster.producer(**QUICK, batch_size=1_500, max_request_size=40_000) as producer:
        cluster.net.fail_produce(errors.NotLeaderOrFollowerError, log_start_offset=-1)
        results = await asyncio.gather(*(producer.send(topic, value) for value in values))
        first, again, *others = cluster.net.batches()
        assert first == again
        assert first.base_sequence == 0
        assert all(batch.base_sequence for batch in others)
        assert producer.statistics().producer_epoch == 0
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == values
    assert [result.offset for result in results] == list(range(60))


async def test_the_first_batch_of_a_partition_goes_alone_and_five_follow(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    values = [b"%03d" % n + bytes(300) for n in range(60)]
    async with cluster.producer(**QUICK, batch_size=1_500, max_request_size=40_000) as producer:
        hold = cluster.net.hold(ApiKey.PRODUCE)
        tasks = [asyncio.create_task(producer.send(topic, value)) for value in values]
        await cluster.net.seen(ApiKey.PRODUCE)
        for _ in range(100):
            await asyncio.sleep(0)
        assert cluster.net.request_count(ApiKey.PRODUCE) == 1
        behind = Hold()
        cluster.net.on_request(ApiKey.PRODUCE, lambda _: None if behind.is_released else Answer(hold=behind))
        hold.release()
        await cluster.net.seen(ApiKey.PRODUCE, 6)
        behind.release()
        await asyncio.gather(*tasks)
    assert await cluster.log(topic) == values


async def test_an_answer_that_comes_after_the_request_timed_out_is_not_written_again(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, request_timeout_ms=300) as producer:
        await producer.send(topic, b"0")
        cluster.net.answer_next(ApiKey.PRODUCE, Answer(hold=Hold()))
        await producer.send(topic, b"1")
        await producer.send(topic, b"2")
    assert await cluster.log(topic) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "error", [errors.NotEnoughReplicasAfterAppendError, errors.RequestTimedOutError, errors.NotLeaderOrFollowerError]
)
async def test_written_and_denied_is_written_once(cluster: Cluster, error: type[errors.KafkaError]) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster.net.fail_produce(error, times=3, after_append=True)
        assert (await producer.send(topic, b"1")).offset == 1
        await producer.send(topic, b"2")
    assert await cluster.log(topic) == [b"0", b"1", b"2"]


async def test_duplicate_sequence_number_is_success(cluster: Cluster) -> None:
    """A broker's answer to a batch older than the five it remembers: it has the batch, and has forgotten its offset."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster.net.fail_produce(errors.DuplicateSequenceNumberError, after_append=True)
        metadata = await producer.send(topic, b"1")
        assert metadata.offset == -1
        assert not metadata.has_offset
        assert (await producer.send(topic, b"2")).offset == 2
        assert producer.statistics().producer_epoch == 0
    assert await cluster.log(topic) == [b"0", b"1", b"2"]


async def test_a_batch_that_expired_unsent_leaves_no_gap(cluster: Cluster) -> None:
    """The batch was never given a sequence: nothing is bumped, and the next batch follows the last one written."""
    topic = await cluster.create_topic(partitions=2)
    async with cluster.producer(**SHORT) as producer:
        await asyncio.gather(*(producer.send(topic, b"before", partition=n) for n in range(2)))
        cluster.net.go_down()
        for _ in range(100):
            await asyncio.sleep(0)  # until we know of it, so that nothing is written to a dead connection
        assert producer.statistics().connected_nodes == ()
        results = await asyncio.gather(
            *(producer.send(topic, b"expires", partition=n % 2) for n in range(20)), return_exceptions=True
        )
        _, failed = outcomes(results)
        assert [type(error) for error in failed] == [errors.DeliveryTimeoutError] * 20
        assert not any(error.outcome_unknown for error in failed)
        await cluster.net.come_back()
        mark = cluster.net.mark()
        await asyncio.gather(*(_until_sent(producer, topic, b"after", n) for n in range(2)))
        assert producer.statistics().producer_epoch == 0
        assert {batch.base_sequence for batch in cluster.net.batches(since=mark)} == {1}
    assert await cluster.values(topic) == {0: [b"before", b"after"], 1: [b"before", b"after"]}


async def _until_sent(producer: Any, topic: str, value: bytes, partition: int) -> None:
    """Send, again when reconnecting took longer than the short delivery time-out of these tests."""
    while True:
        try:
            await producer.send(topic, value, partition=partition)
        except errors.DeliveryTimeoutError as error:
            if error.outcome_unknown:
                raise
        else:
            return


@pytest.mark.parametrize("had_arrived", [False, True])
async def test_a_batch_that_expired_in_doubt_makes_the_epoch_grow_and_harms_nothing_else(
    cluster: Cluster, had_arrived: bool
) -> None:
    topic = await cluster.create_topic(partitions=2)
    async with cluster.producer(**SHORT) as producer:
        await asyncio.gather(*(producer.send(topic, b"before", partition=n) for n in range(2)))
        hold = Hold()
        cluster.net.on_request(
            ApiKey.PRODUCE, lambda _: Answer(forward=had_arrived, hold=hold, replace=lambda *_: b"", cut=True)
        )
        with pytest.raises(errors.DeliveryTimeoutError, match="may or may not") as raised:
            await producer.send(topic, b"in doubt", partition=0)
        assert raised.value.outcome_unknown
        cluster.net.clear(ApiKey.PRODUCE)
        hold.release()
        for n in range(5):
            await _until_sent(producer, topic, b"after %d" % n, 0)
            await _until_sent(producer, topic, b"after %d" % n, 1)
        assert producer.statistics().producer_epoch == 1
        assert_accounts_balance(producer, settled=True)
    after = [b"after %d" % n for n in range(5)]
    expected = [b"before", b"in doubt", *after] if had_arrived else [b"before", *after]
    assert await cluster.values(topic) == {0: expected, 1: [b"before", *after]}


async def test_records_behind_one_in_doubt_are_delivered_once_and_in_order(cluster: Cluster) -> None:
    """The first of five in flight expires; the others, younger, have time left and are renumbered."""
    topic = await cluster.create_topic()
    options = QUICK | {"request_timeout_ms": 1_500, "delivery_timeout_ms": 7_000, "batch_size": 1_000}
    async with cluster.producer(**options, max_request_size=40_000) as producer:
        await producer.send(topic, b"before")
        refusing = Answer(forward=False, replace=lambda request, _: request.produce_error(19))
        holds: list[Hold] = []

        def rule(request: Request) -> Answer:
            (batch,) = request.batches
            if batch.base_sequence == 1:
                holds.append(Hold())
                return Answer(forward=False, replace=lambda *_: b"", hold=holds[-1], cut=True)  # never answered
            return refusing

        cluster.net.on_request(ApiKey.PRODUCE, rule)
        old = asyncio.create_task(producer.send(topic, b"old"))
        await cluster.net.seen(ApiKey.PRODUCE, 2)
        await asyncio.sleep(5)  # the distance in age between the first and the others
        young = [asyncio.create_task(producer.send(topic, b"%03d" % n + bytes(400))) for n in range(20)]
        with pytest.raises(errors.DeliveryTimeoutError):
            await old
        cluster.net.clear(ApiKey.PRODUCE)
        for hold in holds:
            hold.release()
        await asyncio.gather(*young)
    assert await cluster.log(topic) == [b"before", *(b"%03d" % n + bytes(400) for n in range(20))]


async def test_a_bump_does_not_rewrite_another_partitions_batches_in_flight(cluster3: Cluster) -> None:
    """Partition 0 asks for a new epoch while a batch of partition 1, on another node, is on the wire: its retry must be
    the same bytes, or records that may be on the broker already would be written twice.
    """
    topic = await cluster3.create_topic(partitions=3)
    nodes = {partition: await cluster3.leader_of(topic, partition) for partition in range(3)}
    assert nodes[0] != nodes[1]
    async with cluster3.producer(**QUICK, request_timeout_ms=5_000) as producer:
        await asyncio.gather(*(producer.send(topic, b"before", partition=n) for n in range(3)))
        hold = Hold()
        gap = Answer(
            forward=False,
            replace=lambda request, _: request.produce_error(errors.OutOfOrderSequenceNumberError.code),
        )
        failed = 0

        def rule(request: Request) -> Answer | None:
            nonlocal failed
            if request.node_id == nodes[1] and not hold.is_released:
                return Answer(hold=hold, lose=True, cut=True)
            if request.node_id == nodes[0] and not failed:
                failed += 1
                return gap
            return None

        cluster3.net.on_request(ApiKey.PRODUCE, rule)
        mark = cluster3.net.mark()
        held = asyncio.create_task(producer.send(topic, b"held", partition=1))
        await cluster3.net.seen(ApiKey.PRODUCE, since=mark)
        await producer.send(topic, b"bumped", partition=0)
        assert producer.statistics().producer_epoch == 1
        hold.release()
        await held
        await producer.send(topic, b"next", partition=1)
        of_one = [batch for batch in cluster3.net.batches(since=mark) if batch.partition == 1]
    assert of_one[0] == of_one[1]
    assert (of_one[0].producer_epoch, of_one[0].base_sequence) == (0, 1)
    assert (of_one[-1].producer_epoch, of_one[-1].base_sequence) == (1, 0)
    logs = await cluster3.values(topic)
    assert logs == {0: [b"before", b"bumped"], 1: [b"before", b"held", b"next"], 2: [b"before"]}


@pytest.mark.parametrize(
    "error", [errors.OutOfOrderSequenceNumberError, errors.UnknownProducerIdError, errors.InvalidProducerEpochError]
)
async def test_a_broker_that_lost_our_sequences_is_started_with_again(
    cluster: Cluster, error: type[errors.KafkaError]
) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster.net.fail_produce(error, log_start_offset=0)
        results = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(1, 50)), return_exceptions=True)
        if error is errors.InvalidProducerEpochError:  # somebody else may be at work: that batch is given up (KIP-360)
            assert all(isinstance(result, errors.KafkaError) for result in results if isinstance(result, Exception))
            await producer.send(topic, b"after")
            assert (await cluster.log(topic))[-1] == b"after"
            return
        assert not [result for result in results if isinstance(result, BaseException)]
        assert producer.statistics().producer_epoch == 1
    assert await cluster.log(topic) == [b"%d" % n for n in range(50)]


async def test_records_that_the_broker_names_fail_alone(cluster: Cluster) -> None:
    """KIP-467. The others are sent again without them, once."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK | {"linger_ms": 50}) as producer:
        await producer.send(topic, b"before")
        named = [{"batch_index": n, "batch_index_error_message": f"no {n}"} for n in (2, 5)]
        cluster.net.fail_produce(errors.InvalidRecordError, record_errors=named, error_message="some are bad")
        results = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(8)), return_exceptions=True)
        await producer.send(topic, b"after")
        assert_accounts_balance(producer, settled=True)
    assert [n for n, result in enumerate(results) if isinstance(result, errors.InvalidRecordError)] == [2, 5]
    assert "no 5" in str(results[5])
    good = [result.offset for result in results if not isinstance(result, BaseException)]
    assert good == [1, 2, 3, 4, 5, 6]
    assert await cluster.log(topic) == [b"before", b"0", b"1", b"3", b"4", b"6", b"7", b"after"]


async def test_a_batch_that_fails_for_good_leaves_no_gap_for_those_behind_it(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, batch_size=1_000, max_request_size=40_000) as producer:
        await producer.send(topic, b"before")
        cluster.net.fail_produce(errors.InvalidRecordError)
        values = [b"%02d" % n + bytes(300) for n in range(40)]
        results = await asyncio.gather(*(producer.send(topic, value) for value in values), return_exceptions=True)
        failed = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
        assert failed == list(range(len(failed)))
        assert 1 <= len(failed) <= 3, "one batch"
    assert await cluster.log(topic) == [b"before", *values[len(failed) :]]


async def test_a_producer_id_that_does_not_come_at_first_is_waited_for(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    cluster.net.drop_next(ApiKey.INIT_PRODUCER_ID, times=2)
    async with cluster.producer(**QUICK) as producer:
        await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(20)))
    assert await cluster.log(topic) == [b"%d" % n for n in range(20)]


async def test_a_broker_that_is_killed_and_restarted_has_everything_once(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=2)
    values = [b"%d" % n for n in range(4_000)]
    # A node of Apache Kafka takes up to half a minute to start on a busy machine: records must outlive that.
    async with cluster.producer(batch_size=2_000, linger_ms=0, delivery_timeout_ms=120_000) as producer:
        tasks = []
        for n, value in enumerate(values):
            tasks.append(asyncio.create_task(producer.send(topic, value, partition=n % 2)))
            if n % 50 == 0:
                await asyncio.sleep(0)
            if n == 2_000:
                await tasks[100]
                await cluster.crash(1)
        await cluster.restart(1)
        await asyncio.gather(*tasks)
    logs = await cluster.values(topic)
    assert logs == {0: values[::2], 1: values[1::2]}


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
async def test_a_retried_batch_is_the_same_to_the_last_byte(cluster: Cluster, codec: str) -> None:
    """Time goes on and the connection is another one; a broker compares the bytes, and so may a reader of its log."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK | {"linger_ms": 50}, compression_type=codec) as producer:
        await producer.send(topic, b"first")
        cluster.net.drop_next(ApiKey.PRODUCE, times=2)
        mark = cluster.net.mark()
        values = [b"value %d" % n * 20 for n in range(50)]
        headers = [("name", b"value")]
        results = await asyncio.gather(*(producer.send(topic, v, key=v[:7], headers=headers) for v in values))
        assert [result.offset for result in results] == list(range(1, 51))
    sent = [
        bytes(partition.records)
        for request in cluster.net.requests_of(ApiKey.PRODUCE, since=mark)
        for each in request.body.topic_data
        for partition in each.partition_data
    ]
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert await cluster.log(topic) == [b"first", *values]


async def test_a_request_that_arrives_after_all_is_not_written_when_many_have_come_since(cluster: Cluster) -> None:
    """The network kept it while the connection broke, we sent it again, and eight more batches: more than the five that
    a broker remembers of each producer. Answers that no client awaits do not matter; it may not write it.
    """
    topic = await cluster.create_topic()
    kept: list[bytes] = []

    def keep(request: Request) -> Answer:
        kept.append(request.frame)
        cluster.net.clear(ApiKey.PRODUCE)
        return Answer(forward=False, lose=True, cut=True)

    async with cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster.net.on_request(ApiKey.PRODUCE, keep)
        for n in range(1, 10):
            assert (await producer.send(topic, b"%d" % n)).offset == n
        (frame,) = kept
        host, _, port = cluster.direct_servers.partition(",")[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(len(frame).to_bytes(4, "big") + frame)
        async with asyncio.timeout(10):
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await reader.readexactly(size)
        writer.transport.abort()
        header, _ = decode_request_header(frame)
        _, body = decode_response(header.api_key, header.api_version, answer)
        (partition,) = body.responses[0].partition_responses
        assert partition.error_code in (
            errors.OutOfOrderSequenceNumberError.code,
            errors.DuplicateSequenceNumberError.code,
        )
        assert (await producer.send(topic, b"10")).offset == 10
        assert producer.statistics().producer_epoch == 0
    assert await cluster.log(topic) == [b"%d" % n for n in range(11)]


async def test_a_partition_whose_records_were_all_deleted_is_written_on(cluster: Cluster) -> None:
    """Retention took them, and with them, on some brokers, our producer's state: UNKNOWN_PRODUCER_ID or nothing."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        await asyncio.gather(*(producer.send(topic, b"old %d" % n) for n in range(30)))
        foreign = AdminClient({"bootstrap.servers": cluster.direct_servers})
        deleted = foreign.delete_records([TopicPartition(topic, 0, 30)])
        await asyncio.to_thread(next(iter(deleted.values())).result, 20)
        cluster.net.fail_produce(errors.UnknownProducerIdError, log_start_offset=30)
        results = await asyncio.gather(*(producer.send(topic, b"new %d" % n) for n in range(30)))
        assert [result.offset for result in results] == list(range(30, 60))
        assert producer.statistics().producer_epoch == 1
        assert_accounts_balance(producer, settled=True)


async def test_one_poison_record_of_a_thousand_fails_alone(cluster: Cluster) -> None:
    """A compacted topic takes no record without a key: the broker names that one (KIP-467)."""
    topic = await cluster.create_topic(config={"cleanup.policy": "compact"})
    async with cluster.producer(linger_ms=1_500) as producer:
        await producer.enqueue(topic, b"first", key=b"first")
        await producer.flush()
        mark = cluster.net.mark()
        records = [ProducerRecord(topic, b"%d" % n, key=None if n == 617 else b"%d" % n) for n in range(1_000)]
        results = await producer.send_many(topic, records, return_exceptions=True)
        assert len(cluster.net.batches(since=mark)) == 2, "one batch, and once more without it"
        assert_accounts_balance(producer, settled=True)
    (poison,) = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
    assert poison == 617
    assert isinstance(results[617], errors.InvalidRecordError), results[617]
    offsets = [result.offset for result in results if isinstance(result, RecordMetadata)]
    assert offsets == list(range(1, 1_000))


async def test_an_expired_batch_that_was_never_sent_leaves_no_gap(broker: DevBroker) -> None:
    broker.create_topic("t", partitions=1)
    async with KafkaProducer(broker.bootstrap_servers, **SHORT) as producer:
        await producer.send("t", b"0")
        broker.controls.set_leader("t", 0, None)
        with pytest.raises(errors.DeliveryTimeoutError):
            await producer.send("t", b"refused")  # sent to the old leader, whose refusal says that it leads no more
        epoch = producer.statistics().producer_epoch
        with pytest.raises(errors.DeliveryTimeoutError, match="no leader"):
            await producer.send("t", b"never sent")
        broker.controls.set_leader("t", 0, 2)
        await producer.send("t", b"2")
        assert producer.statistics().producer_epoch <= epoch + 1
        assert broker.controls.request_count(ApiKey.INIT_PRODUCER_ID) == 1
    assert values(broker, "t") == [b"0", b"2"]
