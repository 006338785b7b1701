"""The command that explains: the source that wins, which errors name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoked


def run(*arguments: str, code: int = 0) -> str:
    done = invoked("explain", *arguments)
    assert done.exit_code == code, done.output
    return done.output


def origins(*arguments: str) -> dict[str, tuple[Any, str]]:
    found = json.loads(run(*arguments, "--json"))
    return {one["name"]: (one["value"], one["origin"]) for one in found["options"]}


def test_the_later_source_wins_and_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("linger.ms=3\nbatch.size=1000\nacks=all\n")
    monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "2")
    monkeypatch.setenv("AIOKAFKAPY_MAX_BLOCK_MS", "9")
    monkeypatch.setenv("AIOKAFKAPY_INTERPRETED", "1")
    found = origins("--url", "kafka://h:1/?acks=1", "-X", f"@{file}", "-X", "batch.size=2000")
    assert found["bootstrap_servers"] == ("h:1", "--url")
    assert found["acks"] == ("all", str(file))
    assert found["linger_ms"] == (3, str(file))
    assert found["batch_size"] == (2000, "--config")
    assert found["max_block_ms"] == (9, "AIOKAFKAPY_MAX_BLOCK_MS")
    assert found["client_id"] == ("aiokafkapy", "default")


def test_lines_have_the_given_options_and_all_on_request() -> None:
    said = run("-b", "h:1", "-X", "acks=1")
    assert "(follows from others)" in said
    assert "a retry may write a record twice" in said
    assert "request_timeout_ms  " not in said
    assert "request_timeout_ms  " in run("-b", "h:1", "--all")


def test_a_long_value_is_cut_in_a_line_and_whole_in_json() -> None:
    servers = ",".join(f"kafka-{number}.example.com:9092" for number in range(9))
    said = run("-b", servers)
    assert "kafka-1.example.com" in said
    assert "kafka-8.example.com" not in said
    assert origins("-b", servers)["bootstrap_servers"][0] == servers


def test_options_of_librdkafka_that_are_understood_are_shown_by_our_name() -> None:
    sasl = ["security.protocol=SASL_SSL", "sasl.mechanisms=PLAIN", "sasl.username=ann", "sasl.password=hunter2"]
    found = origins(*(word for entry in sasl for word in ("-X", entry)))
    assert found["sasl_mechanism"] == ("PLAIN", "--config, sasl.mechanisms")
    assert found["sasl_password"] == ("<hidden>", "--config")
    found = origins("--url", "kafka://h:1/?queue.buffering.max.kbytes=2048", "-X", "metadata.broker.list=h:2")
    assert found["buffer_memory"] == (2_097_152, "--url, queue_buffering_max_kbytes")
    assert found["bootstrap_servers"] == ("h:2", "--config, metadata.broker.list")
    assert "dr_cb is another client's option" in run("-X", "dr_cb=x", code=2)


def test_an_options_variable_has_our_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are read as by ``from_env``, so that the explained service starts."""
    monkeypatch.setenv("AIOKAFKAPY_QUEUE_BUFFERING_MAX_MS", "5")
    assert "unknown option 'queue_buffering_max_ms': write linger_ms" in run(code=2)


def test_a_contradiction_is_an_error_that_names_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKAFKAPY_ACKS", "1")
    said = run("-X", "enable.idempotence=true", code=2)
    assert "enable_idempotence=True contradicts acks=1" in said
    assert "acks is from AIOKAFKAPY_ACKS" in said
    monkeypatch.setenv("AIOKAFKAPY_ACKZ", "1")
    assert "ackz is from AIOKAFKAPY_ACKZ" in run(code=2)


def test_an_invalid_url_is_refused_without_showing_its_password() -> None:
    said = run("--url", "http://u:hunter2@h", code=2)
    assert "hunter2" not in said
    assert "kafka+sasl-" in said
