"""Spark on secured listeners, by the connector's own option names; and no secret where Spark shows plans."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aiokafkapy.broker import Listener
from aiokafkapy.testing import TestCertificates

from .conftest import LONGEST_PROGRAM, ROOT, Broker, LoopThread

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
    """The options by the connector's names."""
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


def test_a_wrong_password_is_reported_on_the_driver_and_not_shown(
    spark: SparkSession, secured: Broker, certificates: TestCertificates
) -> None:
    wrong = {"kafka.sasl.jaas.config": JAAS.replace(PASSWORD, "hunter2")}
    options = options_of(secured, certificates, subscribe="shared") | wrong
    with pytest.raises(PySparkException) as raised:
        spark.read.format("aiokafkapy").options(**options).load().count()
    assert "refused the credentials" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_no_secret_is_shown_by_spark_s_pages_of_a_query(
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


@pytest.mark.usefixtures("_java")
def test_no_secret_is_in_spark_s_interface_event_log_or_checkpoints(
    secured: Broker, certificates: TestCertificates, tmp_path: Path
) -> None:
    """An application of its own has the one setting that the documentation asks for."""
    setting = re.search(r"^(spark[.]sql[.]redaction[^=]+)=(.+)$", (ROOT / "docs/spark.md").read_text(), re.MULTILINE)
    assert setting is not None
    for topic in ("ui-in", "ui-out"):
        secured.create_topic(topic, 1)
    jaas = options_of(secured, certificates)
    key_password = "open-sesame-42"
    inline = certificates.inline_client_options(certificates.client("CN=alice", password=key_password))
    inline |= {"security_protocol": "SASL_SSL", "sasl_username": "alice", "sasl_password": PASSWORD}
    pem = {f"kafka.{name.replace('_', '.')}": value for name, value in inline.items()}
    pem |= {name: jaas[name] for name in ("kafka.bootstrap.servers", "kafka.sasl.mechanism")}
    key_line = pem["kafka.ssl.keystore.key"].splitlines()[2]
    # The daemon is not the default one, so that all kinds of tasks also run in workers of ours.
    settings = {setting[1]: setting[2], "spark.python.daemon.module": "aiokafkapy.spark.daemon"}
    given = {"settings": settings, "options": [jaas, pem], "source": "ui-in", "sink": "ui-out"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.user_interface_program", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=LONGEST_PROGRAM,
        check=False,
    )
    pages = re.search(r"pages: (\d+)", done.stdout)
    assert pages is not None, done.stdout + done.stderr
    shown = {path.name: path.read_text() for path in sorted((tmp_path / "shown").iterdir())}
    shown["the program's output"] = done.stdout + done.stderr
    # It did look at the places for options.
    assert int(pages[1]) > 30
    for part in ("SQL-execution", "environment", "StreamingQuery", "event-log", "plans", "checkpoint"):
        assert any(part in name for name in shown), part
    assert any(secured.bootstrap_servers in text for name, text in shown.items() if "SQL" in name or "sql" in name)
    leaks = [
        f"{name}: {text[max(0, at - 200) : at]}"
        for name, text in shown.items()
        for secret in (PASSWORD, key_password, key_line)
        if (at := text.find(secret)) >= 0
    ]
    assert not leaks, "\n\n".join(leaks)
