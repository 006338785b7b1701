"""Options of the producer that contradict one another, and their remedies.

Owns these conflicts and their words; ``config_fields`` declares the options. Kafka's counterpart is
``ProducerConfig.postProcessAndValidateIdempotenceConfigs``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from ...common import MAX_INT
from ...errors import ConfigurationError
from ...record.compression import LEVEL_OPTIONS
from .auto import AUTO
from .option_values import CompressionName, InFlight
from .overflow_policy import DROP_NEWEST, DROP_OLDEST, SPOOL, WAIT, OverflowPolicy

if TYPE_CHECKING:
    import os

    from .topic_options import TopicOptions

__all__ = [
    "IDEMPOTENCE_OPTIONS",
    "MAX_IN_FLIGHT_FOR_IDEMPOTENCE",
    "as_int",
    "check_conflicts",
    "conflict_of_auto",
    "conflict_of_priority",
    "conflict_of_taking_back",
    "idempotence_conflict",
    "overflow_policies",
]

MAX_IN_FLIGHT_FOR_IDEMPOTENCE: Final = 5
"""Brokers remember five batches per producer and partition."""
IDEMPOTENCE_OPTIONS: Final = ("acks", "retries", "max_in_flight_requests_per_connection")


class CheckedOptions(Protocol):
    """The options of ``ProducerConfigFields`` that are looked at here."""

    acks: Literal["all", 0, 1]
    buffer_memory: int
    cancel_takes_back: bool
    compression_type: CompressionName
    delivery_timeout_ms: int
    enable_gapless_guarantee: bool
    enable_idempotence: bool
    linger_ms: int | Literal["auto"] | None
    manual_flush: bool
    max_in_flight_requests_per_connection: InFlight
    max_request_size: int
    overflow: OverflowPolicy
    partitioner: Any
    partitioner_ignore_keys: bool
    priority_reserve_percent: int
    request_timeout_ms: int
    spool_dir: str | os.PathLike[str] | None
    spool_max_bytes: int
    topics: Mapping[str, TopicOptions]
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    transactional_id: str | None

    @property
    def model_fields_set(self) -> AbstractSet[str]:
        """The names of the options that were given."""

    @property
    def effective_linger_ms(self) -> int:
        """The longest that a batch gathers."""

    @property
    def priority_topics(self) -> Collection[str]:
        """The topics whose records go first."""


def check_conflicts(config: CheckedOptions) -> None:
    """Raise ConfigurationError for options that contradict each other."""
    _check_idempotence(config)
    _check_times(config)
    _check_levels(config)
    if config.max_request_size > config.buffer_memory:
        raise ConfigurationError(
            f"max_request_size={config.max_request_size} is more than buffer_memory={config.buffer_memory}: "
            f"such a record would never find room; write buffer_memory={config.max_request_size} or more"
            + ("" if "max_request_size" in config.model_fields_set else ", or a smaller max_request_size")
        )
    if config.partitioner_ignore_keys and config.partitioner is not None:
        raise ConfigurationError(
            "partitioner_ignore_keys=True has no effect with a partitioner of your own: leave one of the two out"
        )
    _check_transactions(config)
    _check_overflow(config)
    _check_spool(config)
    _check_topics(config)
    percent = config.priority_reserve_percent if "priority_reserve_percent" in config.model_fields_set else None
    conflict = conflict_of_auto(config.acks, config.max_in_flight_requests_per_connection)
    conflict = conflict or conflict_of_priority(percent, config.priority_topics)
    conflict = conflict or conflict_of_taking_back(config.cancel_takes_back, is_gapless=config.enable_gapless_guarantee)
    if conflict is not None:
        raise ConfigurationError(conflict)


def overflow_policies(config: CheckedOptions) -> set[OverflowPolicy]:
    """The overflow policies of the producer and of topics."""
    own = {options.overflow for options in config.topics.values() if options.overflow is not None}
    return {config.overflow, *own}


def idempotence_conflict(values: Mapping[str, object]) -> str | None:
    """The value that contradicts idempotence, with the remedy; None without one."""
    acks = values.get("acks", "all")
    if acks in (0, 1):
        return f"acks={acks}: write acks='all'"
    if as_int(values.get("retries")) == 0:
        return "retries=0: leave retries out"
    in_flight = as_int(values.get("max_in_flight_requests_per_connection"))
    if in_flight is not None and in_flight > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
        return f"max_in_flight_requests_per_connection={in_flight}: write {MAX_IN_FLIGHT_FOR_IDEMPOTENCE} or less"
    return None


def conflict_of_auto(acks: object, in_flight: object) -> str | None:
    """The reason why requests in flight cannot adapt; None if they can, or need not."""
    if acks == 0 and in_flight == AUTO:
        return (
            "max_in_flight_requests_per_connection='auto' contradicts acks=0: there are no answers whose time could be "
            "measured; write a number"
        )
    return None


def conflict_of_priority(given_percent: int | None, topics: Collection[str]) -> str | None:
    """The reason why the share for these topics with priority has no effect; None if it has one, or was not given."""
    if given_percent is not None and not topics:
        return (
            f"priority_reserve_percent={given_percent} has no effect without a topic that has "
            "priority: write topics={'alerts': TopicOptions(priority='high')}"
        )
    return None


def conflict_of_taking_back(takes_back: bool, *, is_gapless: bool) -> str | None:
    """The reason why a cancelled call may not take its records back; None if it may, or need not."""
    if takes_back and is_gapless:
        return (
            "cancel_takes_back=True contradicts enable_gapless_guarantee=True: records taken back would leave gaps; "
            "leave one of the two out"
        )
    return None


def as_int(value: Any) -> int | None:
    """An option's value as it will be read; None when it is missing or not a number (which is reported elsewhere)."""
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None


