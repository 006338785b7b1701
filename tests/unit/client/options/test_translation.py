"""Every name of librdkafka's and of Java's producers is translated, ignored or refused with a sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.client.options.foreign_options import LIBRDKAFKA_NAMES
from aiokafkapy.client.options.translation import translated
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.reader import ReaderConfig

# CONFIGURATION.md of librdkafka 2.15: the options of a producer, in its order, callbacks too.
LIBRDKAFKA = """
builtin.features client.id metadata.broker.list bootstrap.servers message.max.bytes message.copy.max.bytes
receive.message.max.bytes max.in.flight.requests.per.connection max.in.flight metadata.recovery.strategy
metadata.recovery.rebootstrap.trigger.ms topic.metadata.refresh.interval.ms metadata.max.age.ms
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse
topic.metadata.propagation.max.ms topic.blacklist debug socket.timeout.ms socket.blocking.max.ms
socket.send.buffer.bytes socket.receive.buffer.bytes socket.keepalive.enable socket.nagle.disable socket.max.fails
broker.address.ttl broker.address.family socket.connection.setup.timeout.ms connections.max.idle.ms
reconnect.backoff.jitter.ms reconnect.backoff.ms reconnect.backoff.max.ms statistics.interval.ms enabled_events
error_cb throttle_cb stats_cb log_cb log_level log.queue log.thread.name enable.random.seed log.connection.close
background_event_cb socket_cb connect_cb closesocket_cb open_cb resolve_cb opaque default_topic_conf
internal.termination.signal api.version.request api.version.request.timeout.ms api.version.fallback.ms
broker.version.fallback allow.auto.create.topics security.protocol ssl.cipher.suites ssl.curves.list ssl.sigalgs.list
ssl.key.location ssl.key.password ssl.key.pem ssl_key ssl.certificate.location ssl.certificate.pem ssl_certificate
ssl.ca.location https.ca.location https.ca.pem ssl.ca.pem ssl_ca ssl.ca.certificate.stores ssl.crl.location
ssl.keystore.location ssl.keystore.password ssl.providers ssl.engine.location ssl.engine.id ssl_engine_callback_data
enable.ssl.certificate.verification ssl.endpoint.identification.algorithm ssl.certificate.verify_cb sasl.mechanisms
sasl.mechanism sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.kinit.cmd sasl.kerberos.keytab
sasl.kerberos.min.time.before.relogin sasl.username sasl.password sasl.oauthbearer.config
enable.sasl.oauthbearer.unsecure.jwt oauthbearer_token_refresh_cb sasl.oauthbearer.method sasl.oauthbearer.client.id
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.client.secret sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.grant.type sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.metadata.authentication.type plugin.library.paths interceptors client.rack transactional.id
transaction.timeout.ms enable.idempotence enable.gapless.guarantee queue.buffering.max.messages
queue.buffering.max.kbytes queue.buffering.max.ms linger.ms message.send.max.retries retries retry.backoff.ms
retry.backoff.max.ms queue.buffering.backpressure.threshold compression.codec compression.type batch.num.messages
batch.size delivery.report.only.error dr_cb dr_msg_cb sticky.partitioning.linger.ms client.dns.lookup
enable.metrics.push request.required.acks acks request.timeout.ms message.timeout.ms delivery.timeout.ms
queuing.strategy produce.offset.report partitioner partitioner_cb msg_order_cmp compression.level
test.mock.num.brokers go.batch.producer go.delivery.reports go.logs.channel.enable
dotnet.producer.enable.delivery.reports on_delivery oauth_cb logger
"""
JAVA = """
acks batch.size bootstrap.servers buffer.memory client.dns.lookup client.id compression.gzip.level
compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms delivery.timeout.ms
enable.idempotence enable.metrics.push interceptor.classes key.serializer linger.ms max.block.ms
max.in.flight.requests.per.connection max.request.size metadata.max.age.ms metadata.max.idle.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
metrics.recording.level metrics.sample.window.ms partitioner.adaptive.partitioning.enable
partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys receive.buffer.bytes
reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class security.protocol security.providers send.buffer.bytes
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.engine.factory.class
ssl.keymanager.algorithm ssl.keystore.password ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.password transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.serializer auto.include.jmx.reporter config.providers
"""


def config(**properties: Any) -> ProducerConfig:
    """A producer's, from names with two underscores for each dot."""
    given = {name.replace("__", "."): value for name, value in properties.items()}
    return ProducerConfig.from_properties({"bootstrap.servers": "h:1", **given})


