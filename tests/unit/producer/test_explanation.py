"""The explanation of a configuration is right for its numbers, and has no secret in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.explanation import Explanation, OptionInForce, explain


def told(**options: Any) -> Explanation:
    return explain(ProducerConfig(**({"bootstrap_servers": "h:1"} | options)))


def implied(subject: str, **options: Any) -> str:
    return dict(told(**options).implications)[subject]


def odd(**options: Any) -> set[str]:
    return {subject for subject, _ in told(**options).oddities}


def option(explanation: Explanation, name: str) -> OptionInForce:
    return next(one for one in explanation.options if one.name == name)


def test_an_option_is_shown_with_its_value_its_kafka_name_and_its_source() -> None:
    config = ProducerConfig.from_properties({"bootstrap.servers": "h:1", "acks": "1"})
    found = explain(config, {"bootstrap_servers": "app.properties", "acks": "--config"})
    assert option(found, "acks")[:4] == ("acks", "acks", 1, "--config")
    assert option(found, "linger_ms")[:4] == ("linger_ms", "linger.ms", None, "default")
    # acks=1 alone turns it off.
    assert option(found, "enable_idempotence")[2:4] == (False, "follows from others")
    assert option(found, "partitioner").kafka_name == "partitioner.class"
    for ours in ("proxy_url", "buffer_records", "overflow", "spool_dir", "manual_flush", "topics", "record_timing"):
        assert option(found, ours).kafka_name is None
    assert {one.name for one in found.options} == set(ProducerConfig.model_fields)


def test_a_secret_is_shown_to_be_set_and_nothing_else_of_it() -> None:
    found = told(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="ann",
        sasl_password="hunter2",
        sasl_oauthbearer_extensions="pin=hunter2",
    )
    assert option(found, "sasl_password").value == "<hidden>"
    assert option(found, "sasl_oauthbearer_extensions").value == "<hidden>"
    assert option(found, "sasl_jaas_config").value is None
    assert "hunter2" not in json.dumps(found.as_json())


def test_a_value_given_as_an_object_is_shown_too() -> None:
    found = told(value_serializer=str.encode, bootstrap_servers=["a:1", "b:2"])
    assert "encode" in str(option(found, "value_serializer").value)
    assert option(found, "bootstrap_servers").value == ["a:1", "b:2"]


def test_the_guarantees_follow_acks_and_idempotence() -> None:
    assert "only with all in-sync replicas" in implied("loss")
    assert "never writes a record twice" in implied("duplicates")
    assert "with 5 requests in flight" in implied("order")
    assert "with 1 to 5 requests in flight" in implied("order", max_in_flight_requests_per_connection="auto")
    assert "if its leader fails" in implied("loss", acks=1)
    assert "may write a record twice" in implied("duplicates", acks=1)
    assert "may arrive after later records" in implied("order", acks=1)
    assert "(1 to 16 requests in flight" in implied("order", acks=1, max_in_flight_requests_per_connection="auto")
    assert "order of the calls" in implied("order", acks=1, max_in_flight_requests_per_connection=1)
    assert "without an error" in implied("loss", acks=0)
    assert "nothing is written twice" in implied("duplicates", acks=0)
    assert "behind a record that failed nothing is written" in implied("order", enable_gapless_guarantee=True)


def test_the_worst_time_is_the_sum_of_its_parts() -> None:
    text = implied("time", max_block_ms=500, delivery_timeout_ms=10_500, request_timeout_ms=5_000)
    assert text.startswith("await send() ends within 11 s: at most 500 ms until it is accepted")
    assert "2 attempts of 5 s" in text
    assert "nothing is sent again" in implied("time", acks=0)


@pytest.mark.parametrize(
    ("linger_ms", "words"), [(None, "adapts"), (0, "no batch waits"), (40, "gathers for 40 ms, and so does a lone")]
)
def test_linger_is_explained_by_its_effect(linger_ms: int | None, words: str) -> None:
    assert words in implied("linger", linger_ms=linger_ms)


def test_memory_and_sizes_are_in_their_units() -> None:
    assert "at most 32 MiB" in implied("memory")
    assert "at most 1 MiB, a batch 128 KiB before compression (zstd)" in implied("size", compression_type="zstd")
    assert "a batch 128 KiB (1 MiB in send_many() and send_arrow()) before" in implied("size")
    assert "a batch 1,000 bytes before" in implied("size", batch_size=1_000)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "send() and enqueue() wait, for at most 60 s"),
        ({"overflow": "raise"}, "when it is full, calls raise BufferExhaustedError at once"),
        ({"spool_dir": "/x"}, "when it is full, records go to /x, at most 1,024 MiB, and are sent from there"),
        ({"overflow": "drop_newest"}, "when it is full, the new record is dropped"),
        ({"overflow": "drop_oldest"}, "the oldest records that were not sent are dropped (overflow='drop_oldest')"),
        ({"buffer_records": 10_000}, "at most 32 MiB, and are at most 10,000; when"),
        ({"topics": {"clicks": {"overflow": "raise"}}}, "some topics have an overflow of their own"),
        ({"topics": {"alerts": {"priority": "high"}}}, "; 10 % is kept for alerts, whose records get room and leave"),
        ({"topics": {f"t{n}": {"priority": "high"} for n in range(9)}}, "is kept for t0, t1, t2, t3, t4 and others, "),
        ({"manual_flush": True}, "calls raise BufferExhaustedError at once"),
    ],
)
def test_the_fate_of_a_record_without_room_follows_overflow(options: dict[str, Any], words: str) -> None:
    assert words in implied("memory", **options)


def test_with_manual_flush_nothing_lingers() -> None:
    assert "nothing is sent before flush()" in implied("linger", manual_flush=True)


def test_security_names_each_proof_and_its_side() -> None:
    assert "readable by anybody on the way; brokers prove nothing; we have no credentials" in implied("security")
    scram: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "a", "sasl_password": "b"}
    assert "brokers prove by SCRAM-SHA-256" in implied("security", security_protocol="SASL_PLAINTEXT", **scram)
    text = implied("security", security_protocol="SASL_SSL", **scram)
    assert "encrypted; each broker proves its name; we are known by SCRAM-SHA-256" in text


def test_transactions_are_explained_where_there_are_some() -> None:
    assert "transactions" not in dict(told().implications)
    assert "'t': a later producer of this name fences this one; one that is open for 60 s" in implied(
        "transactions", transactional_id="t"
    )
    assert "waits without end" in implied(
        "transactions", transactional_id="t", transaction_two_phase_commit_enable=True
    )


def test_the_defaults_are_not_odd() -> None:
    assert odd() == set()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("connections_max_idle_ms", {"connections_max_idle_ms": 540_000}),
        ("connections_max_idle_ms", {"connections_max_idle_ms": -1}),
        ("batch_size", {"batch_size": 2_000_000}),
        ("buffer_memory", {"buffer_memory": 100_000, "max_request_size": 90_000, "batch_size": 100_001}),
        ("retries", {"retries": 3}),
        ("max_in_flight_requests_per_connection", {"max_in_flight_requests_per_connection": 1}),
        ("enable_idempotence", {"enable_idempotence": False}),
        ("linger_ms", {"linger_ms": 5_000}),
        (
            "security_protocol",
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_username": "a",
                "sasl_password": "b",
            },
        ),
        (
            "ssl_endpoint_identification_algorithm",
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""},
        ),
    ],
)
def test_options_seldom_meant_are_pointed_at(name: str, options: dict[str, Any]) -> None:
    assert name in odd(**options)


def test_limits_of_topics_are_explained_where_they_are_read() -> None:
    assert "have limits of their own" in implied("size")
    assert "known within 300 s" in implied("size", topic_limits=True)


def test_a_circuit_breaker_is_explained_with_its_numbers() -> None:
    assert "failing" not in dict(told().implications)
    text = implied("failing", circuit_breaker={"failures": 3, "open_ms": 2_000})
    assert text.startswith(
        "after 3 deliveries in a row that failed, calls for the topic fail at once, but for 1 each 2 s"
    )
    assert "all topics" in implied("failing", circuit_breaker={"scope": "producer"})


def test_a_codec_that_is_chosen_automatically_is_explained() -> None:
    assert "none, lz4 or zstd and its level" in implied("size", compression_type="auto")


def test_a_linger_that_follows_the_arrivals_is_explained_with_its_bound() -> None:
    assert "a round trip, or 20 ms, at most" in implied("linger", linger_ms="auto")
    assert "linger_ms" not in odd(linger_ms="auto")
