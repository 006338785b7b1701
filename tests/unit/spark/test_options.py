from __future__ import annotations

import pickle

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.reader.config import ReaderConfig
from aiokafkapy.spark.kafka_options import KAFKA_OPTIONS
from aiokafkapy.spark.options import (
    OptionError,
    Options,
    kafka_properties,
    parse_flag,
    parse_number,
    used_properties,
    warn_ignored,
)

SERVERS = {"kafka.bootstrap.servers": "host:9092"}
KNOWN = ("topic", "includeHeaders", "startingOffsets", "minPartitions")


def test_options_are_found_in_any_case() -> None:
    options = Options({"StartingOFFSETS": "earliest", "kafka.Bootstrap.servers": "h:1"}, KNOWN)
    assert options["startingOffsets"] == options["STARTINGOFFSETS"] == "earliest"
    assert options.text("startingoffsets") == "earliest"
    assert options["kafka.bootstrap.servers"] == "h:1"
    assert set(options) == {"startingoffsets", "kafka.bootstrap.servers"}
    assert options.text("topic") is None
    assert len(options) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOfsets": "x"}, "option 'startingofsets' is 'x': expected no such option: did you mean"),
        ({"completely": "else"}, r"there are includeHeaders, kafka\.bootstrap\.servers, .*startingOffsets, topic and"),
        ({"bootstrap.servers": "h:1"}, r"expected its name to be kafka\.bootstrap\.servers"),
        ({"bootstrap_servers": "h:1"}, r"expected its name to be kafka\.bootstrap\.servers"),
    ],
)
def test_an_option_that_nobody_knows_is_refused_and_the_nearest_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        Options(given, KNOWN, ["subscribe"])


def test_the_options_of_spark_itself_pass() -> None:
    given = {"checkpointLocation": "/somewhere", "queryName": "q", "asyncProgressTrackingEnabled": "true"}
    assert len(Options(given | {"asyncProgressTrackingCheckpointIntervalMs": "1000"}, KNOWN)) == 0


def test_options_without_a_meaning_here_are_left_out_and_listed() -> None:
    options = Options({"SUBSCRIBE": "t", "path": "/x", "topic": "t"}, KNOWN, ["subscribe", "path", "groupIdPrefix"])
    assert dict(options) == {"topic": "t"}
    assert options.ignored == ["subscribe", "path"]


def test_values_are_parsed() -> None:
    options = Options({"includeHeaders": " True", "minPartitions": " 7 ", "topic": "  "}, KNOWN)
    assert options.flag("includeHeaders") is True
    assert options.number("minPartitions", minimum=1) == 7
    assert options.number("absent", 3) == 3
    assert options.number("absent") is None
    assert options.flag("absent") is False
    with pytest.raises(OptionError, match="option 'topic' is '  ': expected a value, or leave the option out"):
        options.text("topic")
    for wrong in ("yes", "1", ""):
        with pytest.raises(OptionError, match="expected 'true' or 'false'"):
            parse_flag("includeHeaders", wrong)
    for wrong in ("1.5", "x", "", "-1", "٣"):
        with pytest.raises(OptionError, match=r"option 'minPartitions' is .*: expected a whole number of at least 0"):
            parse_number("minPartitions", wrong)


def test_kafkas_options_go_under_their_own_names() -> None:
    given = SERVERS | {"kafka.linger.ms": "7", "KAFKA.ACKS": "all", "topic": "t"}
    assert kafka_properties(given) == {"bootstrap.servers": "host:9092", "linger.ms": "7", "acks": "all"}


@pytest.mark.parametrize("servers", [{}, {"kafka.bootstrap.servers": " "}])
def test_without_brokers_there_is_nothing_to_do(servers: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers.*expected the brokers' addresses"):
        kafka_properties(servers)


def test_without_any_option_the_error_names_the_ways_that_work_in_sql() -> None:
    with pytest.raises(OptionError, match=r"CREATE TEMPORARY VIEW .* SELECT \.\.\. FROM t WITH"):
        kafka_properties({})
    with pytest.raises(OptionError) as caught:
        kafka_properties({"kafka.acks": "all"})
    assert "VIEW" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("interceptor.classes", "com.acme.Mine", "a column expression"),
        ("security.providers", "com.acme.Mine", "a Java class cannot run here"),
        ("sasl.login.callback.handler.class", "com.acme.Mine", "a Java class cannot run here"),
        ("ssl.truststore.type", "JKS", "'PEM'"),
    ],
)
def test_options_that_only_java_supports_are_refused_with_the_remedy(name: str, value: str, instead: str) -> None:
    with pytest.raises(OptionError, match=instead) as caught:
        kafka_properties(SERVERS | {f"kafka.{name}": value})
    assert caught.value.option == f"kafka.{name}"
    assert "hush" not in str(caught.value)


