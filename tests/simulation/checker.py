"""What must hold after a run, whatever went wrong in it, as sentences about logs and a list of calls.

The promises are those of `judging`; here is what the options of a producer make of them, and that outcomes are in time.
Knows neither loop nor network: it is given what was sent and told, and what is in the logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiokafkapy import RecordMetadata
from aiokafkapy.errors import KafkaError

from ..promises.judging import Place, Told, broken_promises, out_of_order
from .workload import Sent

__all__ = ["check_records"]

SLACK = 0.010
"""Seconds beyond a deadline. The time is virtual: no more is needed than timers that are due together."""
IN_DOUBT = KafkaError("nobody knows", outcome_unknown=True)


def check_records(
    sent: Sequence[Sent], logs: Mapping[int, Sequence[bytes]], options: Mapping[str, Any]
) -> Iterator[str]:
    """Each broken promise, as a sentence. `sent` are one producer's records, `options` its own."""
    is_idempotent = options.get("enable_idempotence", True)
    places: dict[bytes, list[Place]] = defaultdict(list)
    for partition, values in logs.items():
        for offset, value in enumerate(values):
            places[value].append((partition, offset))
    for record in sent:
        told = _told(record, options)
        for what, details in broken_promises(told, places.get(record.value, []), is_idempotent=is_idempotent):
            yield f"{_name(record)} {what}: {details}"
        yield from _check_time(record, options)
    if is_idempotent:
        yield from _check_order(sent, places)


def _told(record: Sent, options: Mapping[str, Any]) -> Told:
    """Of a call that was cancelled nothing was, and with acks=0 an acknowledgement is none."""
    outcome = record.outcome
    if outcome is None:
        return IN_DOUBT if record.is_cancelled else None
    if isinstance(outcome, RecordMetadata):
        return IN_DOUBT if options.get("acks") == 0 else (outcome.partition, outcome.offset)
    return outcome


def _check_time(record: Sent, options: Mapping[str, Any]) -> Iterator[str]:
    if record.bulk:
        return  # it may have waited for those before it
    limit = (options["max_block_ms"] + options["delivery_timeout_ms"]) / 1000 + SLACK
    if record.outcome is not None and record.ended - record.began > limit:
        yield f"{_name(record)} had its outcome after {record.ended - record.began:.3f} s; the limit is {limit:.3f} s"


def _check_order(sent: Sequence[Sent], places: Mapping[bytes, Sequence[Place]]) -> Iterator[str]:
    # The records of a send_many keep their own order; those of other calls may come in between wherever it waits.
    calls: dict[int, list[tuple[Sent, Sequence[Place]]]] = defaultdict(list)
    for record in sent:
        calls[record.bulk].append((record, places.get(record.value, ())))
    for records in calls.values():
        for late, early in out_of_order(records):
            where = f"{places[late.value]}, {places[early.value]}"
            yield f"{_name(late)} was called in after {_name(early)} and is before it in the log: {where}"


def _name(record: Sent) -> str:
    return f"record {record.producer}/{record.order}"
