"""aiokafka and kafka-python, each in one process that does all: ``python -m <this> <name> <servers>``.

They administer, produce, consume in a group of ten members that come and go, commit and resume. Each prints one line of
JSON, the same as kafkajs' and rdkafka's programs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.stock_client_programs import TIMEOUT, AiokafkaGroup

TOPIC, PARTITIONS, BATCH, MORE = "t", 12, 600, 24
RETENTION = {"retention.ms": "1234567"}


class KafkaPythonMember(threading.Thread):
    """One member, which reads and commits in its thread."""

    def __init__(self, servers: list[str], read: list[str]) -> None:
        from kafka import KafkaConsumer

        super().__init__()
        self.consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id="kafka-python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        # Known before it joins: a poll that ends while kafka-python 3.0.12 joins again, for the partitions have become
        # known, leaves it without partitions for good.
        self.consumer.partitions_for_topic(TOPIC)
        self.consumer.subscribe([TOPIC])
        self.read = read
        self.owned = 0
        self.is_leaving = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Read and commit until it is told to leave."""
        try:
            while not self.is_leaving:
                found = self.consumer.poll(timeout_ms=200)
                if found:
                    self.consumer.commit()
                for records in found.values():
                    self.read += [record.value.decode() for record in records]
                self.owned = len(self.consumer.assignment())
        except BaseException as error:
            self.failure = error
        finally:
            self.consumer.close()


class KafkaPythonGroup:
    """Members of a group, and a producer of the records that they read."""

    def __init__(self, servers: list[str]) -> None:
        from kafka import KafkaProducer

        self.servers = servers
        self.producer = KafkaProducer(bootstrap_servers=servers, compression_type="gzip")
        self.read: list[str] = []
        self.members: list[KafkaPythonMember] = []

    def join(self, number: int) -> None:
        """So many members come."""
        come = [KafkaPythonMember(self.servers, self.read) for _ in range(number)]
        self.members += come
        for member in come:
            member.start()

    def leave(self, number: int) -> None:
        """The first ones go."""
        for member in self.members[:number]:
            member.is_leaving = True
        for member in self.members[:number]:
            member.join(TIMEOUT)
        del self.members[:number]

    def write(self, number: int) -> int:
        """Write so many records, and return how many there are."""
        first = len(self.read)
        for value in range(first, first + number):
            self.producer.send(TOPIC, b"%d" % value, partition=value % PARTITIONS, headers=[("n", b"1")])
        self.producer.flush(TIMEOUT)
        return first + number

    def read_some(self) -> None:
        """When each partition has its one owner, and each member a partition, write records and read them."""
        self.until(
            lambda: sum(each.owned for each in self.members) == PARTITIONS and all(each.owned for each in self.members)
        )
        wanted = self.write(BATCH)
        self.until(lambda: len(self.read) >= wanted)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for the members' threads."""
        deadline = time.monotonic() + 2 * TIMEOUT
        while not is_so():
            failure = next((each.failure for each in self.members if each.failure is not None), None)
            if failure is not None:
                raise failure
            if time.monotonic() > deadline:
                raise TimeoutError(len(self.read), [each.owned for each in self.members])
            time.sleep(0.02)


def kafka_python(servers: list[str]) -> Any:
    """kafka-python."""
    from kafka.admin import ConfigResource, KafkaAdminClient

    name = "kafka-python"
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics({TOPIC: {"num_partitions": 5, "replication_factor": 1}})
    admin.create_partitions({TOPIC: PARTITIONS})
    admin.alter_configs([ConfigResource("TOPIC", TOPIC, RETENTION)])
    configs = admin.describe_configs([ConfigResource("TOPIC", TOPIC, ["retention.ms"])])
    group = KafkaPythonGroup(servers)
    group.join(10)
    group.read_some()
    group.leave(5)
    group.read_some()
    group.join(5)
    group.read_some()
    described = admin.describe_groups([name])[name]
    group.leave(10)
    before = len(group.read)
    wanted = group.write(MORE)
    group.join(1)
    group.until(lambda: len(group.read) >= wanted)
    group.leave(1)
    group.producer.close()
    offsets = admin.list_group_offsets({name: None})[name]
    groups = [each["group_id"] for each in admin.list_groups()]
    admin.delete_groups([name])
    (topic,) = admin.describe_topics([TOPIC])
    admin.delete_topics([TOPIC])
    said = {
        "partitions": len(topic["partitions"]),
        "retention": configs["topic"][TOPIC]["retention.ms"]["value"],
        "distinct": len(set(group.read)),
        "read": len(group.read),
        "resumed": len(group.read) - before,
        "committed": sum(each.offset for each in offsets.values()),
        "group": [described["group_state"], len(described["members"])],
        "groups": groups,
        "topics": admin.list_topics(),
    }
    admin.close()
    return said


async def aiokafka(servers: list[str]) -> Any:
    """aiokafka, whose eager members may read a record twice; it has no call that deletes a group."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    name = "aiokafka"
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 5, 1)])
    await admin.create_partitions({TOPIC: NewPartitions(PARTITIONS)})
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, RETENTION)])
    (configs,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, RETENTION)])
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    group = AiokafkaGroup(",".join(servers), TOPIC, PARTITIONS)
    await group.join(10)
    await group.read_some(producer)
    await group.leave(5)
    await group.read_some(producer)
    await group.join(5)
    await group.read_some(producer)
    (described,) = await admin.describe_consumer_groups([name])
    state, members = described.groups[0][2], described.groups[0][5]
    await group.leave(10)
    for value in range(3 * BATCH, 3 * BATCH + MORE):
        await producer.send(TOPIC, b"%d" % value, partition=value % PARTITIONS)
    await producer.flush()
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=servers, group_id=name, enable_auto_commit=False)
    await consumer.start()
    async with asyncio.timeout(TIMEOUT):
        resumed = [(await consumer.getone()).value.decode() for _ in range(MORE)]
        await consumer.commit()
    await consumer.stop()
    offsets = await admin.list_consumer_group_offsets(name)
    (topic,) = await admin.describe_topics([TOPIC])
    groups = [each[0] for each in await admin.list_consumer_groups()]
    await admin.delete_topics([TOPIC])
    values = Counter(value for _, _, value in group.read) + Counter(resumed)
    said = {
        "partitions": len(topic["partitions"]),
        "retention": configs.resources[0][4][0][1],
        "distinct": len(values),
        "read": values.total(),
        "resumed": len(set(resumed)),
        "committed": sum(each.offset for each in offsets.values()),
        "group": [state, len(members)],
        "groups": groups,
        "topics": await admin.list_topics(),
    }
    await producer.stop()
    await admin.close()
    return said


PROGRAMS: dict[str, Callable[[list[str]], Any]] = {
    "aiokafka": lambda servers: asyncio.run(aiokafka(servers)),
    "kafka-python": kafka_python,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2].split(","))))