# internals


def _check_idempotence(config: CheckedOptions) -> None:
    if config.enable_idempotence:
        conflict = idempotence_conflict({name: getattr(config, name) for name in IDEMPOTENCE_OPTIONS})
        if conflict is not None:
            raise ConfigurationError(f"enable_idempotence=True contradicts {conflict}, or enable_idempotence=False")
    if config.enable_gapless_guarantee and not config.enable_idempotence:
        raise ConfigurationError("enable_gapless_guarantee=True needs enable_idempotence=True, with acks='all'")
    if config.enable_gapless_guarantee and config.transactional_id is not None:
        raise ConfigurationError(
            "enable_gapless_guarantee=True has no effect with a transactional_id: a transaction is whole or "
            "nothing; leave one of the two out"
        )


def _check_times(config: CheckedOptions) -> None:
    least = min(config.effective_linger_ms + config.request_timeout_ms, MAX_INT)  # as in Java: no duration is longer
    if config.delivery_timeout_ms < least:
        raise ConfigurationError(
            f"delivery_timeout_ms={config.delivery_timeout_ms} is less than linger_ms + request_timeout_ms = "
            f"{config.effective_linger_ms} + {config.request_timeout_ms}: records would expire before an answer; "
            f"write delivery_timeout_ms={least} or more, or a shorter request_timeout_ms"
        )


def _check_levels(config: CheckedOptions) -> None:
    codecs = {config.compression_type, *(options.compression_type for options in config.topics.values())}
    for codec, name in LEVEL_OPTIONS.items():
        if name in config.model_fields_set and codec not in codecs:
            raise ConfigurationError(
                f"{name}={getattr(config, name)} has no effect with compression_type={config.compression_type!r}: "
                f"write compression_type={codec!r}, or leave the level out"
            )


