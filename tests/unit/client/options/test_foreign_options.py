"""The error for another client's option names the option here."""

from __future__ import annotations

import inspect
from typing import Any

import aiokafka
import pytest

from aiokafkapy.client.options.foreign_options import advice_for
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.config import ProducerConfig

LIBRDKAFKA = [
    "message.max.bytes",
    "max.in.flight",
    "socket.timeout.ms",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.ms",
    "message.send.max.retries",
    "compression.codec",
    "compression.level",
    "batch.num.messages",
    "request.required.acks",
    "message.timeout.ms",
    "sticky.partitioning.linger.ms",
    "metadata.broker.list",
    "debug",
    "statistics.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "api.version.request",
    "client.rack",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "broker.address.family",
    "topic.metadata.propagation.max.ms",
    "security.protocol",
    "ssl.ca.location",
    "sasl.mechanisms",
    "sasl.username",
    "dr_cb",
    "error_cb",
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_option_of_aiokafka_and_kafka_python_is_ours_or_has_advice() -> None:
    import kafka

    names = set(inspect.signature(aiokafka.AIOKafkaProducer.__init__).parameters) - {"self"}
    names |= set(kafka.KafkaProducer.DEFAULT_CONFIG)
    known = ProducerConfig.model_fields
    assert [name for name in names if name not in known and advice_for(name, known) is None] == []


def test_the_options_of_librdkafka_have_advice() -> None:
    known = ProducerConfig.model_fields
    plain = [name.replace(".", "_") for name in LIBRDKAFKA]
    assert [name for name in plain if name not in known and advice_for(name, known) is None] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("max_batch_size", "unknown option 'max_batch_size': write batch_size"),
        ("queue.buffering.max.ms", "unknown option 'queue.buffering.max.ms': write linger_ms"),
        ("metric_reporters", "unknown option 'metric_reporters': leave it out: producer.metrics() gives the figures"),
        ("partitioner.class", "unknown option 'partitioner.class': write partitioner"),
    ],
)
def test_the_error_has_the_remedy(name: str, words: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(bootstrap_servers="h:1", **options)
    assert str(caught.value) == words
