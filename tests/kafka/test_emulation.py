"""The dev broker that emulates a release and the real one say the same of their versions; the table is theirs."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.emulation.by_name import emulation_of
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response
from aiokafkapy.testing import ApacheKafka
from aiokafkapy.testing.kafka.jars import KafkaUnavailableError, fetch_jars
from tests.clusters import started
from tests.java_sources import compiled

from .agreement import Scenario, answers_of_both
from .releases import SOURCE, advertised_by, minor_release
from .scenarios import SCENARIOS

OLDER = "3.9.1"
WITHOUT_A_RECEIVER = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""APIs that a broker advertises only where a plugin takes clients' metrics."""
NEWEST = 4
UNKNOWN = (5, 99, 32_767)


class Answer(NamedTuple):
    """One answer to ApiVersions, as plain values; ``supported`` and ``finalized`` are features."""

    code: int
    ranges: dict[int, tuple[int, int]]
    supported: dict[str, tuple[int, int]]
    finalized: dict[str, tuple[int, int]]


async def asked(address: tuple[str, int], version: int) -> Answer:
    """The answer to raw bytes: a version without a schema is among those that are asked with."""
    is_flexible = version >= 3
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, 3) + b"raw" + (b"\0" if is_flexible else b"")
    frame = header + (b"\x02a\x021\x00" if is_flexible else b"")
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(struct.pack(">i", len(frame)) + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    finally:
        writer.transport.abort()
    correlation_id, body = decode_response(ApiKey.API_VERSIONS, version if version <= NEWEST else 0, answer)
    assert correlation_id == 7
    return Answer(
        int(body.error_code),
        {int(each.api_key): (each.min_version, each.max_version) for each in body.api_keys},
        {each.name: (each.min_version, each.max_version) for each in getattr(body, "supported_features", ())},
        {
            each.name: (each.min_version_level, each.max_version_level)
            for each in getattr(body, "finalized_features", ())
        },
    )


def of_ours(ranges: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Ranges of Kafka's, of the APIs that the dev broker has, from the lowest version on that it has."""
    handlers: Any = dispatch_table()
    found = {}
    for key in sorted(ranges.keys() & handlers.keys()):
        low, high = ranges[key]
        found[key] = (low if key == ApiKey.PRODUCE else max(low, handlers[key].min_version), high)
    return found


@pytest.fixture(scope="module")
def older_kafka() -> Iterator[ApacheKafka]:
    with started(ApacheKafka(version=OLDER)) as cluster:
        yield cluster


async def _compare(kafka: ApacheKafka) -> None:
    emulated = minor_release(kafka.version)
    emulation = emulation_of(emulated)
    async with DevBroker(version=emulated) as broker:
        node = broker.nodes[0]
        for version in (*range(NEWEST + 1), *UNKNOWN):
            expected = await asked(kafka.address_of(1), version)
            ours = await asked((node.host, node.port), version)
            assert ours == expected._replace(ranges=of_ours(expected.ranges)), version
            if version <= NEWEST:
                told = {key: each for key, each in emulation.apis.items() if key not in WITHOUT_A_RECEIVER}
                assert told == expected.ranges, "the table"
            else:
                assert ours == expected


async def test_3_9_and_its_emulation_answer_every_version_of_api_versions_alike(older_kafka: ApacheKafka) -> None:
    await _compare(older_kafka)


async def test_4_1_and_its_emulation_answer_every_version_of_api_versions_alike(kafka: ApacheKafka) -> None:
    await _compare(kafka)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_emulation_of_3_9_answers_as_3_9_does(
    older_kafka: ApacheKafka, topic: str, scenario: Scenario
) -> None:
    ours, kafkas = await answers_of_both(older_kafka, topic, scenario, version=minor_release(OLDER))
    assert ours == kafkas


def test_the_table_agrees_with_the_jars_of_each_release(tmp_path: Path) -> None:
    """One program, compiled once, asks all jars."""
    releases = ("2.8.2", OLDER, "4.1.0")
    try:
        jars = [fetch_jars(release) for release in releases]
    except KafkaUnavailableError as error:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(f"NO REAL KAFKA: {error}")
    classes = compiled(SOURCE)
    for release, directory in zip(releases, jars, strict=True):
        found = advertised_by(release, directory, classes)
        emulation = emulation_of(minor_release(release))
        assert emulation.apis == found.apis, release
        assert emulation.features == found.features, release
