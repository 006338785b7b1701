"""Chooses a record's partition: by its key, by a user's partitioner, or the sticky one.

Owns the choice for records without a partition. ``None`` leaves it to the accumulator's ``BuiltInPartitioner``.
Kafka's counterparts are ``Partitioner`` and ``RoundRobinPartitioner``.

Rules:

- A record with a key goes to ``to_positive(murmur2(key)) % partitions``, bit for bit as in Java, whether its leader is
  there or not.
- A partitioner is asked once for each record, in call order, with serialized bytes. The spool asks it when a record
  leaves the disk, and again when the record has to be sent again and no broker can have it.
- An error of a user's partitioner is the error of its record. An error that no future can carry, or that would pass
  for a cancellation of the caller, becomes the cause of a KafkaError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import ConfigurationError, KafkaError
from ...observability import describe_error
from ...record.murmur2 import partition_for_key
from ..accumulator.built_in_partitioner import UNKNOWN_PARTITION
from ..arguments import chosen_partition

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster

__all__ = [
    "CallablePartitioner",
    "DefaultPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "choose_partition",
    "partitioner_for",
]


class Partitioner(Protocol):
    """The protocol of ``ProducerConfig.partitioner``, which may also be a plain function with the same arguments."""

    def partition(
        self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster
    ) -> int | None:
        """The record's partition, or None for the sticky one. The topic has partitions in ``cluster``.

        It is called once for each record without a partition, on the event loop, and must be quick and not block;
        docs/spool.md names the records of a spool that are asked about again. Its exception, or a ValueError for a
        partition that the topic does not have, is the error of that record only.
        """


class DefaultPartitioner:
    """By key, as in Java; the sticky partition without a key, or always with ``ignore_keys``."""

    __slots__ = ("ignore_keys",)

    def __init__(self, ignore_keys: bool = False) -> None:
        self.ignore_keys = ignore_keys

    def partition(
        self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster
    ) -> int | None:
        """The key's partition, or None."""
        if key_bytes is None or self.ignore_keys:
            return None
        return partition_for_key(key_bytes, cluster.partition_count(topic))


class RoundRobinPartitioner:
    """Sends each record to the next available partition of its topic, whether it has a key or not."""

    __slots__ = ("_counters",)

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def partition(
        self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster
    ) -> int | None:
        """The next partition with a leader, or the next of all if no partition has one."""
        candidates = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)
        count = self._counters.get(topic, 0)
        self._counters[topic] = count + 1
        return candidates[count % len(candidates)].partition


class CallablePartitioner:
    """A user's function as a partitioner; its choice is checked."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.function = function

    def partition(
        self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster
    ) -> int | None:
        """The function's choice; raises ValueError when the topic has no such partition."""
        chosen = self.function(topic, key_bytes, value_bytes, key, value, cluster)
        return None if chosen is None else chosen_partition(topic, chosen, cluster.partition_count(topic))


def partitioner_for(partitioner: Any, *, ignore_keys: bool = False) -> Partitioner:
    """The partitioner for an option: for None, an object with ``partition``, a class of such objects, or a function."""
    if partitioner is None:
        return DefaultPartitioner(ignore_keys=ignore_keys)
    if isinstance(partitioner, type):
        partitioner = partitioner()
    if callable(getattr(partitioner, "partition", None)):
        # A user's own object is checked like a function, an instance of a subclass too.
        known = (DefaultPartitioner, RoundRobinPartitioner, CallablePartitioner)
        return partitioner if type(partitioner) in known else CallablePartitioner(partitioner.partition)
    if callable(partitioner):
        return CallablePartitioner(partitioner)
    raise ConfigurationError(f"partitioner: {partitioner!r} is neither a function nor an object with partition()")


def choose_partition(
    partitioner: Partitioner, topic: str, key: Any, value: Any, original_key: Any, original_value: Any, cluster: Cluster
) -> int:
    """A partitioner's choice for a serialized record without a partition; -1 is the sticky one."""
    try:
        chosen = partitioner.partition(topic, key, value, original_key, original_value, cluster)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        text = f"the partitioner failed for a record of topic {topic!r}: {describe_error(error)}"
        raise KafkaError(text, topic=topic) from error
    return UNKNOWN_PARTITION if chosen is None else chosen
