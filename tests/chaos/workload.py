"""The work that goes on during a run's faults."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from aiokafkapy.testing import ApacheKafka

from .report import Journal

__all__ = ["Workload"]


class Workload(abc.ABC):
    """Clients that work on topics of a run. A failure is a finding in the journal, never an exception."""

    PARTITIONS: ClassVar[tuple[int, ...]]
    """The numbers of partitions of the topics."""

    def __init__(self, kafka: ApacheKafka, topics: Sequence[str], journal: Journal) -> None:
        self.kafka = kafka
        self.topics = topics
        self.journal = journal

    @abc.abstractmethod
    async def start(self) -> None:
        """Begin to work."""

    @abc.abstractmethod
    async def progress(self) -> None:
        """Wait until everybody has got on, in a cluster that is whole."""

    @abc.abstractmethod
    async def stop(self) -> None:
        """Let everybody end, in a cluster that is whole."""

    @abc.abstractmethod
    async def check(self) -> None:
        """Look for leftovers, and compare the outcomes told with the brokers' logs."""
