"""Azure Event Hubs and Redpanda, as far as their sources say how they answer."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.emulation.by_name import emulation_of
from aiokafkapy.broker.emulation.profiles import PROFILES
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.handlers.registry import served
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.compression import Compression

from ..socketless import socketless_node
from ..support import make_batch
from .requests import SOFTWARE, ask_with, is_closed, produce

UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


@pytest.mark.parametrize("version", list(PROFILES))
async def test_a_product_has_no_topic_ids_no_features_and_no_groups_of_kip_848(version: str) -> None:
    async with socketless_node(version=version) as node:
        for api, above in ((ApiKey.METADATA, 10), (ApiKey.FETCH, 13), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)):
            assert is_closed(node, api, above)
        assert not emulation_of(version).features


async def test_event_hubs_closes_the_connection_over_version_4_of_api_versions() -> None:
    async with socketless_node(version="event-hubs") as node:
        assert ask_with(node, 3).error_code == 35
        assert ask_with(node, 4) is None


async def test_event_hubs_has_no_transactions_and_advertises_produce_from_3() -> None:
    async with socketless_node(version="event-hubs") as node:
        ranges = {each.api_key: (each.min_version, each.max_version) for each in node.call(18, 0).api_keys}
        assert ranges[ApiKey.PRODUCE] == (3, 7)
        assert ranges[ApiKey.FETCH] == (4, 6)
        assert not {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT} & set(ranges)
        assert ApiKey.INIT_PRODUCER_ID in ranges
        assert is_closed(node, ApiKey.END_TXN, 0)


@pytest.mark.parametrize("codec", list(Compression))
async def test_event_hubs_takes_no_codec_but_gzip(codec: Compression) -> None:
    async with socketless_node(version="event-hubs") as node:
        node.broker.create_topic("t")
        is_taken = codec in (Compression.NONE, Compression.GZIP)
        code = produce(node, 7, make_batch(compression=codec))
        assert code == (0 if is_taken else UNSUPPORTED_FOR_MESSAGE_FORMAT)


async def test_redpanda_has_transactions_and_advertises_produce_from_0() -> None:
    async with socketless_node(version="redpanda") as node:
        ranges = {each.api_key: (each.min_version, each.max_version) for each in node.call(18, 3, **SOFTWARE).api_keys}
        assert ranges[ApiKey.PRODUCE] == (0, 7)
        assert ranges[ApiKey.END_TXN] == (0, 3)
        assert ranges.keys() == served(dispatch_table(), emulation_of("redpanda")).keys()


async def test_redpandas_cluster_id_tells_the_product() -> None:
    async with socketless_node(version="redpanda") as node:
        body = node.call(ApiKey.METADATA, 8, topics=None)
        assert body.cluster_id.startswith("redpanda.")
        assert body.cluster_id == node.broker.state.cluster_id
