"""A configuration in words: each option's value and source, the promises of all of them together, and oddities.

Owns the words, and the list of odd combinations: those that are allowed but rarely intended. Values that make no
sense at all are refused by ``ProducerConfig``. Kafka's counterpart is the list of values that ``AbstractConfig`` logs.

Rules: a secret's value is never shown; a number in a sentence is computed from the options, so that it is
right for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ..common import HIDDEN, MAX_INT, JsonLike
from ..observability import is_secret_name
from .accumulator.accumulator_settings import settings_of
from .config import ADAPTIVE_LINGER_MS, AUTO_LINGER_MS, ProducerConfig
from .identity.sequenced_batch import BATCHES_REMEMBERED
from .options.auto import AUTO
from .options.circuit_options import CircuitBreaker
from .options.overflow_policy import DROP_NEWEST, RAISE, SPOOL, WAIT

__all__ = ["Explanation", "OptionInForce", "Sentence", "explain"]

MOST_SHOWN: Final = 5
"""Topics named in a line; there may be thousands."""

DEFAULT: Final = "default"
DERIVED: Final = "follows from others"
BALANCERS_CUT_AT_MS: Final = 240_000
"""Cloud load balancers silently end a connection that was idle for about so long."""


class OptionInForce(NamedTuple):
    """An option as it is: ``origin`` is its source; ``kafka_name`` is None for an option that Kafka does not have."""

    name: str
    kafka_name: str | None
    value: JsonLike
    origin: str
    description: str


class Sentence(NamedTuple):
    """Something that the options imply; ``subject`` is a word for it."""

    subject: str
    text: str


class Explanation(NamedTuple):
    """The explanation of a configuration: its options, their consequences, and its oddities."""

    options: tuple[OptionInForce, ...]
    implications: tuple[Sentence, ...]
    oddities: tuple[Sentence, ...]

    def as_json(self) -> dict[str, object]:
        """All of it, as JSON has it."""
        return {
            "options": [one._asdict() for one in self.options],
            "implications": [one._asdict() for one in self.implications],
            "oddities": [one._asdict() for one in self.oddities],
        }


def explain(config: ProducerConfig, origins: Mapping[str, str] | None = None) -> Explanation:
    """Explain a configuration. ``origins`` has the sources of the given options; those of the others are derived."""
    return Explanation(tuple(_options(config, origins or {})), tuple(_implications(config)), tuple(_oddities(config)))


# internals: the options


def _options(config: ProducerConfig, origins: Mapping[str, str]) -> Iterator[OptionInForce]:
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        origin = origins.get(name)
        if origin is None:
            is_default = name not in config.model_fields_set or value == field.default
            origin = DEFAULT if is_default else DERIVED if origins else "given"
        kafka_name = config.kafka_names.get(name, name.replace("_", "."))
        yield OptionInForce(name, kafka_name, _shown(name, value), origin, " ".join((field.description or "").split()))


def _shown(name: str, value: object) -> JsonLike:
    """The value as JSON can have it; a secret is only named as set."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if is_secret_name(name):
        return HIDDEN
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_shown(name, one) for one in value]
    return repr(value)


# internals: consequences


def _implications(config: ProducerConfig) -> Iterator[Sentence]:
    yield Sentence("loss", _loss(config))
    yield Sentence("duplicates", _duplicates(config))
    yield Sentence("order", _order(config))
    yield Sentence("time", _time(config))
    if config.circuit_breaker is not None:
        yield Sentence("failing", _failing(config.circuit_breaker))
    yield Sentence("linger", _linger(config))
    yield Sentence("memory", _memory(config))
    yield Sentence("size", _size(config))
    yield Sentence("security", _security(config))
    if config.transactional_id is not None:
        yield Sentence("transactions", _transactions(config))


def _loss(config: ProducerConfig) -> str:
    if config.acks == "all":
        return "an acknowledged record is lost only with all in-sync replicas (min.insync.replicas is the topic's)"
    if config.acks == 1:
        return "an acknowledged record is lost if its leader fails before the other replicas have copied it (acks=1)"
    return "a record may be lost at any time, without an error (acks=0)"


def _duplicates(config: ProducerConfig) -> str:
    if config.enable_idempotence:
        return "a retry never writes a record twice (enable_idempotence=True)"
    if config.acks == 0 or config.retries == 0:
        return "no request is sent twice, so nothing is written twice"
    return "a retry may write a record twice (enable_idempotence=False)"