def _check_transactions(config: CheckedOptions) -> None:
    if config.transactional_id is not None and not config.enable_idempotence:
        raise ConfigurationError(
            f"transactional_id={config.transactional_id!r} needs idempotence: leave enable_idempotence=False out"
        )
    if config.transaction_two_phase_commit_enable:
        if config.transactional_id is None:
            raise ConfigurationError(
                "transaction_two_phase_commit_enable=True needs a transactional_id: write one that this service "
                "keeps when it is started anew"
            )
        if "transaction_timeout_ms" in config.model_fields_set:
            raise ConfigurationError(
                f"transaction_timeout_ms={config.transaction_timeout_ms} has no effect with two-phase commit, whose "
                "transactions have no time-out: leave it out"
            )


def _check_overflow(config: CheckedOptions) -> None:
    policies = overflow_policies(config)
    dropping = next((policy for policy in (DROP_OLDEST, DROP_NEWEST) if policy in policies), None)
    for name in ("transactional_id", "enable_gapless_guarantee"):
        if dropping is not None and getattr(config, name):
            raise ConfigurationError(
                f"overflow={dropping!r} contradicts {name}={getattr(config, name)!r}: dropped records would leave "
                "gaps; write overflow='wait' or 'raise'"
            )
    if config.manual_flush and WAIT in policies:
        raise ConfigurationError(
            "overflow='wait' contradicts manual_flush=True: nothing is sent, so there would be no room however "
            "long a call waits; write 'raise', 'drop_newest' or 'drop_oldest'"
        )
    if config.manual_flush and config.linger_ms is not None:
        raise ConfigurationError(
            f"linger_ms={config.linger_ms} has no effect with manual_flush=True: leave one of the two out"
        )


def _check_spool(config: CheckedOptions) -> None:
    policies = overflow_policies(config)
    if config.spool_dir is None:
        if SPOOL in policies:
            raise ConfigurationError("overflow='spool' needs a folder: write spool_dir='/var/spool/this-service'")
        for name in ("spool_after_ms", "spool_max_bytes", "spool_fsync"):
            if name in config.model_fields_set:
                raise ConfigurationError(f"{name}={getattr(config, name)!r} has no effect without spool_dir")
        return
    for name, is_against, why in (
        ("transactional_id", config.transactional_id is not None, "a transaction ends long before its records do"),
        ("enable_gapless_guarantee", config.enable_gapless_guarantee, "a refused record of the spool is a gap"),
        ("manual_flush", config.manual_flush, "nothing would be sent out of the spool"),
        ("acks", config.acks == 0, "without answers nothing may leave the spool"),
    ):
        if is_against:
            raise ConfigurationError(
                f"spool_dir={config.spool_dir!r} contradicts {name}={getattr(config, name)!r}: {why}; leave one of "
                "the two out"
            )
    if SPOOL not in policies:
        raise ConfigurationError(
            f"spool_dir={config.spool_dir!r} has no effect with overflow={config.overflow!r}: leave overflow out, or "
            "write overflow='spool' for some of the topics"
        )
    if config.spool_max_bytes < config.max_request_size:
        raise ConfigurationError(
            f"spool_max_bytes={config.spool_max_bytes} is less than max_request_size={config.max_request_size}: such a "
            f"record would never find room; write spool_max_bytes={config.max_request_size} or more"
        )


def _check_topics(config: CheckedOptions) -> None:
    for topic, options in config.topics.items():
        if options.linger_ms is None:
            continue
        if config.manual_flush:
            raise ConfigurationError(
                f"linger_ms={options.linger_ms} of topic {topic!r} has no effect with manual_flush=True"
            )
        least = min(options.linger_ms + config.request_timeout_ms, MAX_INT)
        if config.delivery_timeout_ms < least:
            raise ConfigurationError(
                f"delivery_timeout_ms={config.delivery_timeout_ms} is less than linger_ms + request_timeout_ms = "
                f"{options.linger_ms} + {config.request_timeout_ms} of topic {topic!r}: records would expire before "
                f"an answer; write delivery_timeout_ms={least} or more"
            )
