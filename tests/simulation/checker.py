"""What must hold after a run, whatever went wrong in it: the promises, as sentences about logs and a list of calls.

Knows neither loop nor network: it is given what was sent and told, and what is in the logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiokafkapy import RecordMetadata
from aiokafkapy.errors import KafkaError

from .workload import Sent

__all__ = ["check_records"]

SLACK = 0.010
"""Seconds beyond a deadline. The time is virtual: no more is needed than timers that are due together."""


def check_records(
    sent: Sequence[Sent], logs: Mapping[int, Sequence[bytes]], options: Mapping[str, Any]
) -> Iterator[str]:
    """Each broken promise, as a sentence. `sent` are one producer's records, `options` its own."""
    is_idempotent = options.get("enable_idempotence", True)
    places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for partition, values in logs.items():
        for offset, value in enumerate(values):
            places[value].append((partition, offset))
    for record in sent:
        found = places.get(record.value, [])
        yield from _check_outcome(record, found, options, is_idempotent)
        yield from _check_time(record, options)
    if is_idempotent:
        yield from _check_order(sent, places)


def _check_outcome(
    record: Sent, found: list[tuple[int, int]], options: Mapping[str, Any], is_idempotent: bool
) -> Iterator[str]:
    outcome = record.outcome
    if outcome is None and not record.is_cancelled:
        yield f"{_name(record)} has no outcome"
    if is_idempotent and len(found) > 1:
        yield f"{_name(record)} is in the log {len(found)} times, at {found}; told: {outcome!r}"
    if isinstance(outcome, RecordMetadata) and options.get("acks") != 0:
        if not found:
            yield f"{_name(record)} was acknowledged and is not in the log: {outcome!r}"
        elif outcome.offset == -1:
            if all(partition != outcome.partition for partition, _ in found):
                yield f"{_name(record)} was acknowledged for partition {outcome.partition} and is at {found}"
        elif (outcome.partition, outcome.offset) not in found:
            yield f"{_name(record)} was acknowledged at {outcome.partition}:{outcome.offset} and is at {found}"
    if isinstance(outcome, KafkaError) and not outcome.outcome_unknown and found and is_idempotent:
        yield f"{_name(record)} is in the log at {found}, and its error says that it was not written: {outcome!r}"
    if isinstance(outcome, BaseException) and not isinstance(outcome, KafkaError):
        yield f"{_name(record)} failed with an error that is none of Kafka's: {outcome!r}"


def _check_time(record: Sent, options: Mapping[str, Any]) -> Iterator[str]:
    if record.bulk:
        return  # it may have waited for those before it
    limit = (options["max_block_ms"] + options["delivery_timeout_ms"]) / 1000 + SLACK
    if record.outcome is not None and record.ended - record.began > limit:
        yield f"{_name(record)} had its outcome after {record.ended - record.began:.3f} s; the limit is {limit:.3f} s"


def _check_order(sent: Sequence[Sent], places: Mapping[bytes, list[tuple[int, int]]]) -> Iterator[str]:
    # The records of a send_many keep their own order; those of other calls may come in between wherever it waits.
    last: dict[tuple[int, int], tuple[int, Sent]] = {}
    for record in sent:
        for partition, offset in places.get(record.value, ()):
            before = last.get((partition, record.bulk))
            if before is not None and before[0] > offset:
                where = f"{partition}:{offset}, {partition}:{before[0]}"
                yield f"{_name(record)} was called in after {_name(before[1])} and is before it in the log: {where}"
            last[partition, record.bulk] = (offset, record)


def _name(record: Sent) -> str:
    return f"record {record.producer}/{record.order}"