def _order(config: ProducerConfig) -> str:
    in_flight = _in_flight(config)
    if config.enable_idempotence:
        gap = "; behind a record that failed nothing is written" if config.enable_gapless_guarantee else ""
        return f"within a partition it is the order of the calls, with {in_flight} requests in flight{gap}"
    if config.most_in_flight == 1 or config.acks == 0 or config.retries == 0:
        return "within a partition it is the order of the calls"
    return f"a retry may arrive after later records ({in_flight} requests in flight, no idempotence)"


def _in_flight(config: ProducerConfig) -> str:
    if config.max_in_flight_requests_per_connection == AUTO:
        return f"1 to {config.most_in_flight}"
    return str(config.most_in_flight)


def _time(config: ProducerConfig) -> str:
    worst = config.max_block_ms + config.delivery_timeout_ms
    text = (
        f"await send() ends within {_seconds(worst)}: at most {_seconds(config.max_block_ms)} until it is accepted "
        f"(max_block_ms), then at most {_seconds(config.delivery_timeout_ms)} until its outcome (delivery_timeout_ms)"
    )
    if config.retries == 0 or config.acks == 0:
        return f"{text}; nothing is sent again"
    attempts = max(1, config.delivery_timeout_ms // config.request_timeout_ms)
    return (
        f"{text}; if a broker does not answer, that allows {attempts} attempt{'s' if attempts > 1 else ''} of "
        f"{_seconds(config.request_timeout_ms)} (request_timeout_ms)"
    )


def _failing(breaker: CircuitBreaker) -> str:
    which = "the topic" if breaker.scope == "topic" else "all topics"
    return (
        f"after {breaker.failures} deliveries in a row that failed, calls for {which} fail at once, but for "
        f"{breaker.probes} each {_seconds(breaker.open_ms)}, until one is delivered (circuit_breaker)"
    )


def _linger(config: ProducerConfig) -> str:
    if config.manual_flush:
        return "nothing is sent before flush() or close(), and so an await send() ends with one (manual_flush=True)"
    if config.linger_ms is None:
        return (
            "adapts: a batch goes at once while its leader has nothing in flight, else it gathers for at most "
            f"{ADAPTIVE_LINGER_MS} ms; a lone await send() takes a round trip"
        )
    if config.linger_ms == AUTO:
        return (
            "follows the arrivals: with few, or while its leader has nothing in flight, a batch goes at once; with "
            f"many it gathers for a round trip, or {AUTO_LINGER_MS} ms, at most; a lone await send() takes a round trip"
        )
    if config.linger_ms == 0:
        return "no batch waits for more records; those that come while a request is under way share the next one"
    return f"each batch that is not full gathers for {_seconds(config.linger_ms)}, and so does a lone await send()"


def _memory(config: ProducerConfig) -> str:
    bound = _bytes(config.buffer_memory)
    if config.buffer_records is not None:
        bound += f", and are at most {config.buffer_records:,}"
    own = any(options.overflow is not None for options in config.topics.values())
    return f"records without an outcome hold at most {bound}; when it is full, {_without_room(config)}" + (
        ("; some topics have an overflow of their own" if own else "") + _priority(config)
    )


def _priority(config: ProducerConfig) -> str:
    topics = sorted(config.priority_topics)
    if not topics:
        return ""
    shown = ", ".join(topics[:MOST_SHOWN]) + (" and others" if len(topics) > MOST_SHOWN else "")
    return f"; {config.priority_reserve_percent} % is kept for {shown}, whose records get room and leave before others"


def _without_room(config: ProducerConfig) -> str:
    if config.overflow == WAIT:
        wait = f"for at most {_seconds(config.max_block_ms)}"
        return f"send() and enqueue() wait, {wait}, and send_nowait() raises BufferExhaustedError"
    if config.overflow == SPOOL:
        return f"records go to {config.spool_dir}, at most {_bytes(config.spool_max_bytes)}, and are sent from there"
    if config.overflow == RAISE:
        return "calls raise BufferExhaustedError at once"
    dropped = "the new record is" if config.overflow == DROP_NEWEST else "the oldest records that were not sent are"
    return f"{dropped} dropped (overflow={config.overflow!r})"


def _size(config: ProducerConfig) -> str:
    limits = "brokers and topics have limits of their own (max.message.bytes)"
    if config.topic_limits:
        limits = (
            "topics' own limits are read, and batches made to fit (topic_limits=True); one that was raised is known "
            f"within {_seconds(config.metadata_max_age_ms)}"
        )
    codec: str = config.compression_type
    if codec == AUTO:
        codec = "chosen for each topic: none, lz4 or zstd and its level, by the bytes and the CPU time of samples"
    batch = _bytes(config.batch_size)
    in_bulk = settings_of(config, has_own_linger=False).bulk_batch_size
    if codec == "none" and in_bulk > config.batch_size:
        batch += f" ({_bytes(in_bulk)} in send_many() and send_arrow())"
    codec = f"before compression ({codec})"
    return f"a record has at most {_bytes(config.max_request_size)}, a batch {batch} {codec}; {limits}"


def _security(config: ProducerConfig) -> str:
    encrypted = "encrypted" if config.uses_tls else "readable by anybody on the way"
    mechanism = config.sasl_mechanism if isinstance(config.sasl_mechanism, str) else "a mechanism of your own"
    known = "each broker proves its name" if config.uses_tls else "brokers prove nothing"
    if not config.uses_tls and config.uses_sasl and mechanism.startswith(("SCRAM", "GSSAPI")):
        known = f"brokers prove by {mechanism} that they know us"
    if config.uses_tls and not config.ssl_endpoint_identification_algorithm:
        known = "brokers need a certificate, but of any name"
    if config.ssl_context is not None:
        known = "the ssl_context decides how brokers are verified"
    us = f"we are known by {mechanism}" if config.uses_sasl else "we have no credentials"
    if config.uses_tls and (config.ssl_keystore_location or config.ssl_keystore_certificate_chain):
        us += " and by our certificate"
    return f"{config.security_protocol}: records are {encrypted}; {known}; {us}"


def _transactions(config: ProducerConfig) -> str:
    if config.transaction_two_phase_commit_enable:
        return f"as {config.transactional_id!r}, with two-phase commit: a prepared one waits without end"
    return (
        f"as {config.transactional_id!r}: a later producer of this name fences this one; one that is open for "
        f"{_seconds(config.transaction_timeout_ms)} is aborted by the broker"
    )


# internals: oddities


def _oddities(config: ProducerConfig) -> Iterator[Sentence]:
    for name, is_odd, text in _checks(config):
        if is_odd:
            yield Sentence(name, text)


def _checks(config: ProducerConfig) -> Iterator[tuple[str, bool, str]]:
    """Combinations that are allowed but rarely intended: the option to look at, whether the combination is there,
    and the remedy.
    """
    idle, in_flight = config.connections_max_idle_ms, config.most_in_flight
    yield (
        "connections_max_idle_ms",
        idle < 0 or idle >= BALANCERS_CUT_AT_MS,
        f"{idle}: cloud load balancers cut a connection silently at some {BALANCERS_CUT_AT_MS}, write 180000",
    )
    yield (
        "batch_size",
        config.batch_size > config.max_request_size,
        f"{config.batch_size} is never reached: a request has at most max_request_size={config.max_request_size}",
    )
    yield (
        "buffer_memory",
        config.buffer_memory < config.batch_size,
        f"{config.buffer_memory} is less than one batch ({config.batch_size}): batches leave before they are full",
    )
    yield (
        "retries",
        0 < config.retries < MAX_INT,
        f"a record fails after {config.retries} more attempts, perhaps long before delivery_timeout_ms: leave it out",
    )
    yield (
        "max_in_flight_requests_per_connection",
        in_flight == 1 and config.enable_idempotence,
        f"1 costs throughput, and an idempotent producer keeps the order with {BATCHES_REMEMBERED}: leave it out",
    )
    yield (
        "enable_idempotence",
        not config.enable_idempotence
        and config.acks == "all"
        and config.retries > 0
        and in_flight <= BATCHES_REMEMBERED,
        "False saves nothing with acks='all', and a retry may write twice: leave it out",
    )
    yield (
        "linger_ms",
        config.effective_linger_ms > 1_000,
        f"a lone await send() takes {_seconds(config.effective_linger_ms)}: leave it out, and it adapts",
    )
    yield (
        "security_protocol",
        config.security_protocol == "SASL_PLAINTEXT" and config.sasl_mechanism in ("PLAIN", "OAUTHBEARER"),
        f"{config.sasl_mechanism} sends the password or token as it is, and nothing encrypts it: use SASL_SSL",
    )
    yield (
        "ssl_endpoint_identification_algorithm",
        config.uses_tls and config.ssl_context is None and not config.ssl_endpoint_identification_algorithm,
        "any certificate of a trusted authority is taken for any broker's: leave it out",
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:,g} s"


def _bytes(count: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size:,} {unit}"
    return f"{count:,} bytes"
