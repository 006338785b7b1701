"""A topic's batches and the pool follow from several options each."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aiokafkapy import ProducerConfig
from aiokafkapy.producer.accumulator.accumulator_settings import credit_step, new_pool, settings_of
from aiokafkapy.producer.accumulator.buffer_pool import UNBOUNDED
from aiokafkapy.producer.accumulator.partition_queue import NO_LINGER
from aiokafkapy.record.compression import Compression


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="localhost:9092", **options)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"batch_size": 1_000}, 1_000),
        ({"batch_size": 0}, 1),  # each record a batch
        ({"batch_size": 9_000, "max_request_size": 5_000}, 5_000),
        ({"batch_size": 9_000, "buffer_memory": 4_000, "max_request_size": 4_000}, 4_000),
        ({"batch_size": 9_000, "buffer_memory": 16_000, "max_request_size": 9_000, "overflow": "drop_oldest"}, 1_000),
    ],
)
def test_a_batch_fits_into_a_request_and_into_the_buffer(options: dict[str, Any], size: int) -> None:
    assert settings_of(config(**options), has_own_linger=False).batch_size == size


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 1_048_576),
        ({"max_request_size": 300_000}, 300_000),
        ({"buffer_memory": 3_200_000}, 200_000),
        ({"buffer_memory": 1_100_000}, 131_072),
        ({"batch_size": 131_072}, 131_072),
    ],
)
def test_a_bulk_calls_batch_is_larger_unless_a_size_is_given(options: dict[str, Any], size: int) -> None:
    assert settings_of(config(**options), has_own_linger=False).bulk_batch_size == size


def test_a_topic_lingers_as_the_producer_unless_it_has_a_linger_of_its_own() -> None:
    assert settings_of(config(linger_ms=7), has_own_linger=False).linger == NO_LINGER
    assert settings_of(config(linger_ms=7), has_own_linger=True).linger == 0.007
    assert settings_of(config(manual_flush=True), has_own_linger=False).linger == math.inf


def test_a_chosen_codec_begins_with_none_and_its_memory_is_kept_for_compression() -> None:
    chosen = config(compression_type="auto")
    assert chosen.chooses_codecs
    assert settings_of(chosen, has_own_linger=False).compression == Compression.NONE
    given = config(compression_type="gzip", compression_gzip_level=3)
    assert not given.chooses_codecs
    found = settings_of(given, has_own_linger=False)
    assert (found.compression, found.compression_level) == (Compression.GZIP, 3)
    plain, compressing = (new_pool(given, has_codec=has_codec) for has_codec in (False, True))
    assert compressing.reserve - plain.reserve == min(given.buffer_memory // 8, 8 * 1024 * 1024)


def test_batches_are_short_only_where_the_oldest_of_a_number_of_records_may_go() -> None:
    assert credit_step(config(buffer_records=800)) == UNBOUNDED
    assert credit_step(config(overflow="drop_oldest")) == UNBOUNDED
    assert credit_step(config(overflow="drop_oldest", buffer_records=800)) == 50
    assert credit_step(config(overflow="drop_oldest", buffer_records=3)) == 1
