"""``TopicState``: all that a call must know of its topic, in one look-up.

``Admission`` keeps the states and brings them up to date; ``RecordIntake`` reads them at every record. Java looks the
same up in ``ProducerMetadata`` and ``Cluster`` each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from .pending_record import PendingRecord

__all__ = ["TopicState"]


class TopicState:
    """One topic in use. ``waiting`` is its queue while it has one."""

    __slots__ = ("askers", "check_time", "cluster", "partition_count", "renew_at", "topic", "wait_beyond", "waiting")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        # The cluster view from which the count is; None once there is a newer one.
        self.cluster: Cluster | None = None
        self.partition_count = 0
        # The time at which the topic's expiry in the metadata must be renewed.
        self.renew_at = 0.0
        # The version of the metadata that is too old to refuse a record for want of a right.
        self.wait_beyond = -1
        self.waiting: deque[PendingRecord] | None = None
        # Calls other than records' that wait for the topic's metadata.
        self.askers = 0
        # Raises for a timestamp that the topic is known not to take (``topic_limits``).
        self.check_time: Callable[[int], object] | None = None
