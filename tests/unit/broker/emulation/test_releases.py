"""The releases of Kafka that the dev broker can be: their versions, and each difference that versions do not show."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.emulation.by_name import emulation_of, known_versions
from aiokafkapy.broker.emulation.model import UnknownApiVersions
from aiokafkapy.broker.emulation.releases import release, release_names
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.handlers.registry import served
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.compression import Compression
from tests.unit.broker.emulation.requests import SOFTWARE, ask_with, is_closed, produce

from ..socketless import socketless_node
from ..support import log_of, make_batch

UNKNOWN, CORRUPT, UNSUPPORTED, OUT_OF_ORDER, UNKNOWN_PRODUCER, INVALID_RECORD = -1, 2, 35, 45, 59, 87
INVALID_TXN_STATE = 48


def highest(version: str, api: ApiKey) -> int:
    """The highest version that a release has of an API, -1 for none."""
    return emulation_of(version).apis.get(api, (0, -1))[1]


@pytest.mark.parametrize(
    ("api", "version", "since"),
    [
        (ApiKey.FETCH, 4, "0.11"),  # batches of the present format, KIP-98
        (ApiKey.PRODUCE, 3, "0.11"),
        (ApiKey.FETCH, 7, "1.1"),  # sessions, KIP-227
        (ApiKey.METADATA, 7, "2.1"),  # leader epochs, KIP-320
        (ApiKey.PRODUCE, 7, "2.1"),  # zstd, KIP-110
        (ApiKey.JOIN_GROUP, 4, "2.2"),  # a member's id before it joins, KIP-394
        (ApiKey.FETCH, 11, "2.3"),  # the replica that is near, KIP-392
        (ApiKey.API_VERSIONS, 3, "2.4"),  # KIP-511
        (ApiKey.METADATA, 10, "2.8"),  # topic ids, KIP-516
        (ApiKey.FETCH, 13, "3.1"),
        (ApiKey.FIND_COORDINATOR, 4, "3.0"),  # several at once, KIP-699
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, "3.7"),  # KIP-848
        (ApiKey.PUSH_TELEMETRY, 0, "3.7"),  # KIP-714
        (ApiKey.END_TXN, 5, "4.0"),  # transactions of version 2, KIP-890
        (ApiKey.PRODUCE, 13, "4.1"),
    ],
)
def test_each_version_is_there_since_its_release(api: ApiKey, version: int, since: str) -> None:
    having = [name for name in release_names() if highest(name, api) >= version]
    assert having == list(release_names())[list(release_names()).index(since) :]


def test_a_release_is_known_by_any_patch_and_an_unknown_one_is_an_error_with_the_known_ones() -> None:
    assert emulation_of("2.8.2") is emulation_of("2.8") is release("2.8")
    assert emulation_of("0.11.0.3").name == "Kafka 0.11"
    for unknown in ("2.9", "5.0", "2", "2.8.", "v2.8", "", "kafka", "0.10.2"):
        with pytest.raises(ConfigurationError) as raised:
            emulation_of(unknown)
        assert f"{unknown!r}" in str(raised.value)
        assert ", ".join(known_versions()) in str(raised.value)


@pytest.mark.parametrize("version", release_names())
async def test_exactly_the_versions_are_advertised_that_the_release_and_this_broker_have(version: str) -> None:
    emulation = emulation_of(version)
    expected = {}
    for key, handler in dispatch_table().items():
        if key in emulation.apis and key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY):
            low, high = emulation.apis[key]
            both = max(low, handler.min_version), min(high, handler.max_version)
            if both[0] <= both[1]:
                expected[key] = (low if key == ApiKey.PRODUCE else both[0], both[1])
    async with socketless_node(version=version) as node:
        told = node.call(ApiKey.API_VERSIONS, 0).api_keys
        assert [each.api_key for each in told] == sorted(expected)
        assert {each.api_key: (each.min_version, each.max_version) for each in told} == expected
        assert served(dispatch_table(), emulation).keys() >= {ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.METADATA}
        for key, handler in served(dispatch_table(), emulation).items():
            above = handler.max_version + 1
            if key != ApiKey.API_VERSIONS and above <= dispatch_table()[key].max_version:
                assert is_closed(node, ApiKey(key), above), ApiKey(key).name


@pytest.mark.parametrize(
    ("version", "told", "newest"),
    [
        ("0.11", UnknownApiVersions.NONE, 1),
        ("2.3", UnknownApiVersions.NONE, 2),
        ("2.4", UnknownApiVersions.ITS_OWN, 3),
        ("3.8", UnknownApiVersions.ITS_OWN, 3),
        ("3.9", UnknownApiVersions.ITS_OWN, 4),
        ("redpanda", UnknownApiVersions.ALL, 3),
        ("event-hubs", UnknownApiVersions.NONE, 1),
    ],
)
async def test_an_unknown_version_of_api_versions_is_answered_as_there(
    version: str, told: UnknownApiVersions, newest: int
) -> None:
    async with socketless_node(version=version) as node:
        all_ranges = [(each.api_key, each.min_version, each.max_version) for each in node.call(18, 0).api_keys]
        body = ask_with(node, newest + 1)
        ranges = [(each.api_key, each.min_version, each.max_version) for each in body.api_keys]
        expected = {
            UnknownApiVersions.NONE: [],
            UnknownApiVersions.ITS_OWN: [(18, 0, newest)],
            UnknownApiVersions.ALL: all_ranges,
        }
        assert (body.error_code, ranges) == (UNSUPPORTED, expected[told])


async def test_metadata_has_topic_ids_from_2_8_on() -> None:
    async with socketless_node(version="2.7") as node:
        assert is_closed(node, ApiKey.METADATA, 10)
    async with socketless_node(version="2.8") as node:
        node.broker.create_topic("t")
        body = node.call(ApiKey.METADATA, 10, topics=None)
        assert body.topics[0].topic_id is not None
        assert is_closed(node, ApiKey.METADATA, 12)


@pytest.mark.parametrize(("version", "produce_version", "code"), [("2.0", 6, UNKNOWN), ("2.1", 7, 0)])
async def test_zstd_is_unknown_before_2_1(version: str, produce_version: int, code: int) -> None:
    async with socketless_node(version=version) as node:
        node.broker.create_topic("t")
        assert produce(node, produce_version, make_batch(compression=Compression.ZSTD)) == code
        assert produce(node, produce_version, make_batch(compression=Compression.LZ4)) == 0


@pytest.mark.parametrize(("version", "produce_version", "code"), [("2.3", 7, CORRUPT), ("2.4", 8, INVALID_RECORD)])
async def test_a_refused_record_is_a_corrupt_message_before_2_4(version: str, produce_version: int, code: int) -> None:
    async with socketless_node(version=version) as node:
        node.broker.create_topic("t", config={"cleanup.policy": "compact"})
        assert produce(node, produce_version, make_batch(key=None)) == code


@pytest.mark.parametrize(
    ("version", "code"), [("0.11", OUT_OF_ORDER), ("1.0", UNKNOWN_PRODUCER), ("2.4", UNKNOWN_PRODUCER), ("2.5", 0)]
)
async def test_a_producer_whose_records_are_gone_is_unknown_before_2_5(version: str, code: int) -> None:
    async with socketless_node(version=version) as node:
        node.broker.create_topic("t")
        assert produce(node, 3, make_batch(producer=(900, 0, 5))) == code
        assert produce(node, 3, make_batch(producer=(901, 0, 0))) == 0
        assert produce(node, 3, make_batch(producer=(901, 0, 1))) == 0
        assert produce(node, 3, make_batch(producer=(901, 0, 7))) == OUT_OF_ORDER


@pytest.mark.parametrize(
    ("version", "time", "answer"),
    [
        ("2.8", -3, (0, 0)),  # the first record that is not older than -3 ms
        ("3.0", -3, (0, 1)),  # the youngest, in a version that has no such request
        ("3.0", -4, (0, 0)),
        ("3.8", -9, (0, 0)),
        ("3.9", -3, (UNSUPPORTED, -1)),
        ("3.9", -9, (UNSUPPORTED, -1)),
    ],
)
async def test_a_time_that_the_requests_version_does_not_have_is_refused_since_3_9(
    version: str, time: int, answer: tuple[int, int]
) -> None:
    async with socketless_node(version=version) as node:
        node.broker.create_topic("t")
        assert produce(node, 3, make_batch([b"a", b"b"], timestamps=[100, 300])) == 0
        wanted = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": time}]}]
        body = node.call(ApiKey.LIST_OFFSETS, 2, replica_id=-1, topics=wanted)
        (told,) = body.topics[0].partitions
        assert (told.error_code, told.offset) == answer


@pytest.mark.parametrize(("version", "code"), [("3.5", 0), ("3.6", INVALID_TXN_STATE)])
async def test_a_partition_need_not_be_in_the_transaction_before_3_6(version: str, code: int) -> None:
    async with socketless_node(version=version) as node:
        node.broker.create_topic("t")
        ids = node.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="id", transaction_timeout=60_000)
        records = make_batch(producer=(ids.producer_id, ids.producer_epoch, 0), is_transactional=True)
        assert produce(node, 9, records, "id") == code
        log = log_of(node.state.topics)
        assert (log.last_stable_offset < log.high_watermark) == (code == 0), "it never ends"


async def test_features_are_those_of_the_release_and_level_0_is_listed_from_version_4_on() -> None:
    async with socketless_node(version="2.7") as node:
        body = node.call(ApiKey.API_VERSIONS, 3, **SOFTWARE)
        assert (body.supported_features, body.finalized_features) == ((), ())
        assert body.finalized_features_epoch == 0
    async with socketless_node(version="2.6") as node:
        assert node.call(ApiKey.API_VERSIONS, 3, **SOFTWARE).finalized_features_epoch == -1
    async with socketless_node(version="4.0") as node:
        for version, names in ((3, {"metadata.version"}), (4, set(emulation_of("4.0").features))):
            body = node.call(ApiKey.API_VERSIONS, version, **SOFTWARE)
            assert {each.name for each in body.supported_features} == names
            finalized = {each.name: each.max_version_level for each in body.finalized_features}
            assert finalized == {"group.version": 1, "metadata.version": 25, "transaction.version": 2}


async def test_consumer_groups_are_not_there_in_3_6_and_not_enabled_in_3_9() -> None:
    async with socketless_node(version="3.6") as node:
        assert is_closed(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)
    async with socketless_node(version="3.9") as node:
        assert node.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id="g").error_code == UNSUPPORTED
    async with socketless_node(version="4.0") as node:
        assert node.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id="g").error_code != UNSUPPORTED


@pytest.mark.parametrize("option", ["group_version", "transaction_version"])
async def test_a_level_that_the_release_does_not_have_is_an_error(option: str) -> None:
    too_high = {"group_version": 1, "transaction_version": 2}[option]
    with pytest.raises(ConfigurationError, match=rf"{option}={too_high}: Kafka 3.9, .* up to {too_high - 1}"):
        async with socketless_node(version="3.9", **{option: too_high}):
            pass
    async with socketless_node(version="4.0", **{option: too_high - 1}) as node:
        told = node.call(ApiKey.API_VERSIONS, 4, **SOFTWARE).finalized_features
        levels = {each.name: each.max_version_level for each in told}
        assert levels.get(option.replace("_", "."), 0) == too_high - 1


async def test_a_refused_request_is_logged_with_the_versions_served_and_the_release(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with socketless_node(version="1.0") as node:
        assert is_closed(node, ApiKey.FETCH, 7)
        assert is_closed(node, ApiKey.LIST_TRANSACTIONS, 0)
    assert "served=4-6" in caplog.text
    assert "served=none" in caplog.text
    assert 'emulates="Kafka 1.0"' in caplog.text
