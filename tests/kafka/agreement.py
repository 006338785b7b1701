"""The same requests to the dev broker and to real Kafka: the parts of scenarios, and their comparison.

A scenario is a function that is given a connection and a topic and returns the answers, as plain values.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from crc32c import crc32c

from aiokafkapy.broker import DevBroker
from aiokafkapy.common import Node
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import iter_batches
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.testing import ApacheKafka
from tests.raw_client import RawClient

__all__ = [
    "COORDINATOR_ERRORS",
    "NOW_MS",
    "Scenario",
    "all_is_heard",
    "batch",
    "answers_of_both",
    "create",
    "describe",
    "fetch",
    "join_fields",
    "joined",
    "list_offset",
    "patched",
    "patiently",
    "produce",
    "when_ready",
]

T = TypeVar("T")
Scenario = Callable[[RawClient, str], Awaitable[Any]]

NOW_MS = 1_700_000_000_000
COORDINATOR_ERRORS = frozenset({14, 15, 16})
"""Loading, not available, elsewhere."""


def batch(
    values: Sequence[bytes] = (b"v",),
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    key: bytes | None = b"k",
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    is_transactional: bool = False,
) -> bytes:
    builder = RecordBatchBuilder(2**24)
    for index, value in enumerate(values):
        key = key if keys is None else keys[index]
        builder.try_append(NOW_MS if timestamps is None else timestamps[index], key, value, ())
    builder.seal(0)
    builder.stamp(*producer, is_transactional)
    return b"".join(builder.buffers())


def patched(records: bytes, offset: int, form: str, value: int) -> bytes:
    """The batch with one field of the header changed and the CRC made right again."""
    changed = bytearray(records)
    struct.pack_into(form, changed, offset, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


async def create(client: RawClient, topic: str, partitions: int = 1, **config: str) -> int:
    configs = [{"name": name.replace("_", "."), "value": value} for name, value in config.items()]
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
    body = await client.call(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout=10_000)
    code = int(body.topics[0].error_code)
    # Real Kafka answers before the new partition has its leader everywhere.
    async with asyncio.timeout(10):
        while code == 0:
            metadata = await client.call(ApiKey.METADATA, 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
            if metadata.topics[0].error_code == 0 and all(p.leader_id >= 0 for p in metadata.topics[0].partitions):
                break
        # ... and reports the leaders before they have opened their logs, in any order.
        for partition in range(partitions if code == 0 else 0):
            while (await list_offset(client, topic, -1, partition=partition))[0] != 0:
                pass
    return code


async def all_is_heard(client: RawClient, topic: str) -> None:
    """Wait until the broker knows of every change that was answered: Kafka's controller answers first, and brokers hear
    of changes in their order. This one is a topic of its own.
    """
    assert await create(client, f"{topic}-{uuid.uuid4().hex[:8]}") == 0


async def produce(
    client: RawClient,
    topic: str,
    records: bytes | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> Any:
    topic_data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    fields: dict[str, Any] = {"acks": acks, "timeout": 10_000, "topic_data": topic_data}
    body = await client.call(ApiKey.PRODUCE, version, transactional_id=transactional_id, **fields)
    answer = body.responses[0].partition_responses[0]
    errors = [each.batch_index for each in getattr(answer, "record_errors", ())]
    return int(answer.error_code), answer.base_offset, errors


async def fetch(
    client: RawClient, topic: str, offset: int, *, epoch: int = -1, version: int = 12, **fields: Any
) -> Any:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000, "current_leader_epoch": epoch}
    fields = {"max_wait": 0, "min_bytes": 1, "max_bytes": 100_000, "session_epoch": -1, **fields}
    topics = [{"topic": topic, "partitions": [wanted]}]
    body = await client.call(ApiKey.FETCH, version, replica_id=-1, topics=topics, **fields)
    if body.error_code:
        return int(body.error_code)
    answer = body.responses[0].partitions[0]
    # Kafka cuts the last batch at the limit, the dev broker leaves it out, as clients do.
    batches = [bytes(each.buffer[21:]) for each in iter_batches(answer.records or b"")]
    return int(answer.error_code), answer.high_watermark, answer.log_start_offset, batches


async def list_offset(
    client: RawClient,
    topic: str,
    timestamp: int,
    *,
    version: int = 8,
    epoch: int = -1,
    partition: int = 0,
    isolation_level: int = 0,
) -> Any:
    wanted = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": topic, "partitions": [wanted]}]
    fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}
    body = await client.call(ApiKey.LIST_OFFSETS, version, **fields)
    answer = body.topics[0].partitions[0]
    return int(answer.error_code), answer.offset, answer.timestamp, answer.leader_epoch


async def patiently(client: RawClient, api: ApiKey, version: int, **fields: Any) -> Any:
    """Real Kafka makes its offsets topic on the first need, and loads ids; until then it answers with an error."""
    return await when_ready(
        client, lambda: client.call(api, version, **fields), lambda body: getattr(body, "error_code", 0)
    )


async def when_ready(
    client: RawClient,
    ask: Callable[[], Awaitable[T]],
    code: Callable[[T], int],
    not_yet: Collection[int] = COORDINATOR_ERRORS,
) -> T:
    """The answer of ``ask``; an answer whose code says "not yet" does not count."""
    async with asyncio.timeout(30):
        while True:
            answer = await ask()
            if code(answer) not in not_yet:
                return answer
            for kind in (0, 1):  # Kafka makes its topics of groups and transactions when a coordinator is asked for
                await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=["any"])
            await asyncio.sleep(0.02)


async def answers_of_both(
    kafka: ApacheKafka, topic: str, scenario: Scenario, *, version: str | None = None
) -> tuple[Any, Any]:
    """The dev broker's answers, as a release if it is to emulate one, and Kafka's."""
    host, port = kafka.address_of(1)
    async with RawClient(Node(1, host, port)) as client:
        expected = await scenario(client, topic)
    dev_broker = DevBroker(auto_create_topics_enable=False, version=version)
    async with dev_broker as broker, RawClient(broker.nodes[0]) as client:
        return await scenario(client, topic), expected


# groups


def join_fields(group: str, member_id: str = "", **changes: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **changes,
    }


def joined(body: Any) -> Any:
    members = [(each.member_id == body.member_id, each.metadata) for each in body.members]
    return int(body.error_code), body.generation_id, body.protocol_name, body.leader == body.member_id, members


async def describe(client: RawClient, group: str) -> Any:
    (answer,) = (await client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group])).groups
    members = [
        (each.client_id, each.client_host, each.member_metadata, each.member_assignment) for each in answer.members
    ]
    return int(answer.error_code), answer.group_state, answer.protocol_type, answer.protocol_data, members
