"""The promises of transactions, under all faults: each is whole or not there, as its user was told; an older
producer of an id commits nothing once a newer one is ready.

Knows neither loop nor network: the users' attempts, and the records that readers with ``read_committed`` see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from aiokafkapy import RecordMetadata
from aiokafkapy.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    MetadataNotReadyError,
    SenderCrashedError,
)

from .transactional_workload import Instance, Outcome, Tried
from .workload import Sent

__all__ = ["check_fencing", "check_offset", "check_transactions"]

Log = Mapping[int, Sequence[bytes]]

TO_BE_TRIED_AGAIN = (BufferExhaustedError, MetadataNotReadyError, IllegalStateError)
"""Errors of a call that has not taken the record, and leaves the transaction as it is."""


def check_transactions(tried: Sequence[Tried], sent: Sequence[bytes], committed: Log) -> Iterator[str]:
    """Each broken promise of one user's transactions, as a sentence. ``sent`` are all values of the user's."""
    seen = Counter(value for values in committed.values() for value in values)
    for each in tried:
        yield from _check(each, seen)
    of_some = {record.value for each in tried for record in each.records}
    for value in sent:
        if value in seen and value not in of_some:
            yield f"{value[:20]!r} was sent in no transaction and is committed"


def _check(tried: Tried, seen: Mapping[bytes, int]) -> Iterator[str]:
    name = f"transaction {tried.number}, {tried.outcome.value},"
    visible = [record for record in tried.records if seen.get(record.value)]
    missing = [
        record for record in tried.records if isinstance(record.outcome, RecordMetadata) and not seen.get(record.value)
    ]
    for record in visible:
        if seen[record.value] > 1:
            yield f"{name} has record {record.order} {seen[record.value]} times"
    if tried.outcome is Outcome.COMMITTED:
        if missing:
            yield f"{name} lacks record {missing[0].order}, one of {len(missing)}, acknowledged: {missing[0].outcome}"
        if tried.offset_error is not None:
            yield f"{name} had an error of its offsets: {tried.offset_error!r:.200}"
        for record in tried.records:
            if _has_spoilt(record.outcome) and record.refused is None and not _came_to_a_crash(tried, record):
                yield f"{name} had a record {record.order} that failed: {record.outcome!r:.200}"
    elif tried.outcome is Outcome.NOT_COMMITTED:
        if visible:
            yield f"{name} shows record {visible[0].order}, one of {len(visible)}; its error: {tried.error!r:.200}"
    elif visible and missing:
        yield f"{name} shows record {visible[0].order} and lacks {missing[0].order}: {missing[0].outcome}"


def _has_spoilt(outcome: object) -> bool:
    return isinstance(outcome, KafkaError) and not isinstance(outcome, TO_BE_TRIED_AGAIN)


def _came_to_a_crash(tried: Tried, record: Sent) -> bool:
    """True of a call that outlived its transaction, and was told of a producer that crashed later."""
    is_later = tried.committed_at is not None and record.ended > tried.committed_at
    return is_later and isinstance(record.outcome, SenderCrashedError)


def check_offset(tried: Sequence[Tried], committed: Log, offset: int | None) -> Iterator[str]:
    """The group's offset is that of the last transaction that is committed."""
    seen = {value for values in committed.values() for value in values}
    possible: set[int | None] = {None}
    for each in tried:
        is_visible = any(record.value in seen for record in each.records)
        if each.offset is None or each.outcome is Outcome.NOT_COMMITTED:
            continue
        if each.outcome is Outcome.UNKNOWN and not is_visible:
            if not any(isinstance(record.outcome, RecordMetadata) for record in each.records):
                possible.add(each.offset)
        elif each.has_offset:
            possible = {each.offset}
        else:
            possible.add(each.offset)
    if offset not in possible:
        yield f"the group's offset is {offset}, not one of {sorted(map(str, possible))}"


def check_fencing(tried: Sequence[Tried], instances: Sequence[Instance]) -> Iterator[str]:
    """``tried`` and ``instances`` are all those of one transactional id."""
    for each in tried:
        if each.outcome is not Outcome.COMMITTED or each.commit_began is None or each.instance.ready is None:
            continue
        if not each.has_offset and not any(isinstance(record.outcome, RecordMetadata) for record in each.records):
            continue  # there was nothing to commit
        for newer in instances:
            if newer.ready is not None and newer.began > each.instance.ready and newer.ready < each.commit_began:
                yield (
                    f"transaction {each.number} of a producer that was ready at {each.instance.ready:.4f} s is "
                    f"committed at {each.commit_began:.4f} s, and another one was ready at {newer.ready:.4f} s"
                )
