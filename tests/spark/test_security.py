"""Spark on secured listeners, by the connector's own option names; and no secret where Spark shows plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aiokafkapy.broker import Listener
from aiokafkapy.testing import TestCertificates

from .conftest import Broker, LoopThread

PASSWORD = "correct-horse-battery"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{SCRAM} required username="alice" password="{PASSWORD}";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TestCertificates:
    return TestCertificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(loop_thread: LoopThread, certificates: TestCertificates) -> Iterator[Broker]:
    """A dev broker that wants TLS and a password, and lets alice do everything."""
    listener = Listener(**certificates.server_options(security_protocol="SASL_SSL"))
    started = Broker(
        loop_thread,
        listeners={"SASL_SSL": listener},
        sasl_users={"alice": PASSWORD},
        sasl_enabled_mechanisms=["SCRAM-SHA-512"],
    )
    yield started
    started.close()


def options_of(secured: Broker, certificates: TestCertificates, **more: str) -> dict[str, str]:
    """As the connector has them."""
    return {
        "kafka.bootstrap.servers": secured.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificates.ca_file),
        **more,
    }


def test_one_dictionary_serves_us_and_the_connector(
    spark: SparkSession, secured: Broker, certificates: TestCertificates
) -> None:
    secured.create_topic("shared", 2)
    for number, source in enumerate(("aiokafkapy", "kafka")):
        options = options_of(secured, certificates, topic="shared")
        frame = spark.range(number * 100, number * 100 + 100).selectExpr("cast(id as string) as value")
        frame.write.format(source).options(**options).mode("append").save()
    for source in ("aiokafkapy", "kafka"):
        options = options_of(secured, certificates, subscribe="shared", startingOffsets="earliest")
        rows = spark.read.format(source).options(**options).load().selectExpr("cast(value as string)").collect()
        assert sorted(int(row.value) for row in rows) == list(range(200)), source


def test_a_stream_reads_and_writes(
    spark: SparkSession, secured: Broker, certificates: TestCertificates, tmp_path: Any
) -> None:
    secured.create_topic("in", 1)
    secured.create_topic("out", 1)
    frame = spark.range(50).selectExpr("cast(id as string) as value")
    frame.write.format("aiokafkapy").options(**options_of(secured, certificates, topic="in")).mode("append").save()
    reading = options_of(secured, certificates, subscribe="in", startingOffsets="earliest")
    writing = options_of(secured, certificates, topic="out", checkpointLocation=str(tmp_path / "checkpoint"))
    query = (
        spark.readStream.format("aiokafkapy").options(**reading).load()
        .writeStream.format("aiokafkapy").options(**writing).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(120)
    assert sorted(int(record.value) for record in secured.records("out")) == list(range(50))


def test_a_wrong_password_is_said_on_the_driver_and_not_shown(
    spark: SparkSession, secured: Broker, certificates: TestCertificates
) -> None:
    wrong = {"kafka.sasl.jaas.config": JAAS.replace(PASSWORD, "hunter2")}
    options = options_of(secured, certificates, subscribe="shared") | wrong
    with pytest.raises(PySparkException) as raised:
        spark.read.format("aiokafkapy").options(**options).load().count()
    assert "refused the credentials" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_no_secret_is_in_what_spark_shows_of_a_query(
    spark: SparkSession, secured: Broker, certificates: TestCertificates, capsys: pytest.CaptureFixture[str]
) -> None:
    secured.create_topic("shown", 1)
    options = options_of(secured, certificates, subscribe="shown", startingOffsets="earliest")
    inline = {"kafka.sasl.username": "alice", "kafka.sasl.password": PASSWORD}
    del (plain := dict(options))["kafka.sasl.jaas.config"]
    for given in (options, plain | inline):
        frame = spark.read.format("aiokafkapy").options(**given).load()
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            frame.explain(mode)
        shown = capsys.readouterr().out
        assert "aiokafkapy" in shown
        assert PASSWORD not in shown
        assert PASSWORD not in frame._jdf.queryExecution().toString()
