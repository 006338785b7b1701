"""The declarations of the producer's options, and the defaults of those that are left out.

Extends ``ClientConfigFields`` with the options of Kafka's ``ProducerConfig``: its names with dots as underscores, its
defaults, except for ``linger_ms`` (None adapts), ``batch_size`` (131,072: buffers grow as they fill) and
``connections_max_idle_ms``. It knows neither the producer nor the loop; ``config`` makes a pydantic model of it.

Rules, as Java's ``postProcessAndValidateIdempotenceConfigs`` and ``configureDeliveryTimeout`` have them: an option left
to its default gives way to one that was given (``acks=1`` alone turns idempotence off, a long ``request_timeout_ms``
lengthens ``delivery_timeout_ms``); two given options that contradict each other are an error that gives the remedy,
see ``option_conflicts``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from ...client.options.config_fields import ClientConfigFields, Milliseconds
from ...common import MAX_INT, MAX_LONG
from ...option_fields import default_of
from ...record.compression import DEFAULT_LEVELS, LEVEL_OPTIONS, Compression
from .auto import AUTO
from .linger_bounds import ADAPTIVE_LINGER_MS, AUTO_LINGER_MS
from .option_conflicts import (
    MAX_IN_FLIGHT_FOR_IDEMPOTENCE,
    as_int,
    check_conflicts,
    idempotence_conflict,
    overflow_policies,
)
from .option_values import (
    CompressionName,
    FsyncPolicy,
    InFlight,
    SerializerOption,
    block_time,
    folder_or_none,
    gzip_level,
    kind_of_linger,
    partitioner_or_none,
)
from .overflow_policy import DROP_OLDEST, RAISE, SPOOL, WAIT, OverflowPolicy

if TYPE_CHECKING:
    from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

    from .circuit_options import CircuitBreaker, circuit_breaker_of
    from .topic_options import TopicOptions, topics_of
else:
    from ...option_fields import AfterValidator, BeforeValidator, Discriminator, Field, Tag

__all__ = ["ProducerConfigFields"]

MOST_IN_FLIGHT: Final = 16
"""Requests with ``max_in_flight_requests_per_connection="auto"``, if nothing else bounds them."""
LARGER_IN_BULK: Final = 8
"""Batches of calls with many records, in units of ``batch_size``; a request bounds them."""

_GZIP: Final = Compression.GZIP.level_bounds
_LZ4: Final = Compression.LZ4.level_bounds
_ZSTD: Final = Compression.ZSTD.level_bounds


class ProducerConfigFields(ClientConfigFields):
    """The options that a producer has."""

    kafka_names: ClassVar[Mapping[str, str | None]] = {
        **ClientConfigFields.kafka_names,
        "partitioner": "partitioner.class",
        "interceptors": "interceptor.classes",
        "buffer_records": None,
        "priority_reserve_percent": None,
        "overflow": None,
        "spool_dir": None,
        "spool_after_ms": None,
        "spool_max_bytes": None,
        "spool_fsync": None,
        "cancel_takes_back": None,
        "manual_flush": None,
        "topics": None,
        "topic_limits": None,
        "circuit_breaker": None,
        "metrics_per_node": None,
        "metrics_topics_max": None,
        "record_timing": None,
        "serialize_in_thread_above": None,
    }

    acks: Annotated[
        Literal["all", 0, 1],
        Field(description='Replicas that must have a record: "all" in sync, 1 the leader, 0 waits for no answer.'),
    ] = "all"
    enable_idempotence: Annotated[
        bool,
        Field(description="A retry never writes a record twice, and order is kept with five requests in flight."),
    ] = True
    enable_gapless_guarantee: Annotated[
        bool,
        Field(
            description="Once a record failed, no later one of its partition is written: they fail too, until resume()."
        ),
    ] = False
    retries: Annotated[
        int, Field(ge=0, le=MAX_INT, description="How often a batch is sent again; prefer delivery_timeout_ms.")
    ] = MAX_INT
    delivery_timeout_ms: Annotated[
        int, Field(ge=0, le=MAX_INT, description="Milliseconds from acceptance to outcome, retries included.")
    ] = 120_000
    max_block_ms: Annotated[
        Milliseconds,
        AfterValidator(block_time),
        Field(
            description="Milliseconds that a call waits to be accepted: for metadata, for an async serializer, for "
            "room. Also start()."
        ),
    ] = 60_000

    max_in_flight_requests_per_connection: Annotated[
        InFlight,
        Field(
            description="Unanswered requests to one broker. auto adapts to each broker's round trip: as many as fill "
            "the connection, 1 to 5, or up to 16 without idempotence."
        ),
    ] = 5  # type: ignore[assignment]  # of a producer it may adapt
    linger_ms: Annotated[
        Annotated[Milliseconds, Tag("number")] | Annotated[Literal["auto"], Tag("auto")] | Annotated[None, Tag("none")],
        Discriminator(kind_of_linger),
        Field(
            description="Milliseconds that a batch gathers, from its first record. None adapts: 0 while its leader is "
            "idle, else at most 5 (more when hundreds of partitions have data). auto adapts to the arrivals: 0 while "
            "few records come, else at most one round trip or 20 ms, whichever is shorter. Kafka's default is 5."
        ),
    ] = None
    batch_size: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_INT,
            description="Bytes of a batch, at most, before compression. Without a codec, and unless this is given, "
            "send_many() and send_arrow() fill batches of up to eight times as many. Kafka's default is 16,384.",
        ),
    ] = 131_072
    buffer_memory: Annotated[
        int, Field(ge=1, le=MAX_LONG, description="Bytes that records without an outcome may hold; then calls wait.")
    ] = 33_554_432
    buffer_records: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_INT,
            description="Records that may be without an outcome, beside buffer_memory; then calls wait. None: as many "
            "as fit. librdkafka's queue.buffering.max.messages.",
        ),
    ] = None
    priority_reserve_percent: Annotated[
        int,
        Field(
            ge=0,
            le=90,
            description="Per cent of buffer_memory, and of buffer_records, that only records of topics with "
            "priority='high' may take, where there are any. See docs/overflow.md.",
        ),
    ] = 10
    max_request_size: Annotated[
        int,
        Field(
            ge=1, le=MAX_INT, description="Bytes of a Produce request, and so of a record, at most, before compression."
        ),
    ] = 1_048_576

    overflow: Annotated[
        OverflowPolicy,
        Field(
            description="The fate of a record that finds the buffer full: wait up to max_block_ms, raise at once, "
            "drop_newest drops it, drop_oldest drops the oldest unsent one, spool keeps it on disk (the default with "
            "spool_dir). See docs/overflow.md."
        ),
    ] = WAIT
    spool_dir: Annotated[
        str | os.PathLike[str] | None,
        BeforeValidator(folder_or_none),
        Field(
            description="Folder, this producer's own, for records while brokers are away or the buffer is full: they "
            "are sent from there, in order, also after a restart. See docs/spool.md."
        ),
    ] = None
    spool_after_ms: Annotated[
        Milliseconds | None,
        Field(
            description="Milliseconds, in addition to linger, after which unsent records move to the spool although "
            "the buffer has room. None: only when the buffer is full."
        ),
    ] = 5_000
    spool_max_bytes: Annotated[
        int, Field(ge=1, le=MAX_LONG, description="Bytes of the spool, at most; then calls wait up to max_block_ms.")
    ] = 1_073_741_824
    spool_fsync: Annotated[
        FsyncPolicy,
        Field(
            description="When a spooled record is safe: always waits for fsync; with every_second a machine crash "
            "loses at most one second; never leaves syncing to the system. A process crash alone loses nothing."
        ),
    ] = "always"
    cancel_takes_back: Annotated[
        bool,
        Field(
            description="A cancelled send() or send_many() takes its unsent records out of their batch, and says so."
        ),
    ] = False
    manual_flush: Annotated[
        bool,
        Field(description="Nothing is sent before flush() or close(), and without room calls raise at once."),
    ] = False
    topics: Annotated[
        Mapping[str, TopicOptions],
        BeforeValidator(topics_of),
        Field(description="Options of single topics, by their names: TopicOptions; in strings, as JSON."),
    ] = {}  # a field's default, which pydantic copies

    topic_limits: Annotated[
        bool,
        Field(
            description="Read the topics' limits (max.message.bytes, timestamps, min.insync.replicas) from "
            "DescribeConfigs, in the background: batches are made to fit, and a record that cannot fit is refused at "
            "its call."
        ),
    ] = False
    circuit_breaker: Annotated[
        CircuitBreaker | None,
        BeforeValidator(circuit_breaker_of),
        Field(
            description="Fail calls at once while deliveries to their topic keep failing: CircuitBreaker; in strings, "
            "as JSON. None: each record waits for its own outcome."
        ),
    ] = None

    compression_type: Annotated[
        CompressionName,
        Field(
            description="The codec of batches. auto chooses for each topic: none, lz4 or zstd and its level, by the "
            "measured cost of sampled records. Kafka has no auto."
        ),
    ] = "none"
    compression_gzip_level: Annotated[
        int,
        Field(ge=_GZIP[0], le=_GZIP[1], description="1 to 9, or -1 for gzip's default."),
        AfterValidator(gzip_level),
    ] = DEFAULT_LEVELS[Compression.GZIP]
    compression_lz4_level: Annotated[
        int, Field(ge=_LZ4[0], le=_LZ4[1], description=f"{Compression.LZ4.levels_shown}.")
    ] = DEFAULT_LEVELS[Compression.LZ4]
    compression_zstd_level: Annotated[
        int, Field(ge=_ZSTD[0], le=_ZSTD[1], description=f"{Compression.ZSTD.levels_shown}.")
    ] = DEFAULT_LEVELS[Compression.ZSTD]

    key_serializer: Annotated[
        SerializerOption, Field(description="A function that makes a key into bytes, async or not. None takes bytes.")
    ] = None
    value_serializer: Annotated[
        SerializerOption, Field(description="A function that makes a value into bytes, async or not. None takes bytes.")
    ] = None
    serialize_in_thread_above: Annotated[
        int | None,
        Field(ge=0, le=MAX_INT, description="Bytes beyond which a key or value is serialized in a thread."),
    ] = None
    partitioner: Annotated[
        Any,
        BeforeValidator(partitioner_or_none),
        Field(
            description="None is Kafka's: by key with murmur2, else sticky. Otherwise another client's hash by name: "
            "consistent_random (librdkafka's default), fnv1a (Sarama's), fnv1a_reference; or round_robin, an object "
            "with partition(), or a function (topic, key_bytes, value_bytes, key, value, cluster)."
        ),
    ] = None
    partitioner_ignore_keys: Annotated[
        bool, Field(description="Keys do not choose the partition; all records go to the sticky one.")
    ] = False
    partitioner_adaptive_partitioning_enable: Annotated[
        bool, Field(description="Send more of the records without a key to brokers that answer quickly.")
    ] = True
    partitioner_availability_timeout_ms: Annotated[
        Milliseconds,
        Field(
            description="Milliseconds for which a broker may take no batch before records without a key avoid it; "
            "0: for ever."
        ),
    ] = 0
    interceptors: Annotated[
        Sequence[Any], Field(description="Objects with hooks that are called for each record, in this order.")
    ] = ()
    allow_auto_create_topics: Annotated[
        bool,
        Field(
            description="Let the broker make a topic that a record is sent to, if its own auto.create.topics.enable "
            "says so too."
        ),
    ] = True

    metrics_per_node: Annotated[
        bool, Field(description="Measure each broker too, for `node_metrics()`; Kafka always does.")
    ] = False
    metrics_topics_max: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_INT,
            description="Measure this many topics, for `topic_metrics()`; further ones are summed up as `*`. 0: none. "
            "Kafka measures all.",
        ),
    ] = 0
    enable_metrics_push: Annotated[
        bool, Field(description="Push metrics to brokers whose operators have subscribed to them (KIP-714).")
    ] = True
    record_timing: Annotated[
        bool, Field(description="Measure how long each record took, as `RecordMetadata.timing`.")
    ] = False

    transactional_id: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Name of the producer in transactions: a later one of this name fences an earlier. None: no "
            "transactions.",
        ),
    ] = None
    transaction_timeout_ms: Annotated[
        int,
        Field(
            ge=1, le=MAX_INT, description="Milliseconds after which a broker aborts a transaction that is still open."
        ),
    ] = 60_000
    transaction_two_phase_commit_enable: Annotated[
        bool,
        Field(
            description="Transactions may be prepared, and then wait for another system's commit, without a time-out "
            "(KIP-939). The cluster must have it enabled too."
        ),
    ] = False
    transaction_keep_prepared: Annotated[
        bool,
        Field(
            description="With two-phase commit: start() keeps the prepared transaction of an earlier producer of this "
            "name, for complete_transaction()."
        ),
    ] = True

    @property
    def required_acks(self) -> int:
        """``acks`` as the protocol writes it."""
        return -1 if self.acks == "all" else self.acks

    @property
    def compression(self) -> Compression:
        """The codec; with ``auto`` the first one."""
        return Compression.NONE if self.compression_type == AUTO else Compression.for_name(self.compression_type)

    @property
    def chooses_codecs(self) -> bool:
        """True when the codec of any topic is chosen at run time."""
        return AUTO in (self.compression_type, *(options.compression_type for options in self.topics.values()))

    @property
    def compression_level(self) -> int | None:
        """The codec's level; None for codecs that have none."""
        name = LEVEL_OPTIONS.get(self.compression_type)
        return None if name is None else int(getattr(self, name))

    @property
    def effective_linger_ms(self) -> int:
        """The longest that a batch gathers."""
        if self.linger_ms is None:
            return ADAPTIVE_LINGER_MS
        return AUTO_LINGER_MS if self.linger_ms == AUTO else self.linger_ms

    @property
    def drops_oldest(self) -> bool:
        """True when records of any topic may be dropped after they were accepted."""
        return DROP_OLDEST in overflow_policies(self)

    @property
    def priority_topics(self) -> frozenset[str]:
        """The topics whose records get room, and leave, before others."""
        return frozenset(topic for topic, options in self.topics.items() if options.priority == "high")

    def for_topic(self, topic: str) -> Self:
        """The options as they are for one topic."""
        options = self.topics.get(topic)
        return self if options is None else self.model_copy(update=options.changes())

    @property
    def bulk_batch_size(self) -> int:
        """Bytes of a batch while a call brings many records at once: more than ``batch_size``, unless it was given."""
        return self.batch_size if "batch_size" in self.model_fields_set else LARGER_IN_BULK * self.batch_size

    @property
    def most_in_flight(self) -> int:
        """As ``ClientConfigFields.most_in_flight``."""
        found = self.max_in_flight_requests_per_connection
        if isinstance(found, int):
            return found
        return MAX_IN_FLIGHT_FOR_IDEMPOTENCE if self.enable_idempotence else MOST_IN_FLIGHT

    @property
    def guarantee_message_order(self) -> bool:
        """True when a partition may have one batch in flight only (Java's ``guaranteeMessageOrder``)."""
        return self.max_in_flight_requests_per_connection == 1

    # more than one option

    @classmethod
    def normalized_for_producer(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The effective options, those that were left out too."""
        values = dict(values)
        if "acks" in values:
            acks = str(values["acks"]).strip().lower()
            # Anything else becomes text, so that True is not taken for 1.
            values["acks"] = {"-1": "all", "all": "all", "0": 0, "1": 1}.get(acks, str(values["acks"]))
        if values.get("compression_type", "") is None:
            values["compression_type"] = "none"
        elif isinstance(values.get("compression_type"), str):
            values["compression_type"] = values["compression_type"].lower()
        if isinstance(values.get("linger_ms"), str):
            word = values["linger_ms"].strip().lower()
            values["linger_ms"] = {"": None, "none": None, "adaptive": None}.get(word, word)
        # More in flight do not turn idempotence off by themselves: order would go with it (an error in Kafka 4 too).
        chosen: dict[str, Any] = {name: values[name] for name in ("acks", "retries") if name in values}
        if "enable_idempotence" not in values and idempotence_conflict(chosen) is not None:
            values["enable_idempotence"] = False
        if str(values.get("manual_flush")).strip().lower() in _TRUE:
            values.setdefault("overflow", RAISE)
        if values.get("spool_dir") is not None:
            values.setdefault("overflow", SPOOL)
        _lengthen_delivery_timeout(cls, values)
        return values

    def check_producer(self) -> None:
        """Raise ConfigurationError for options that contradict each other."""
        check_conflicts(self)


_TRUE: Final = ("true", "1", "yes", "y", "on", "t")  # as pydantic reads strings


def _lengthen_delivery_timeout(config: type[ProducerConfigFields], values: dict[str, Any]) -> None:
    """A delivery timeout that was not given follows the options that need it longer, as in Java."""
    if "delivery_timeout_ms" in values:
        return
    linger = AUTO_LINGER_MS
    if values.get("linger_ms") != AUTO:
        linger = as_int(values.get("linger_ms")) or ADAPTIVE_LINGER_MS
    request_timeout = as_int(values.get("request_timeout_ms"))
    if request_timeout is None:
        request_timeout = default_of(config, "request_timeout_ms")
    least = min(linger + request_timeout, MAX_INT)
    if default_of(config, "delivery_timeout_ms") < least:
        values["delivery_timeout_ms"] = least