def given_options(**properties: Any) -> dict[str, Any]:
    made = config(**properties)
    return {name: getattr(made, name) for name in made.model_fields_set - {"bootstrap_servers"}}


def ignored(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record.fields["options"] for record in caplog.records if record.event == "config.ignored"]  # type: ignore[attr-defined]


def error_of(read: Callable[[], object]) -> str:
    """The refusal's text; empty when nothing is refused."""
    try:
        read()
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", ["7", "true", "some text", None, "", len])
def test_every_name_is_translated_ignored_or_refused_with_advice(value: Any) -> None:
    fields = ProducerConfig.model_fields
    for name in dict.fromkeys((LIBRDKAFKA + JAVA).split()):
        found: list[Any] = []
        if refused := error_of(lambda: found.append(translated({name: value}, fields))):  # noqa: B023
            assert refused.startswith((f"{name} is another client's option: ", f"{name}="))
            assert any(word in refused for word in ("write ", "leave it out: ", "put ", "use ", "name the ")), refused
        else:
            assert found[0].options.keys() <= fields.keys(), name
        servers = {} if name in ("metadata.broker.list", "bootstrap.servers") else {"bootstrap.servers": "h:1"}
        given = {**servers, name: value}
        assert "unknown option" not in error_of(lambda: ProducerConfig.from_properties(given))  # noqa: B023


