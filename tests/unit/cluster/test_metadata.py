from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.common import Node, PartitionInfo, TopicPartition
from aiokafkapy.errors import AuthenticationFailedError, InvalidTopicError, KafkaError
from aiokafkapy.protocol.codec import decode_request
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.metadata_options import METADATA_OPTIONS

from .answers import answer, partition, topic, update

ID = UUID(int=1)


class TestWhen:
    def test_a_bootstrapped_one_is_due_at_once(self, metadata: Metadata, clock: VirtualClock) -> None:
        assert metadata.time_to_next_update(clock.time()) == 0
        assert metadata.cluster.is_bootstrap

    def test_an_update_lasts_for_its_age(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock)
        assert metadata.time_to_next_update(clock.time()) == 300
        clock.advance(299)
        assert metadata.time_to_next_update(clock.time()) == pytest.approx(1)
        clock.advance(2)
        assert metadata.time_to_next_update(clock.time()) == 0

    def test_a_requested_update_waits_for_the_back_off_of_the_last(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        update(metadata, clock)
        metadata.request_update()
        assert 0.08 <= metadata.time_to_next_update(clock.time()) <= 0.12
        clock.advance(0.12)
        assert metadata.time_to_next_update(clock.time()) == 0

    def test_a_failed_update_moves_the_last_refresh_only_and_the_back_off_grows(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        version = metadata.update_version
        for expected in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
            metadata.failed_update(clock.time(), KafkaError("no"))
            assert metadata.last_refresh == clock.time()
            delay = metadata.time_to_next_update(clock.time())
            assert 0.79 * expected <= delay <= min(1.21 * expected, 1.0)
            clock.advance(delay)
        assert metadata.update_version == version
        assert metadata.is_update_requested
        assert metadata.last_successful_refresh < 0

    def test_a_new_topic_does_not_wait_while_the_cluster_answers(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock)
        metadata.add_topics(["t"])
        assert metadata.time_to_next_update(clock.time()) == 0

    def test_a_new_topic_waits_while_the_cluster_does_not_answer(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.failed_update(clock.time())
        metadata.add_topics(["t"])
        assert metadata.time_to_next_update(clock.time()) >= 0.08

    def test_answers_that_bring_nothing_new_slow_the_next_down_after_the_first_five(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        delays = []
        for _ in range(12):
            update(metadata, clock, topic("t", error=3))
            delays.append(metadata.time_to_next_update(clock.time()))
            clock.advance(delays[-1])
        assert all(delay <= 0.12 for delay in delays[:5])
        assert delays[-1] >= 0.8
        metadata.request_update(reset_backoff=True)
        assert metadata.time_to_next_update(clock.time()) <= 0.12

    def test_a_newer_epoch_is_something_new(self, metadata: Metadata, clock: VirtualClock) -> None:
        for epoch in range(12):
            update(metadata, clock, topic("t", partition(epoch=epoch)))
            metadata.request_update()
            assert metadata.time_to_next_update(clock.time()) <= 0.12

    def test_the_sender_of_requests_is_told_of_each_wish(self, metadata: Metadata) -> None:
        told = []
        metadata.on_update_requested = lambda: told.append(1)
        metadata.request_update()
        metadata.request_update_for_new_topics()
        assert len(told) == 2


class TestVersions:
    def test_update_version_grows_with_each_answer(self, metadata: Metadata, clock: VirtualClock) -> None:
        version = metadata.request_update()
        assert version == metadata.update_version
        update(metadata, clock)
        assert metadata.update_version == version + 1

    def test_an_answer_to_an_older_request_does_not_clear_the_wish_for_a_new_topic(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        request = metadata.new_request(clock.time())
        metadata.add_topics(["t"])
        metadata.update(request.request_version, MetadataAnswer(answer()), clock.time(), is_partial=request.is_partial)
        assert metadata.need_partial_update
        assert not metadata.need_full_update
        assert metadata.time_to_next_update(clock.time()) == 0
        update(metadata, clock, topic("t", partition()), partial=True)
        assert not metadata.is_update_requested

    def test_a_partial_answer_does_not_clear_the_wish_for_a_full_one(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        update(metadata, clock)
        metadata.request_update()
        last = metadata.last_successful_refresh
        clock.advance(1)
        update(metadata, clock, partial=True)
        assert metadata.need_full_update
        assert metadata.last_successful_refresh == last


class TestRequests:
    def names(self, request: Any, version: int = 12) -> list[str] | None:
        body = decode_request(request.encode(version, 7, "me")[0][4:])[1]
        return None if body.topics is None else [wanted.name for wanted in body.topics]

    def test_the_first_is_full_and_names_the_wanted_topics(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.add_topics(["b", "a"])
        request = metadata.new_request(clock.time())
        assert not request.is_partial
        assert self.names(request) == ["a", "b"]
        assert self.names(request, 0) == ["a", "b"]

    def test_one_for_new_topics_is_partial_and_names_only_them(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.add_topics(["a"])
        update(metadata, clock, topic("a", partition()))
        metadata.add_topics(["b"])
        request = metadata.new_request(clock.time())
        assert request.is_partial
        assert self.names(request) == ["b"]

    def test_one_due_by_age_is_full(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.add_topics(["a"])
        update(metadata, clock, topic("a", partition()))
        clock.advance(301)
        metadata.add_topics(["b"])
        assert not metadata.new_request(clock.time()).is_partial

    def test_a_subclass_may_ask_for_all_topics(self, clock: VirtualClock) -> None:
        class All(Metadata):
            def topics_to_request(self, *, partial: bool) -> Collection[str] | None:
                return None

        assert self.names(All(**METADATA_OPTIONS).new_request(clock.time())) is None

    def test_auto_creation_is_asked_for_only_when_wanted(self, clock: VirtualClock) -> None:
        wanted = Metadata(**METADATA_OPTIONS, allow_auto_topic_creation=True)
        assert wanted.new_request(0).allow_auto_topic_creation
        assert not Metadata(**METADATA_OPTIONS).new_request(0).allow_auto_topic_creation


class TestAnswers:
    def test_a_full_update_replaces_and_a_partial_one_merges(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("a", partition()), topic("b", partition()))
        update(metadata, clock, topic("c", partition()), partial=True)
        assert set(metadata.cluster.topics) == {"a", "b", "c"}
        update(metadata, clock, topic("c", partition()))
        assert set(metadata.cluster.topics) == {"c"}

    def test_topics_that_are_not_retained_are_left_out(self, clock: VirtualClock) -> None:
        class Picky(Metadata):
            kept = frozenset({"a", "b"})

            def retain_topic(self, topic: str, is_internal: bool, now: float) -> bool:
                return topic in self.kept

        metadata = Picky(**METADATA_OPTIONS)
        update(metadata, clock, topic("a", partition()), topic("b", partition()), topic("x", partition()))
        assert set(metadata.cluster.topics) == {"a", "b"}
        metadata.kept = frozenset({"b", "c"})
        update(metadata, clock, topic("c", partition()), partial=True)
        assert set(metadata.cluster.topics) == {"b", "c"}
        assert set(metadata._leader_epochs.by_topic) == {"b", "c"}

    def test_invalid_and_unauthorized_topics_are_noted(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("a b", error=17), topic("secret", error=29))
        assert metadata.cluster.invalid_topics == {"a b"}
        assert metadata.cluster.unauthorized_topics == {"secret"}
        assert not metadata.is_update_requested
        assert "secret" in metadata.describe_failure("secret")
        update(metadata, clock, topic("secret", partition()), partial=True)
        assert metadata.cluster.unauthorized_topics == frozenset()
        assert metadata.topic_error("secret") is None

    @pytest.mark.parametrize("code", [3, 5, 6, 72, 100])
    def test_errors_of_the_stale_kind_ask_for_a_full_update(
        self, metadata: Metadata, clock: VirtualClock, code: int
    ) -> None:
        update(metadata, clock, topic("t", error=code))
        assert metadata.need_full_update
        error = metadata.topic_error("t")
        assert error is not None
        assert error.retriable

    def test_so_does_a_partition_without_leader_which_is_still_known(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        update(metadata, clock, topic("t", partition(0), partition(1, leader=-1, error=5)))
        assert metadata.need_full_update
        assert metadata.cluster.partition_count("t") == 2
        assert len(metadata.cluster.available_partitions_for_topic("t")) == 1

    def test_an_unknown_error_code_breaks_nothing(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("t", error=9_999), topic("u", partition(error=9_998)))
        assert set(metadata.cluster.topics) == {"u"}
        assert not metadata.is_update_requested

    def test_listeners_are_told_of_updates_failures_and_fatal_errors(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        told: list[int] = []
        listener = lambda: told.append(metadata.update_version)  # noqa: E731
        metadata.add_listener(listener)
        update(metadata, clock)
        metadata.failed_update(clock.time())
        metadata.set_fatal_error(AuthenticationFailedError("no"))
        assert len(told) == 3
        metadata.remove_listener(listener)
        metadata.remove_listener(listener)
        update(metadata, clock)
        assert len(told) == 3
        assert metadata.fatal_error is None, "an update clears it"

    @pytest.mark.parametrize("version", range(14))
    def test_every_version_of_the_message_is_read(self, metadata: Metadata, clock: VirtualClock, version: int) -> None:
        update(metadata, clock, topic("t", partition(0, epoch=3), topic_id=ID), version=version)
        (found,) = metadata.cluster.partitions_for_topic("t")
        assert found.leader == 1
        assert found.leader_epoch == (3 if version >= 9 else -1)
        assert metadata.cluster.topic_id("t") == (ID.bytes if version >= 10 else None)
        assert metadata.cluster.cluster_id == ("c" if version >= 2 else None)


class TestLeaderHints:
    TP = TopicPartition("t", 0)

    @pytest.fixture(autouse=True)
    def known(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("t", partition(leader=1, epoch=5), partition(1, leader=2, epoch=3), topic_id=ID))

    def test_a_newer_leader_is_taken_at_once_with_its_address(self, metadata: Metadata) -> None:
        told = []
        metadata.add_listener(lambda: told.append(1))
        assert metadata.update_partition_leaderships({self.TP: (3, 6)}, [Node(3, "three", 3)]) == {self.TP}
        assert metadata.current_leader(self.TP) == (Node(3, "three", 3), 6)
        assert metadata.current_leader(TopicPartition("t", 1)) == (Node(2, "two", 2), 3)
        assert metadata.cluster.topic_id("t") == ID.bytes
        assert told == [1]

    def test_an_older_or_equal_epoch_is_not(self, metadata: Metadata) -> None:
        assert metadata.update_partition_leaderships({self.TP: (2, 5)}, []) == set()
        assert metadata.current_leader(self.TP)[1] == 5

    def test_nor_a_leader_without_address_nor_an_unknown_partition(self, metadata: Metadata) -> None:
        hints = {self.TP: (9, 9), TopicPartition("t", 7): (2, 9), TopicPartition("u", 0): (2, 9)}
        assert metadata.update_partition_leaderships(hints, []) == set()
        assert metadata.update_partition_leaderships(hints, [Node(9, "", 9)]) == set()
        assert metadata.update_partition_leaderships(hints, [Node(9, "nine", -1)]) == set()

    def test_metadata_older_than_the_hint_does_not_undo_it(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.update_partition_leaderships({self.TP: (2, 6)}, [])
        update(metadata, clock, topic("t", partition(leader=1, epoch=5), partition(1, leader=2, epoch=3), topic_id=ID))
        assert metadata.current_leader(self.TP) == (Node(2, "two", 2), 6)


class TestBootstrap:
    def test_rebootstrap_forgets_everything_and_wants_an_update(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("t", partition(epoch=5)))
        version = metadata.update_version
        metadata.rebootstrap()
        assert metadata.cluster.is_bootstrap
        assert metadata.cluster.nodes == metadata.bootstrap_nodes == (Node(-1, "seed", 9),)
        assert metadata.need_full_update
        assert metadata.update_version == version + 1
        update(metadata, clock, topic("t", partition(epoch=1)))
        assert metadata.cluster.partition(TopicPartition("t", 0)) == PartitionInfo("t", 0, 1, 1)


class TestCauses:
    def test_nothing_is_known_yet(self, metadata: Metadata) -> None:
        asked = ", ".join(f"{node.host}:{node.port}" for node in metadata.bootstrap_nodes)
        assert metadata.describe_failure() == f"no answer came yet from {asked}"

    def test_the_lack_of_a_partition_in_a_known_topic(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock, topic("t", partition(0), partition(1, leader=-1)))
        assert metadata.describe_failure("t", 0) == "no error was reported"
        assert metadata.describe_failure("t", 1) == "partition 1 has no leader"
        assert metadata.describe_failure("t", 7) == "no such partition; the topic has 0 to 1"
        assert "leader" not in metadata.describe_failure("other", 0)

    def test_every_address_with_its_last_error(self, metadata: Metadata) -> None:
        metadata.note_address_failure("a:1", OSError("first"))
        metadata.note_address_failure("a:1", OSError("refused"))
        metadata.note_address_failure("b:1 (10.0.0.1:1)", TimeoutError())
        text = metadata.describe_failure()
        assert text == "no broker is reachable: a:1: refused; b:1 (10.0.0.1:1): TimeoutError"
        metadata.address_reached("b:1")
        assert metadata.describe_failure() == "no broker is reachable: a:1: refused"

    def test_the_newest_addresses_are_kept(self, metadata: Metadata) -> None:
        for number in range(100):
            metadata.note_address_failure(f"h:{number}", OSError("x"))
        assert "h:99" in metadata.describe_failure()
        assert "h:1:" not in metadata.describe_failure()

    def test_fatal_and_failed(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.failed_update(clock.time(), KafkaError("cut off"))
        assert "cut off" in metadata.describe_failure()
        metadata.set_fatal_error(AuthenticationFailedError("bad credentials"))
        assert "bad credentials" in metadata.describe_failure()

    def test_a_connected_cluster_without_errors(self, metadata: Metadata, clock: VirtualClock) -> None:
        update(metadata, clock)
        assert metadata.describe_failure("t") == "no error was reported"


class TestTopicsThatAreAskedForApart:
    """After the cluster has answered, a request is cut off; ``cut`` and ``asked`` are the updater's steps."""

    def cut(self, metadata: Metadata, clock: VirtualClock) -> Any:
        request = metadata.new_request(clock.time())
        metadata.suspect_topics(request, clock.time())
        metadata.failed_update(clock.time(), KafkaError("closed"))
        clock.advance(1)
        return request

    def asked(self, metadata: Metadata, clock: VirtualClock, **more: Any) -> Any:
        request = metadata.new_request(clock.time())
        assert request.topics is not None
        topics = [topic(name, partition()) for name in request.topics]
        metadata.update(
            request.request_version,
            MetadataAnswer(answer(*topics, **more)),
            clock.time(),
            is_partial=request.is_partial,
        )
        return request

    def test_all_others_are_asked_for_first_and_then_the_halves(self, metadata: Metadata, clock: VirtualClock) -> None:
        metadata.add_topics(["known"])
        self.asked(metadata, clock)
        metadata.add_topics(["a", "b", "c"])
        assert self.cut(metadata, clock).topics == ["a", "b", "c"]
        metadata.request_update()
        metadata.add_topics(["later"])
        assert self.asked(metadata, clock).topics == ["known", "later"]
        first, second = self.asked(metadata, clock), self.asked(metadata, clock)
        assert [first.topics, second.topics] == [["a"], ["b", "c"]]
        assert first.is_partial
        assert second.is_partial
        assert metadata.time_to_next_update(clock.time()) == 300
        assert {"known", "later", "a", "b", "c"} <= set(metadata.cluster.topics)

    def test_a_topic_that_cuts_alone_is_asked_for_seldom_and_all_else_goes_on(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        self.asked(metadata, clock)
        metadata.add_topics(["bad"])
        requests = 0
        for _ in range(40):
            while not metadata.is_update_due(clock.time()):
                clock.advance(max(metadata.time_to_next_update(clock.time()), 0.001))
            if clock.time() > 1_060:
                break
            request = metadata.new_request(clock.time())
            assert request.topics is not None
            requests += "bad" in request.topics
            if "bad" in request.topics:
                self.cut(metadata, clock)
            else:
                self.asked(metadata, clock)
        assert 5 <= requests <= 14, "in a minute"
        assert "asked for it alone" in metadata.describe_failure("bad")
        metadata.add_topics(["good"])
        assert self.asked(metadata, clock).topics == ["good"]

    def test_an_outage_divides_nothing_more(self, metadata: Metadata, clock: VirtualClock) -> None:
        names = [f"t{number}" for number in range(100)]
        self.asked(metadata, clock)
        metadata.add_topics(names)
        for _ in range(20):
            self.cut(metadata, clock)
        assert self.asked(metadata, clock).topics == []
        assert [len(self.asked(metadata, clock).topics) for _ in range(2)] == [50, 50]
        assert not metadata.is_update_due(clock.time())

    def test_a_topic_that_an_answer_leaves_out_is_not_asked_for_apart_again(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        self.asked(metadata, clock)
        metadata.add_topics(["a"])
        self.cut(metadata, clock)
        self.asked(metadata, clock)
        request = metadata.new_request(clock.time())
        assert request.topics == ["a"]
        metadata.update(request.request_version, MetadataAnswer(answer()), clock.time(), is_partial=request.is_partial)
        assert not metadata.is_update_due(clock.time() + 200)

    def test_a_request_for_known_topics_that_is_cut_is_made_again_as_it_was(
        self, metadata: Metadata, clock: VirtualClock
    ) -> None:
        metadata.add_topics(["a", "b"])
        self.asked(metadata, clock)
        metadata.request_update()
        self.cut(metadata, clock)
        assert self.asked(metadata, clock).topics == ["a", "b"]


@pytest.mark.parametrize("name", ["", "a b", "\ud800", "x" * 40_000, None, b"t"])
def test_a_name_that_no_broker_takes_is_not_asked_for(metadata: Metadata, name: Any) -> None:
    with pytest.raises(InvalidTopicError):
        metadata.add_topics(["good", name])
    assert not metadata.topics_to_request(partial=False)


def test_a_clients_options_say_when_it_is_updated() -> None:
    config = ClientConfig(
        bootstrap_servers="h:1", retry_backoff_ms=5, retry_backoff_max_ms=6_000, metadata_max_age_ms=7_000
    )
    metadata = Metadata.of(config)
    assert (metadata._backoff.initial, metadata._backoff.maximum, metadata._max_age) == (0.005, 6.0, 7.0)
