"""What ``producer.statistics()`` and ``producer.health`` return: plain snapshots, made when asked for.

They know nothing of where the numbers come from. Java has no counterpart; trio's ``statistics()`` is the model.

Rule: ``accepted = delivered + failed + pending`` in every snapshot; all durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..common import Node

__all__ = ["ProducerHealth", "ProducerStatistics"]


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """The producer at one moment."""

    accepted: int = 0
    """Records that were appended, since the start."""
    delivered: int = 0
    """Records that a broker has (with ``acks=0``: that were handed to the network)."""
    failed: int = 0
    """Records that were accepted and then failed."""
    pending: int = 0
    """Records without an outcome yet."""
    waiters: int = 0
    """Calls that wait for their record to be accepted: for metadata, an async serializer, or room."""
    buffered_bytes: int = 0
    """Bytes of ``buffer_memory`` in use."""
    buffer_memory: int = 0
    batches: int = 0
    """Batches without an outcome, those in flight included."""
    nodes: tuple[Node, ...] = ()
    """The brokers that metadata names."""
    connected_nodes: tuple[int, ...] = ()
    """The ids of those we are connected to."""
    in_flight: Mapping[int, int] = field(default_factory=dict)
    """Requests in flight by node id."""
    in_flight_batches: int = 0
    """Batches in a Produce request that has no answer yet."""
    loop_lag: float = 0.0
    """The longest time, over the last half minute to minute, from waking the Sender to its running."""
    wake_ups: int = 0
    """How often the Sender ran."""
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ProducerHealth:
    """Whether the producer can do its work; cheap enough for a readiness probe."""

    is_healthy: bool
    """Started, the Sender lives, a broker is connected, and no record waits longer than ``request_timeout_ms``."""
    state: str
    """``new``, ``starting``, ``running``, ``closing``, ``closed``, ``crashed`` or ``forked``."""
    connected_brokers: int = 0
    known_brokers: int = 0
    seconds_since_success: float | None = None
    """Since a batch was delivered last; None when none was."""
    oldest_record_age: float = 0.0
    """Of the records without an outcome; 0 when there is none."""
    buffered_fraction: float = 0.0
    """How full ``buffer_memory`` is, 0 to 1."""
    last_error: str | None = None
    """The last error of metadata, the producer id, or a batch, when it has not been followed by a success."""