def test_every_target_of_a_translation_is_an_option() -> None:
    assert set(LIBRDKAFKA_NAMES.values()) <= ProducerConfig.model_fields.keys()


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({"queue__buffering__max__ms": "7"}, {"linger_ms": 7}),
        ({"queue__buffering__max__kbytes": "1024"}, {"buffer_memory": 1_048_576}),
        ({"queue__buffering__max__messages": "0"}, {}),
        ({"queue__buffering__max__messages": 9}, {"buffer_records": 9}),
        ({"message__timeout__ms": "0"}, {"delivery_timeout_ms": 2**31 - 1}),
        ({"message__timeout__ms": 300_000}, {"delivery_timeout_ms": 300_000}),
        ({"socket__send__buffer__bytes": "0"}, {"send_buffer_bytes": -1}),
        ({"socket__receive__buffer__bytes": "65536"}, {"receive_buffer_bytes": 65_536}),
        ({"topic__metadata__refresh__interval__ms": "-1"}, {"metadata_max_age_ms": 2**63 - 1}),
        ({"message__max__bytes": "2000000"}, {"max_request_size": 2_000_000}),
        ({"max__in__flight": "1"}, {"max_in_flight_requests_per_connection": 1}),
        ({"message__send__max__retries": "3"}, {"retries": 3}),
        ({"request__required__acks": "-1"}, {"acks": "all"}),
        ({"socket__timeout__ms": "20000"}, {"request_timeout_ms": 20_000}),
        ({"receive__message__max__bytes": "5000"}, {"receive_message_max_bytes": 5_000}),
        ({"broker__address__family": "v4"}, {"broker_address_family": "v4"}),
        ({"compression__codec": "inherit"}, {}),
        ({"compression__codec": "lz4", "compression__level": "-1"}, {"compression_type": "lz4"}),
        (
            {"compression__codec": "LZ4", "compression__level": 0},
            {"compression_type": "lz4", "compression_lz4_level": 1},
        ),
        (
            {"compression__type": "zstd", "compression__level": "7"},
            {"compression_type": "zstd", "compression_zstd_level": 7},
        ),
        ({"compression__codec": "snappy", "compression__level": "3"}, {"compression_type": "snappy"}),
        ({"partitioner": "murmur2_random"}, {"partitioner": None}),
        ({"partitioner__class": "org.apache.kafka.clients.producer.internals.DefaultPartitioner"}, {}),
        (
            {"partitioner__class": "org.apache.kafka.clients.producer.UniformStickyPartitioner"},
            {"partitioner_ignore_keys": True},
        ),
        (
            {"partitioner__class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            {"partitioner": "round_robin"},
        ),
        ({"partitioner__class": ""}, {}),
        ({"interceptor__classes": "", "metric__reporters": "", "plugin__library__paths": None}, {}),
        (
            {"key__serializer": "org.apache.kafka.common.serialization.StringSerializer"},
            {"key_serializer": str.encode},
        ),
        (
            {"value__serializer": "org.apache.kafka.common.serialization.ByteArraySerializer"},
            {"value_serializer": None},
        ),
        ({"enable__ssl__certificate__verification": "true", "queuing__strategy": "fifo"}, {}),
        ({"linger__ms": "5", "queue__buffering__max__ms": 5}, {"linger_ms": 5}),
    ],
)
def test_values_are_those_that_were_meant(properties: dict[str, Any], options: dict[str, Any]) -> None:
    assert given_options(**properties) == options


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"linger__ms": 5, "queue__buffering__max__ms": 6}, "linger.ms=5 and queue.buffering.max.ms=6 are two names"),
        (
            {"linger__ms": 5, "linger_ms": 6},
            "linger.ms=5 and linger_ms=6 are two names of linger_ms: write one",
        ),
        ({"dr_cb": len}, "dr_cb is another client's option: leave it out: await send()"),
        ({"queuing__strategy": "lifo"}, "queuing.strategy is another client's option: leave it out"),
        ({"enable__ssl__certificate__verification": "false"}, "write ssl_truststore_location"),
        ({"partitioner__class": "com.acme.DefaultPartitioner"}, "there is no partitioner of this name"),
        ({"interceptor__classes": "com.acme.Audit"}, "interceptor.classes='com.acme.Audit': a Java class cannot run"),
        ({"interceptor__classes": ["com.acme.Audit"]}, "a Java class cannot run"),
        ({"value__serializer": "io.confluent.kafka.serializers.KafkaAvroSerializer"}, "not the name of a Java class"),
        ({"queue__buffering__max__kbytes": "lots"}, r"\(buffer_memory is from queue.buffering.max.kbytes\)"),
        ({"message__timeout__ms": "-5"}, r"delivery_timeout_ms is from message.timeout.ms"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile is another client's option: write ssl_truststore_location"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(properties: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        config(**properties)


def test_two_names_of_a_secret_do_not_show_it() -> None:
    ours, theirs = "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"
    with pytest.raises(ConfigurationError, match="are two names of") as raised:
        translated({ours: "hush", theirs: "quiet"}, ProducerConfig.model_fields)
    assert "hush" not in str(raised.value)
    assert "quiet" not in str(raised.value)


def test_one_warning_names_all_ignored_options(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    config(statistics__interval__ms=1000, log_level=7, metric__reporters="", go__batch__producer=True)
    assert ignored(caplog) == [
        [
            "go.batch.producer: it is for that client's channels",
            "log_level: events go to logging: set the level of the logger 'aiokafkapy'",
            "statistics.interval.ms: producer.metrics() gives the figures",
        ]
    ]
    caplog.clear()
    config(linger__ms=5)
    assert ignored(caplog) == []


def test_a_url_is_read_in_the_same_way_and_keywords_win() -> None:
    url = "kafka://h:1/?queue.buffering.max.ms=7&message.timeout.ms=0"
    made = ProducerConfig.from_url(url, linger_ms=1)
    assert (made.linger_ms, made.delivery_timeout_ms) == (1, 2**31 - 1)


def test_a_reader_has_no_options_of_producers() -> None:
    with pytest.raises(ConfigurationError, match="unknown option 'queue_buffering_max_ms'"):
        ReaderConfig.from_properties({"bootstrap.servers": "h:1", "queue.buffering.max.ms": 5})
    made = ReaderConfig.from_properties({"metadata.broker.list": "h:1", "socket.timeout.ms": "20000"})
    assert made.request_timeout_ms == 20_000