def test_certificates_as_files_are_taken_as_in_java() -> None:
    assert kafka_properties(SERVERS | {"kafka.ssl.truststore.type": "pem"})["ssl.truststore.type"] == "pem"


def test_credentials_are_taken_with_the_names_of_java_and_of_librdkafka() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    servers = kafka_properties(SERVERS | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"})
    for credentials in (
        {"sasl.username": "alice", "sasl.password": "hush"},
        {"sasl.jaas.config": f'{module} required username="alice" password="hush";'},
    ):
        given = servers | credentials | {"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}
        assert used_properties(ProducerConfig, given) == given
    with pytest.raises(OptionError) as caught:
        used_properties(ProducerConfig, servers | {"sasl.username": "alice"})
    assert "sasl_password is missing" in str(caught.value)


PEM_KEY = "-----BEGIN PRIVATE KEY-----\nMIHhunter2\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.ssl.keystore.key": PEM_KEY},  # without its chain
        {"kafka.ssl.keystore.kee": PEM_KEY},
        {"ssl.keystore.key": PEM_KEY},
        {"key.of.ours": PEM_KEY},
        {"kafka.sasl.pasword": "hunter2"},
        {"sasl.pasword": "hunter2"},
        {"kafka.sasl.jaas.conf": "hunter2"},
    ],
)
def test_no_refusal_of_an_option_shows_a_secret(given: dict[str, str]) -> None:
    with pytest.raises(OptionError) as caught:
        properties = kafka_properties(Options(SERVERS | {"kafka.security.protocol": "SASL_SSL"} | given, KNOWN))
        used_properties(ProducerConfig, properties)
    assert "hunter2" not in str(caught.value)
    assert "<hidden>" in str(caught.value)


def test_options_without_a_use_in_the_protocol_are_left_out() -> None:
    servers = kafka_properties(SERVERS)
    given = servers | {"sasl.mechanism": "PLAIN", "ssl.truststore.location": "/ca.pem", "sasl.username": "alice"}
    assert used_properties(ProducerConfig, given) == servers
    with pytest.raises(OptionError, match="no such option of Kafka"):
        used_properties(ProducerConfig, servers | {"ssl.trust.location": "/ca.pem"})


def test_a_java_class_whose_work_is_done_here_is_left_out() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    servers = kafka_properties(SERVERS | {"kafka.sasl.login.callback.handler.class": handler})
    assert used_properties(ProducerConfig, servers) == kafka_properties(SERVERS)


def test_an_option_that_would_change_the_result_is_refused_with_the_remedy() -> None:
    with pytest.raises(OptionError, match=r"'kafka\.auto\.offset\.reset' is 'latest': expected startingOffsets"):
        kafka_properties(SERVERS | {"kafka.AUTO.offset.reset": "latest"}, {"auto.offset.reset": "startingOffsets"})


def test_names_and_values_are_those_of_the_configuration() -> None:
    servers = kafka_properties(SERVERS)
    given = servers | {"linger.ms": "5", "compression.type": "LZ4"}
    assert used_properties(ProducerConfig, given) == given
    given = servers | {"isolation.level": "read_committed"}
    assert used_properties(ReaderConfig, given) == given
    with pytest.raises(OptionError, match=r"'kafka.linger.sm' is '5': expected no such option .*kafka\.linger\.ms\?"):
        used_properties(ProducerConfig, servers | {"linger.sm": "5"})
    with pytest.raises(OptionError, match="linger_ms='soon' is not a whole number"):
        used_properties(ProducerConfig, servers | {"linger.ms": "soon"})


@pytest.mark.parametrize("config", [ProducerConfig, ReaderConfig])
def test_no_option_of_kafka_is_said_to_be_unknown(config: type[ClientConfig]) -> None:
    servers = kafka_properties(SERVERS)
    for name in KAFKA_OPTIONS - {field.replace("_", ".") for field in config.model_fields}:
        assert used_properties(config, servers | {name: "1"}) == servers
    assert {"client.rack", "ssl.endpoint.identification.algorithm", "metrics.recording.level"} < KAFKA_OPTIONS


def test_ignored_options_are_named_in_one_warning_and_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        warn_ignored("read", ["kafka.group.id", "a-name-of-this-test"])
    warn_ignored("read", [])
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "a-name-of-this-test, kafka.group.id" in told.getMessage()


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(OptionError("topic", "", "a value")))
    assert (error.option, error.value, error.expected, str(error)) == (
        "topic",
        "",
        "a value",
        "option 'topic' is '': expected a value",
    )
