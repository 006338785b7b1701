"""The Sender on a virtual clock, with a network that the test answers for."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.common import Node, PartitionInfo, TopicPartition
from aiokafkapy.errors import (
    DisconnectedError,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aiokafkapy.producer.metrics import SenderMetrics
from aiokafkapy.producer.sender.sender import Sender
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.produce_response import ProduceResponse

from ..sender_fakes import NODES, SenderHarness, answer_of, batches_of, response

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class TestRequests:
    def test_all_ready_partitions_of_a_node_go_in_one_request(self) -> None:
        harness = SenderHarness({"t": [1, 1, 2], "u": [1]})
        for partition in range(3):
            harness.append(partition=partition)
        harness.append(topic="u")
        harness.run()
        first, second = sorted(harness.take(), key=lambda request: request.node_id)
        assert [batch.topic_partition for batch in batches_of(first)] == [T0, T1, TopicPartition("u", 0)]
        assert [batch.topic_partition for batch in batches_of(second)] == [TopicPartition("t", 2)]
        assert (first.node_id, second.node_id) == (1, 2)

    def test_each_request_has_one_batch_of_a_partition_and_several_are_in_flight(self) -> None:
        harness = SenderHarness(batch_size=100)
        harness.prime()
        for number in range(5):
            harness.append(b"%d" % number * 60)
        harness.run()
        requests = harness.take()
        assert all(len(batches_of(request)) == 1 for request in requests)
        assert len(requests) == 5
        assert len(harness.sender.in_flight_batches) == 5

    def test_nothing_to_do_means_no_wake_up(self) -> None:
        harness = SenderHarness()
        assert harness.run() == float("inf")
        delivery = harness.append()
        request = harness.send()
        assert harness.run() == pytest.approx(120.0)
        harness.answer(request, base_offset=5)
        assert harness.run() == float("inf")
        assert delivery.result().offset == 5

    def test_a_node_that_is_not_ready_keeps_its_batches(self) -> None:
        harness = SenderHarness({"t": [1, 2]})
        harness.append(partition=0)
        harness.append(partition=1)
        harness.client.not_ready.add(1)
        harness.client.connection_delays[1] = 0.25
        assert harness.run() == pytest.approx(0.25)
        (request,) = harness.take()
        assert request.node_id == 2
        harness.client.not_ready.clear()
        assert harness.send().node_id == 1

    def test_a_partition_without_a_leader_asks_for_metadata(self) -> None:
        harness = SenderHarness({"t": [-1]})
        harness.append()
        harness.run()
        assert harness.take() == []
        assert harness.metadata.need_full_update
        assert harness.metadata.contains_topic("t")
        harness.set_leaders({"t": [2]})
        assert harness.send().node_id == 2

    def test_the_codec_of_one_topic_is_enough_for_a_version_that_has_it(self) -> None:
        harness = SenderHarness(topics={"other": {"compression_type": "zstd"}})
        harness.append()
        assert harness.send().min_version == 7

    def test_the_request_carries_the_configured_values(self) -> None:
        harness = SenderHarness(acks=1, request_timeout_ms=1234, compression_type="zstd")
        harness.append()
        request = harness.send()
        assert request.min_version == 7
        assert request.max_version == 12  # no topic ids are known
        assert request.expects_response
        frame = b"".join(bytes(piece) for piece in request.frame(9, 3, "me"))
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert (1234).to_bytes(4) in frame

    def test_topic_ids_are_used_when_all_are_known_and_answers_found_by_them(self) -> None:
        harness = SenderHarness()
        topic_id = bytes(15) + b"\5"
        topic = TopicMetadata("t", [PartitionInfo("t", 0, 1, 1)], topic_id)
        harness.metadata.cluster = Cluster(NODES, {"t": topic})
        delivery = harness.append()
        request = harness.send()
        assert request.max_version is None
        answer = answer_of(T0, 0, base_offset=9, topic=None, topic_id=topic_id)
        harness.respond(request, ProduceResponse(1, 0, [answer], ()))
        assert delivery.result().offset == 9

    def test_acks_0_completes_without_an_answer(self) -> None:
        harness = SenderHarness(acks=0)
        delivery = harness.append()
        request = harness.send()
        assert not request.expects_response
        harness.respond(request)
        assert delivery.result().offset == -1


class TestAdaptiveLinger:
    def test_a_lone_record_goes_at_once_and_those_behind_it_gather(self) -> None:
        harness = SenderHarness(linger_ms=None)
        harness.append(b"1")
        first = harness.send()
        harness.append(b"2")
        harness.append(b"3")
        assert harness.run() == pytest.approx(0.005)
        assert harness.take() == []
        harness.answer(first)
        (batch,) = batches_of(harness.send())
        assert batch.record_count == 2

    def test_records_gather_for_5_ms_at_most(self) -> None:
        harness = SenderHarness(linger_ms=None)
        harness.prime()
        harness.append(b"1")
        harness.send()
        harness.append(b"2")
        harness.advance(0.004)
        harness.append(b"3")
        assert harness.take() == []
        harness.advance(0.001)
        (request,) = harness.take()
        assert batches_of(request)[0].record_count == 2


class TestAnswers:
    def test_each_partition_has_its_own_outcome(self) -> None:
        harness = SenderHarness()
        fine, refused = harness.append(partition=0), harness.append(partition=1)
        request = harness.send()
        harness.respond(request, response({T0: answer_of(T0, 0, base_offset=3), T1: answer_of(T1, 29)}))
        assert fine.result().offset == 3
        assert type(refused.exception()).__name__ == "TopicAuthorizationFailedError"

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"disconnected": True, "error": DisconnectedError("gone")}, NetworkError),
            ({"disconnected": True, "timed_out": True, "error": DisconnectedError("late")}, RequestTimedOutError),
            ({"error": UnsupportedVersionError("too old"), "was_sent": False}, UnsupportedVersionError),
            ({"error": DisconnectedError("closing"), "was_sent": False}, NetworkError),
            ({"error": KafkaError("what?")}, None),
        ],
    )
    def test_without_an_answer_it_is_known_why(self, fields: dict[str, Any], error: type[KafkaError] | None) -> None:
        harness = SenderHarness(retries=0, enable_idempotence=False)
        delivery = harness.append()
        harness.respond(harness.send(), **fields)
        found = delivery.exception()
        assert isinstance(found, error or KafkaError)
        assert str(fields["error"]) in str(found)
        assert found.outcome_unknown is (fields.get("was_sent", True) and error is not UnsupportedVersionError)

    def test_a_partition_that_the_broker_left_out_is_retried(self) -> None:
        harness = SenderHarness()
        delivery = harness.append()
        harness.respond(harness.send(), ProduceResponse(1, 0, [], ()))
        assert not delivery.done()
        harness.advance(1)
        (request,) = harness.take()
        harness.answer(request, base_offset=1)
        assert delivery.result().offset == 1

    def test_leader_hints_take_effect_at_once(self) -> None:
        harness = SenderHarness({"t": [1, 1]}, retry_backoff_ms=1000)
        delivery = harness.append()
        request = harness.send()
        answer = answer_of(T0, 6, current_leader=(2, 5))
        harness.respond(request, ProduceResponse(1, 0, [answer], (Node(2, "two", 9092),)))
        harness.run()
        (retry,) = harness.take()
        assert retry.node_id == 2
        harness.answer(retry, base_offset=8)
        assert delivery.result().offset == 8

    def test_a_leader_hint_of_a_topic_that_was_made_anew_does_not_count(self) -> None:
        harness = SenderHarness()
        old, new = (TopicMetadata("t", [PartitionInfo("t", 0, 1, 1)], bytes(15) + number) for number in (b"5", b"6"))
        harness.metadata.cluster = Cluster(NODES, {"t": old})
        harness.append()
        request = harness.send()
        harness.metadata.cluster = Cluster(NODES, {"t": new})
        answer = answer_of(T0, 6, current_leader=(2, 5))
        harness.respond(request, ProduceResponse(1, 0, [answer], (Node(2, "two", 9092),)))
        found = harness.metadata.cluster.partition(T0)
        assert found is not None
        assert found.leader == 1

    def test_metrics_are_kept(self) -> None:
        harness = SenderHarness()
        harness.append(b"x" * 50)
        harness.answer(harness.send())
        found = harness.metrics.snapshot(harness.now)
        assert found["produce-request-total"] == 1
        assert found["record-send-total"] == 1
        assert found["batch-size-avg"] > 50
        assert found["compression-rate-avg"] == 1


class TestOneInFlight:
    def test_a_partition_is_muted_until_its_batch_is_answered(self) -> None:
        harness = SenderHarness(max_in_flight_requests_per_connection=1, enable_idempotence=False, batch_size=100)
        for number in range(3):
            harness.append(b"%d" % number * 60)
        first = harness.send()
        assert harness.run() > 0
        assert harness.take() == []
        harness.answer(first, 19)
        harness.advance(1)
        (retry,) = harness.take()
        assert batches_of(retry) == batches_of(first)
        harness.answer(retry)
        assert batches_of(harness.send()) != batches_of(first)


class TestAdaptiveInFlight:
    """The Sender with ``max_in_flight_requests_per_connection="auto"``; ``test_pipelining`` has the decision."""

    @staticmethod
    def harness() -> SenderHarness:
        harness = SenderHarness(max_in_flight_requests_per_connection="auto", batch_size=100)
        for number in range(12):
            harness.append(b"%d" % (number % 10) * 60)
        return harness

    def test_a_node_has_one_until_it_was_measured_and_no_more_than_it_may(self) -> None:
        harness = self.harness()
        harness.run()
        (first,) = harness.take()
        assert harness.sender.in_flight_limits() == {}
        assert harness.run() > 0, "it waits for the answer, and does not spin"
        harness.answer(first, latency=0.1)
        harness.run()
        assert len(harness.take()) == 2
        assert harness.sender.in_flight_limits() == {1: 2}

    def test_a_throttled_answer_halves_it_and_a_lost_one_has_it_measured_again(self) -> None:
        harness = self.harness()
        harness.answer(harness.send(), latency=0.1)
        harness.run()
        second, third = harness.take()
        harness.respond(second, ProduceResponse(1, 50, [answer_of(T0)], ()), latency=0.1)
        assert harness.sender.in_flight_limits() == {1: 1}
        harness.respond(third, None, disconnected=True, error=DisconnectedError("gone"))
        harness.advance(1)
        assert len(harness.take()) == 1

    def test_a_fixed_number_has_no_limits_of_nodes(self) -> None:
        assert SenderHarness().sender.in_flight_limits() == {}


class TestTask:
    """The task around it, on a real loop."""

    def sender(self, crashes: list[BaseException]) -> tuple[SenderHarness, Sender]:
        harness = SenderHarness()
        loop = asyncio.get_running_loop()
        sender = Sender(
            harness.config, harness.client, harness.metadata, harness.accumulator, harness.manager,
            SenderMetrics(loop.time()), loop=loop, on_crash=crashes.append,
        )  # fmt: skip
        return harness, sender

    async def test_it_sleeps_until_it_is_woken_and_ends_when_stopped(self) -> None:
        crashes: list[BaseException] = []
        _, sender = self.sender(crashes)
        runs: list[float] = []

        def run_once(now: float) -> float:
            runs.append(now)
            return float("inf")

        sender.run_once = run_once  # type: ignore[method-assign]
        task = asyncio.create_task(sender.run())
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(runs) == 1
        sender.wakeup()
        sender.wakeup()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(runs) == 2
        sender.stop()
        await task
        assert crashes == []

    async def test_the_clock_wakes_it_too(self) -> None:
        _, sender = self.sender([])
        runs: list[float] = []

        def run_once(now: float) -> float:
            runs.append(now)
            if len(runs) == 3:
                sender.stop()
            return 0.001

        sender.run_once = run_once  # type: ignore[method-assign]
        await asyncio.wait_for(sender.run(), 5)
        assert len(runs) == 3

    async def test_a_bug_is_reported_and_raised(self) -> None:
        crashes: list[BaseException] = []
        _, sender = self.sender(crashes)
        sender.run_once = lambda now: 1 / 0  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            await sender.run()
        assert isinstance(crashes[0], ZeroDivisionError)

    @pytest.mark.parametrize("bug", [ZeroDivisionError(), StopIteration()])
    async def test_a_bug_in_a_later_pass_ends_the_task_and_all_passes(self, bug: Exception) -> None:
        crashes: list[BaseException] = []
        _, sender = self.sender(crashes)
        runs: list[float] = []

        def run_once(now: float) -> float:
            runs.append(now)
            if len(runs) == 2:
                raise bug
            return float("inf")

        sender.run_once = run_once  # type: ignore[method-assign]
        task = asyncio.create_task(sender.run())
        await asyncio.sleep(0)
        sender.wakeup()
        await asyncio.wait([task], timeout=5)
        sender.wakeup()
        for _ in range(5):
            await asyncio.sleep(0)
        assert task.done()
        assert crashes == [bug]
        assert len(runs) == 2

    async def test_a_wake_up_is_answered_in_the_next_turn_and_not_in_its_caller_s_context(self) -> None:
        _, sender = self.sender([])
        whose: ContextVar[str] = ContextVar("whose", default="nobody's")
        seen: list[str] = []

        def run_once(now: float) -> float:
            seen.append(whose.get())
            return float("inf")

        sender.run_once = run_once  # type: ignore[method-assign]
        task = asyncio.create_task(sender.run())
        await asyncio.sleep(0)
        whose.set("a caller's")
        sender.wakeup()
        await asyncio.sleep(0)
        assert seen == ["nobody's", "nobody's"]
        sender.stop()
        await task

    async def test_nothing_runs_once_it_was_stopped(self) -> None:
        _, sender = self.sender([])
        runs: list[float] = []

        def run_once(now: float) -> float:
            runs.append(now)
            return 0.0  # there is always more to do

        sender.run_once = run_once  # type: ignore[method-assign]
        task = asyncio.create_task(sender.run())
        for _ in range(5):
            await asyncio.sleep(0)
        so_far = len(runs)
        sender.stop()
        await task
        sender.wakeup()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(runs) == so_far > 1

    async def test_being_cancelled_is_reported(self) -> None:
        crashes: list[BaseException] = []
        _, sender = self.sender(crashes)
        task = asyncio.create_task(sender.run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(crashes[0], asyncio.CancelledError)

    async def test_large_batches_are_compressed_in_a_thread_and_sent_then(self) -> None:
        harness = SenderHarness(compression_type="gzip", batch_size=200_000)
        loop = asyncio.get_running_loop()
        sender = Sender(
            harness.config, harness.client, harness.metadata, harness.accumulator, harness.manager,
            SenderMetrics(loop.time()), loop=loop, on_crash=lambda cause: None,
        )  # fmt: skip
        harness.accumulator.wakeup = sender.wakeup
        now = loop.time()
        harness.accumulator.appender.append("t", 0, 1, None, b"x" * 100_000, None, now, harness.metadata.cluster)
        task = asyncio.create_task(sender.run())
        sent = asyncio.Event()
        send = harness.client.post

        def post(request: ClientRequest, now: float) -> None:
            send(request, now)
            sent.set()

        harness.client.post = post  # type: ignore[method-assign]
        await asyncio.wait_for(sent.wait(), 10)
        (request,) = harness.take()
        assert request.api_key == ApiKey.PRODUCE
        assert batches_of(request)[0].size < 1000
        sender.stop()
        await task
