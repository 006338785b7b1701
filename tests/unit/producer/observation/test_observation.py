from __future__ import annotations

from typing import Any

from aiokafkapy.observability.observer import Observer, Throttled
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.observation.observation import Observation
from aiokafkapy.testing.clock import VirtualClock


def observation(**options: Any) -> Observation:
    return Observation(ProducerConfig(bootstrap_servers="h:1", **options), VirtualClock().time)


class Throttling(Observer):
    def throttled(self, event: Throttled) -> None: ...


def test_with_no_option_nothing_is_watched() -> None:
    nothing = observation()
    assert nothing.client_watch() is None
    assert nothing.batch_watch is None
    assert nothing.node_traffic is None
    assert nothing.topic_metrics is None
    assert nothing.observers.failures == 0


def test_each_client_has_a_watch_of_its_own_with_the_same_observers() -> None:
    observed = observation(observers=[Throttling()])
    first, second = observed.client_watch(), observed.client_watch()
    assert first is not None
    assert second is not None
    assert first is not second
    assert observed.batch_watch is None, "nobody wants to know of batches"


def test_metrics_by_node_watch_nothing_and_those_by_topic_the_batches_alone() -> None:
    by_node = observation(metrics_per_node=True)
    assert by_node.node_traffic is not None
    assert by_node.client_watch() is None
    assert by_node.batch_watch is None
    by_topic = observation(metrics_topics_max=5)
    assert by_topic.client_watch() is None
    assert by_topic.batch_watch is not None


def test_timing_watches_the_batches() -> None:
    timed = observation(record_timing=True)
    assert timed.client_watch() is None
    assert timed.batch_watch is not None
