"""Requested offsets that no longer exist: ``failOnDataLoss``.

Owns the error, its wording and the choice between it and a warning. Spark's counterpart is ``reportDataLoss``.

Rule: gaps are not a loss: compaction and transactions leave offsets without a record.

Event: ``source.data_lost`` (warning; what).
"""

from __future__ import annotations

from typing import Final

from ...common import TopicPartition
from ...observability import get_logger
from .offsets import OffsetRange

__all__ = ["DataLoss", "DataLossError", "describe_missing"]

_REMEDY: Final = (
    "To go on with the remaining records, write option failOnDataLoss='false'; to have nothing deleted before it is "
    "read, lengthen the topic's retention"
)
_FROZEN: Final = (
    ". A DataFrame or view keeps the offsets of its first query: for each query call load() again, or create the view "
    "anew"
)
"""Appended for a batch: Spark plans a relation of a batch source in Python once, and never asks the source again."""

_logger = get_logger(__name__)


class DataLossError(RuntimeError):
    """Offsets that a query asked for are no longer there."""


class DataLoss:
    """Raises, or warns and lets the caller go on."""

    def __init__(self, *, is_fatal: bool, is_stream: bool) -> None:
        self._is_fatal = is_fatal
        self._remedy = _REMEDY if is_stream else _REMEDY + _FROZEN

    def report(self, what: str) -> None:
        """Report lost records, which ``what`` names. Raises DataLossError with failOnDataLoss."""
        if self._is_fatal:
            raise DataLossError(f"{what}. {self._remedy}")
        _logger.warning("source.data_lost", what=what)


def describe_missing(topic_partition: TopicPartition, wanted: OffsetRange, first: int, end: int) -> str:
    """The text for a range of a partition whose log begins at ``first`` and ends before ``end``."""
    return (
        f"{topic_partition}: offsets {wanted.start} to {wanted.end} were asked for, but the log goes from {first} to "
        f"{end}: records were deleted, or the topic was deleted and created again"
    )
