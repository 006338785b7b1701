"""The invariants of a run with any faults, checked on the list of calls and the logs.

The promises are those of ``judging``; this module adapts them to a producer's options, and checks that outcomes are in
time. Knows neither loop nor network.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from aiokafkapy import RecordMetadata
from aiokafkapy.common import Headers
from aiokafkapy.errors import (
    BrokerError,
    BufferExhaustedError,
    CircuitOpenError,
    DeliveryTimeoutError,
    GaplessGuaranteeError,
    IllegalStateError,
    KafkaError,
    PurgedError,
    SenderCrashedError,
    SpoolError,
)
from aiokafkapy.producer.accumulator.ready_batches import LONGEST_LINGER

from ..promises.judging import Place, Told, broken_promises, out_of_order
from .workload import Sent

__all__ = ["Spooled", "check_headers", "check_records"]

SLACK = 0.010
"""Seconds of tolerance beyond a deadline. Time is virtual, so this only covers timers that are due together."""
SLACK_OF_DISK = 0.100
"""The same for a record that may wait for a disk."""
REFUSED = KafkaError("the error that its hook or its argument deserves")
UNUSABLE = (IllegalStateError, SenderCrashedError)
"""The errors of any call on a producer that is closed or has crashed."""
IN_DOUBT = KafkaError("nobody knows", outcome_unknown=True)


def check_records(
    sent: Sequence[Sent],
    logs: Mapping[int, Sequence[bytes]],
    options: Mapping[str, Any],
    resumed: Mapping[int, Sequence[float]] = MappingProxyType({}),
    spooled: Spooled | None = None,
) -> Iterator[str]:
    """Each broken promise, as a sentence. ``sent`` are one producer's records, ``options`` its own, ``resumed`` the
    times at which each partition was resumed, ``spooled`` the outcomes of records in its spool.
    """
    is_idempotent = options.get("enable_idempotence", True)
    places: dict[bytes, list[Place]] = defaultdict(list)
    for partition, values in logs.items():
        for offset, value in enumerate(values):
            places[value].append((partition, offset))
    for record in sent:
        there = places.get(record.value, [])
        is_spooled = spooled is not None and _is_spooled(record)
        may_repeat = is_spooled or (spooled is not None and _may_be_in_spool(record))
        if is_spooled and spooled is not None and record.value in spooled.refused:
            continue
        told = _told_of_spooled(record, there) if is_spooled else _told(record, options)
        for what, details in broken_promises(told, there, is_idempotent=is_idempotent and not may_repeat):
            yield f"{_name(record)} {what}: {details}"
        if not is_spooled:
            yield from _check_refusal(record, there, has_spool=spooled is not None)
            yield from _check_timing(record, options)
        yield from _check_time(record, options, SLACK if spooled is None else SLACK_OF_DISK)
    if is_idempotent:
        yield from _check_order(_in_order(sent, places, spooled), places)
        if spooled is not None:
            yield from _check_repetitions(sent, places, spooled)
    if options.get("enable_gapless_guarantee"):
        yield from _check_gaps(sent, places, resumed)


@dataclass(frozen=True)
class Spooled:
    """The outcomes of the records in a spool: the values of those that brokers ``refused`` for good, the number that
    the producers said to have ``repeated``, whether a process has left the next one records that it may have sent, and
    whether one has left them without a mark, for its disk took none.
    """

    refused: Collection[bytes]
    repeated: int
    is_in_doubt: bool = False
    is_unmarked: bool = False


def check_headers(sent: Sequence[Sent], headers: Mapping[bytes, Headers]) -> Iterator[str]:
    """Each record of a log, by value, has the headers of its call, given in any form."""
    for record in sent:
        if record.headers is not None and headers.get(record.value, record.headers) != record.headers:
            yield f"{_name(record)} has headers {headers[record.value]}, and was given {record.headers}"


def _told(record: Sent, options: Mapping[str, Any]) -> Told:
    """The reported outcome: none for a cancelled call, and with acks=0 an acknowledgement counts as none."""
    outcome = record.outcome
    if _is_refusal(record):
        return REFUSED
    if outcome is None:
        return IN_DOUBT if record.is_cancelled else None
    if isinstance(outcome, RecordMetadata):
        return IN_DOUBT if options.get("acks") == 0 else (outcome.partition, outcome.offset)
    return outcome


def _is_spooled(record: Sent) -> bool:
    outcome = record.outcome
    return isinstance(outcome, RecordMetadata) and (outcome.is_spooled or (record.is_row and outcome.offset < 0))


def _told_of_spooled(record: Sent, places: Sequence[Place]) -> Place:
    """The place that a spooled record was told: it has no offset, and no partition if none was chosen."""
    assert isinstance(record.outcome, RecordMetadata)
    if record.outcome.partition < 0 and places:
        return places[0]
    return record.outcome.partition, record.outcome.offset


def _may_be_in_spool(record: Sent) -> bool:
    """True of a record whose caller was not told whether it is written."""
    return record.outcome is None or getattr(record.outcome, "outcome_unknown", False)


def _in_order(sent: Sequence[Sent], places: Mapping[bytes, Sequence[Place]], spooled: Spooled | None) -> Sequence[Sent]:
    """The records whose order is promised. A request of a process that is no more may arrive late; and a record that
    the next process sends again may go to another partition, if its call chose none.
    """
    is_in_doubt = spooled is not None and spooled.is_in_doubt
    return [one for one in sent if not (one.may_be_late or (is_in_doubt and len(places.get(one.value, ())) > 1))]


def _check_repetitions(
    sent: Sequence[Sent], places: Mapping[bytes, Sequence[Place]], spooled: Spooled
) -> Iterator[str]:
    """Records are repeated as often as the producers have said, at most; those without a mark on disk may all be
    repeated.
    """
    if spooled.is_unmarked:
        return
    again = {_name(record): places[record.value] for record in sent if len(places.get(record.value, ())) > 1}
    count = sum(map(len, again.values())) - len(again)
    if count > spooled.repeated:
        yield f"{count} records are there again, and {spooled.repeated} were told: {again!s:.1000}"


def _check_refusal(record: Sent, places: Sequence[Place], *, has_spool: bool) -> Iterator[str]:
    # Where the spool has the topic, it is not known yet that a partition is missing.
    waits = has_spool and not places and isinstance(record.outcome, BufferExhaustedError | SpoolError)
    if record.refused is not None and not waits:
        if places:
            yield f"{_name(record)} was to be refused and is in the log: {places}, {record.refused!r:.200}"
        if record.outcome is not None and not _is_refusal(record):
            yield f"{_name(record)} was to be refused with {record.refused!r:.200}, not with {record.outcome!r:.200}"
    if isinstance(record.outcome, RecordMetadata) and record.chosen not in (None, record.outcome.partition):
        yield f"{_name(record)} is in partition {record.outcome.partition}; the partitioner said {record.chosen}"


def _is_refusal(record: Sent) -> bool:
    """True if the outcome is due to a hook or an argument, or to an earlier end: a purge, an open circuit, its
    own deadline, or a producer that is closed or has crashed.
    """
    if record.refused is not None and isinstance(record.outcome, (CircuitOpenError, PurgedError)):
        return True
    has_own_time = record.delivery_timeout_ms is not None or record.is_in_deadline
    if record.refused is not None and has_own_time and isinstance(record.outcome, DeliveryTimeoutError):
        return True
    if isinstance(record.refused, tuple):
        return isinstance(record.outcome, (*record.refused, *UNUSABLE))
    error: Any = record.outcome
    while isinstance(error, BaseException) and not _is_same(error, record):
        error = error.__cause__
    return record.refused is not None and error is not None


def _is_same(error: BaseException, record: Sent) -> bool:
    # A row of a table fails with a copy of the error that names the row.
    return error is record.refused or (record.is_row and type(error) is type(record.refused))


def _check_time(record: Sent, options: Mapping[str, Any], slack: float) -> Iterator[str]:
    if record.bulk:
        return  # it may have waited for earlier records
    limit = (options["max_block_ms"] + options["delivery_timeout_ms"]) / 1000 + slack
    if record.delivery_timeout_ms is not None:
        limit = min(limit, record.delivery_timeout_ms / 1000 + slack)
    if record.outcome is not None and record.ended - record.began > limit:
        yield f"{_name(record)} had its outcome after {record.ended - record.began:.3f} s; the limit is {limit:.3f} s"


def _check_timing(record: Sent, options: Mapping[str, Any]) -> Iterator[str]:
    """None of its times, where it has any, is below zero, and their sum is within its delivery time-out; a batch
    gathers no longer than it may.
    """
    if not isinstance(record.outcome, RecordMetadata) or record.is_row:
        return
    timing = record.outcome.timing
    if timing is None:
        if options.get("record_timing"):
            yield f"{_name(record)} has no timing"
        return
    linger_ms = options["linger_ms"]
    most = LONGEST_LINGER if linger_ms in (None, "auto") else linger_ms / 1000
    whole = sum(timing[:5])
    if min(timing) < 0 or timing.linger > most + SLACK or whole > options["delivery_timeout_ms"] / 1000 + SLACK:
        yield f"{_name(record)} has a wrong timing: {timing}"


def _check_order(sent: Sequence[Sent], places: Mapping[bytes, Sequence[Place]]) -> Iterator[str]:
    # The records of a send_many keep their own order; records of other calls may come in between wherever the
    # ``send_many`` waits.
    calls: dict[int, list[tuple[Sent, Sequence[Place]]]] = defaultdict(list)
    for record in sent:
        calls[record.bulk].append((record, places.get(record.value, ())))
    for records in calls.values():
        for late, early in out_of_order(records):
            where = f"{places[late.value]}, {places[early.value]}"
            yield f"{_name(late)} was called in after {_name(early)} and is before it in the log: {where}"


def _check_gaps(
    sent: Sequence[Sent], places: Mapping[bytes, Sequence[Place]], resumed: Mapping[int, Sequence[float]]
) -> Iterator[str]:
    """No record is written behind an accepted one that is not written, except after ``resume``."""
    gaps: dict[int, Sent] = {}  # the last of each partition
    for record in sent:
        if record.bulk or record.refused is not None:
            continue
        for partition, offset in places.get(record.value, ()):
            gap = gaps.get(partition)
            until = math.inf if record.is_cancelled else record.ended
            if gap is not None and not any(gap.began <= at <= until for at in resumed.get(partition, ())):
                where = f"{partition}/{offset}"
                yield f"{_name(record)} is written at {where} behind a gap: {_name(gap)}, {gap.outcome!r:.200}"
        error = record.outcome
        if (
            isinstance(error, GaplessGuaranteeError | DeliveryTimeoutError | BrokerError | PurgedError)
            and error.partition is not None
            and not error.outcome_unknown
            and getattr(error, "limit", None) is None  # else it was refused by the call
        ):
            gaps[error.partition] = record


def _name(record: Sent) -> str:
    return f"record {record.producer}/{record.order}"
