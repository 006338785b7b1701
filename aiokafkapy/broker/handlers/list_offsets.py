"""ListOffsets (2): the offset for a time, or for the start, the end, the youngest record.

versions: 1-10
kept: earliest (-2), latest (-1), max timestamp (-3, v7+), earliest local (-4, v8+), latest tiered (-5, v9+: there is
    none), leader epochs (v4+), any time; with read_committed (v2+) the end is the
    last stable offset, and an answer to a time is below it
dropped: the time-out; the replica id
notes: a time is looked up by bisection and then in one batch's records. A partition that is asked for twice is
    answered with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ...errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...protocol.constants import EARLIEST, LATEST, MAX_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.log import TimestampOffset
from ..storage.topics import Partition
from .leadership import answer_each, check_leader, find_partition, find_topic_by_name
from .registry import Body, Response, register

__all__ = ["handle"]

EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
FIRST_VERSION: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NO_VERSION: Final = 1 << 15
NOTHING: Final = TimestampOffset(-1, -1, -1)


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return answer_each(context, body, lambda _, each: _failed(each, error))


@register(ApiKey.LIST_OFFSETS, versions=(1, 10), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    occurrences = Counter((topic.name, each.partition_index) for topic in body.topics for each in topic.partitions)
    return answer_each(
        context, body, lambda name, each: _answer(context, body, name, each, occurrences[name, each.partition_index])
    )


def _answer(context: RequestContext, body: Body, name: str, requested: Struct, occurrences: int) -> dict[str, object]:
    try:
        context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if occurrences > 1:
            raise InvalidRequestError
        is_special = requested.timestamp < 0 and _is_special(context, requested.timestamp)
        partition = find_partition(find_topic_by_name(context, name), requested.partition_index)
        context.check_topic(name, partition.index)
        check_leader(context, partition, getattr(requested, "current_leader_epoch", -1))
        is_committed = getattr(body, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED
        look_up = _look_up if is_special else _look_up_time
        found = look_up(partition, requested.timestamp, is_committed=is_committed)
    except KafkaError as error:
        return _failed(requested, error)
    return {
        "partition_index": requested.partition_index,
        "error_code": 0,
        "timestamp": found.timestamp_ms,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


def _is_special(context: RequestContext, timestamp_ms: int) -> bool:
    """Whether a negative time has a meaning of its own. UnsupportedVersionError for one that this version lacks."""
    first_version = FIRST_VERSION.get(timestamp_ms, NO_VERSION)
    emulation = context.state.emulation
    if emulation is not None and not emulation.checks_special_times:
        return emulation.apis[ApiKey.LIST_OFFSETS][1] >= first_version
    if context.api_version < first_version:
        raise UnsupportedVersionError
    return True


def _look_up(partition: Partition, timestamp_ms: int, *, is_committed: bool) -> TimestampOffset:
    log = partition.log
    if timestamp_ms == LATEST:
        return TimestampOffset(-1, _end(partition, is_committed=is_committed), partition.leader_epoch)
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        # A leader notes its epoch as soon as it leads, so an empty log has the present one.
        epoch = log.epoch_at(log.start_offset) if log.start_offset < log.end_offset else partition.leader_epoch
        return TimestampOffset(-1, log.start_offset, epoch)
    if timestamp_ms == LATEST_TIERED:
        return NOTHING
    return _before_the_end(log.max_timestamp(), partition, is_committed=is_committed)


def _look_up_time(partition: Partition, timestamp_ms: int, *, is_committed: bool) -> TimestampOffset:
    return _before_the_end(partition.log.offset_for_time(timestamp_ms), partition, is_committed=is_committed)


def _before_the_end(found: TimestampOffset | None, partition: Partition, *, is_committed: bool) -> TimestampOffset:
    if found is None or found.offset >= _end(partition, is_committed=is_committed):
        return NOTHING
    return found


def _end(partition: Partition, *, is_committed: bool) -> int:
    return partition.log.last_stable_offset if is_committed else partition.log.high_watermark


def _failed(requested: Struct, error: KafkaError) -> dict[str, object]:
    return {"partition_index": requested.partition_index, "error_code": error.code, "timestamp": -1, "offset": -1}
