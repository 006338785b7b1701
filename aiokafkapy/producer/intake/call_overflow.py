"""A call's own ``overflow``: the policy for its records when there is no room for them.

Owns the policies that a call may choose, and the passing of the policy to its record. It knows no memory: ``Overflow``
reads the record's policy when it needs it. Java and librdkafka have no policy for a call; franz-go has two calls,
``Produce`` and ``TryProduce``.

Rules: a call may choose any policy that its topic might have had, and the same promises hold. ``spool`` is a topic's
alone, because all of its records go the same way or lose their order. A call drops others only of topics whose own
policy lets them be dropped: their senders have agreed to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from ...errors import IllegalStateError
from ..deliveries.delivery import Delivery
from ..options.overflow_policy import DROP_OLDEST, SPOOL, WAIT
from ..records import CallOverflow
from .pending_record import GivenRecord, PendingRecord
from .timed_calls import accept_by_deadline

if TYPE_CHECKING:
    from ..config import ProducerConfig
    from .record_intake import RecordIntake

__all__ = ["accept_specially", "check_overflow", "with_overflow"]

POLICIES: Final = get_args(CallOverflow)


def accept_specially(
    intake: RecordIntake, given: GivenRecord, delivery_timeout_ms: object, overflow: object
) -> Delivery | PendingRecord:
    """As ``accept_by_deadline``, of a record that may have an ``overflow`` of its own. Raises as ``check_overflow``."""
    if overflow is not None:
        check_overflow(intake.accepting_runtime().config, given.topic, overflow)
    return with_overflow(accept_by_deadline(intake, given, delivery_timeout_ms), overflow)


def with_overflow(accepted: Delivery | PendingRecord, overflow: object) -> Delivery | PendingRecord:
    """Give a record that has no place yet this policy; returns ``accepted``."""
    if isinstance(overflow, str) and isinstance(accepted, PendingRecord):
        accepted.overflow = overflow
    return accepted


def check_overflow(config: ProducerConfig, topic: object, overflow: object) -> None:
    """Raise TypeError or ValueError for an unknown policy, IllegalStateError for one that contradicts an option.
    ``topic`` None is not known yet.
    """
    if not isinstance(overflow, str):
        raise TypeError(f"topic {topic!r}: overflow is a {type(overflow).__name__}, not a str or None")
    if overflow not in POLICIES:
        why = ", and spool is a topic's own, never a call's" if overflow == SPOOL else ""
        raise ValueError(f"topic {topic!r}: overflow is {overflow!r:.100}: write one of {', '.join(POLICIES)}{why}")
    why = _contradiction(config, topic, overflow)
    if why:
        raise IllegalStateError(f"topic {topic!r}: overflow={overflow!r} of a call contradicts {why}")


def _contradiction(config: ProducerConfig, topic: object, overflow: str) -> str:
    if overflow.startswith("drop"):
        for name in ("transactional_id", "enable_gapless_guarantee"):
            if getattr(config, name):
                return f"{name}={getattr(config, name)!r}: dropped records would leave gaps"
    if overflow == DROP_OLDEST and not config.drops_oldest:
        return "the options: no topic has overflow='drop_oldest', so that there is nothing to drop for the record"
    if overflow == WAIT and config.manual_flush:
        return "manual_flush=True: nothing is sent, so there would be no room however long the call waits"
    if isinstance(topic, str) and config.spool_dir is not None and config.for_topic(topic).overflow == SPOOL:
        return "the topic's own, 'spool': its records keep their order only when all of them go there"
    return ""
