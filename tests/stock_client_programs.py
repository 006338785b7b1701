"""Other people's clients, each run as its own process against the dev broker: ``python <this> <name> <arguments>``.

Processes and not threads: the broker lives in the test's event loop, and the work of a foreign client on its way out
(threads, sockets left to the garbage collector) is none of ours. Each prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

TIMEOUT = 30.0


def confluent_produce(servers: str, topic: str, count: int, codec: str) -> Any:
    """librdkafka, idempotent; key ``k<n % 10>``, value ``<n>``, one header."""
    from confluent_kafka import Producer

    offsets: dict[int, list[int]] = {}
    errors: list[str] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(str(error))
        else:
            offsets.setdefault(message.partition(), []).append(message.offset())

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 1,
            "batch.num.messages": 500,
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, key=f"k{number % 10}", value=str(number), headers=[("n", b"1")], on_delivery=on_delivery
                )
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    left = producer.flush(TIMEOUT)
    delivered = sum(len(each) for each in offsets.values())
    in_order = all(each == sorted(each) for each in offsets.values())
    return {"delivered": delivered, "left": left, "errors": errors[:5], "in_order": in_order}


def confluent_consume(servers: str, topic: str, group: str, count: int, **options: str) -> Any:
    """Read ``count`` records as a member of a group, commit, leave; options have underscores for dots."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )
    consumer.subscribe([topic])
    read: list[tuple[int | None, int | None, str]] = []
    deadline = time.monotonic() + TIMEOUT
    while len(read) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            if message.error():
                raise RuntimeError(message.error())
            value = message.value()
            assert value is not None
            read.append((message.partition(), message.offset(), value.decode(errors="replace")))
    consumer.commit(asynchronous=False)
    committed = consumer.committed(consumer.assignment(), timeout=TIMEOUT)
    consumer.close()
    return {"read": read, "committed": sorted((each.partition, each.offset) for each in committed)}


class ConfluentGroup:
    """Members of a group in this process, polled in turn, and a producer of the records that they read."""

    def __init__(self, servers: str, topic: str, group: str, protocol: str) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.producer = Producer({"bootstrap.servers": servers})
        self.partitions = len(self.producer.list_topics(topic, TIMEOUT).topics[topic].partitions)
        self.read: list[tuple[int | None, int | None, str]] = []
        self.members: list[Any] = []
        self.leaving: Any = None
        self.options: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            self.options |= {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "cooperative-sticky"}

    def join(self, number: int) -> None:
        """So many members come."""
        from confluent_kafka import Consumer

        for _ in range(number):
            consumer = Consumer(self.options)
            consumer.subscribe([self.topic], on_revoke=self.give_up)
            self.members.append(consumer)

    def leave(self, number: int) -> None:
        """The first ones go. They give up their partitions before they close: while librdkafka closes, that may end the
        process (confluentinc/librdkafka#4792: rd_kafka_cgrp_terminated).
        """
        for consumer in self.members[:number]:
            self.commit_in_this_generation(consumer)
            self.leaving = consumer
            consumer.unsubscribe()
            deadline = time.monotonic() + TIMEOUT
            while consumer.assignment():
                if time.monotonic() > deadline:
                    raise TimeoutError(consumer.assignment())
                consumer.poll(0.05)
            consumer.close()
        del self.members[:number]

    def commit_in_this_generation(self, consumer: Any) -> None:
        """Commit, and again if the group went on to another generation (KIP-848: the member to another epoch) and the
        client has not yet heard of it.
        """
        from confluent_kafka import KafkaError, KafkaException

        passing = (KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH)
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.commit(consumer)
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def give_up(self, consumer: Any, partitions: object) -> None:
        """Commit before others get the partitions; a leaving member has committed just before."""
        if consumer is not self.leaving:
            self.commit(consumer)

    @staticmethod
    def commit(consumer: Any) -> None:
        """Commit the read records' offsets, if there are any."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def read_some(self, number: int = 600) -> None:
        """When each partition has its one owner, and each member a partition, write so many records and read them."""
        self._poll_until(self._is_shared)
        wanted = len(self.read) + number
        for value in range(len(self.read), wanted):
            self.producer.produce(self.topic, str(value), partition=value % self.partitions)
        self.producer.flush(TIMEOUT)
        self._poll_until(lambda: len(self.read) >= wanted)

    def committed(self) -> list[tuple[int, int]]:
        """Partitions with their offsets."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        return sorted((each.partition, each.offset) for each in self.members[-1].committed(places, timeout=TIMEOUT))

    def _is_shared(self) -> bool:
        owned = [each.partition for consumer in self.members for each in consumer.assignment()]
        return sorted(owned) == list(range(self.partitions)) and all(each.assignment() for each in self.members)

    def _poll_until(self, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 2 * TIMEOUT
        while not is_enough():
            if time.monotonic() > deadline:
                raise TimeoutError([len(consumer.assignment()) for consumer in self.members])
            for consumer in self.members:
                message = consumer.poll(0.005)
                if message is not None:
                    if message.error():
                        raise RuntimeError(message.error())
                    self.read.append((message.partition(), message.offset(), message.value().decode()))


def confluent_lone(servers: str, topic: str, count: int, protocol: str) -> Any:
    """librdkafka: records one by one, each awaited, then one member of a group reads and commits them."""
    from confluent_kafka import Producer

    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
    for number in range(count):
        producer.produce(
            topic, str(number), partition=0, on_delivery=lambda error, message: offsets.append(message.offset())
        )
        producer.flush(TIMEOUT)
    return {"offsets": offsets} | confluent_consume(
        servers, topic, f"{topic}-{protocol}", count, group_protocol=protocol
    )


def aiokafka_lone(servers: str, topic: str, count: int) -> Any:
    """aiokafka: records one by one, each awaited, then one member of a group reads and commits them."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def main() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await producer.start()
        sent = [await producer.send_and_wait(topic, b"%d" % number, partition=0) for number in range(count)]
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id="aiokafka",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        async with asyncio.timeout(TIMEOUT):
            read = [await consumer.getone() for _ in range(count)]
            await consumer.commit()
            committed = [(each.partition, await consumer.committed(each)) for each in consumer.assignment()]
        await consumer.stop()
        return {
            "offsets": [each.offset for each in sent],
            "read": [(record.partition, record.offset, record.value.decode(errors="replace")) for record in read],
            "committed": sorted(committed),
        }

    return asyncio.run(main())


def confluent_churn(servers: str, topic: str, group: str, protocol: str) -> Any:
    """Ten members of a group; then five of them go, and then five others come. Each time 600 records are read."""
    members = ConfluentGroup(servers, topic, group, protocol)
    members.join(10)
    members.read_some()
    members.leave(5)
    members.read_some()
    members.join(5)
    members.read_some()
    for consumer in members.members:
        members.commit(consumer)
    committed = members.committed()
    members.leave(10)
    return {"read": members.read, "committed": committed}


def confluent_admin(servers: str, topic: str) -> Any:
    """Create, list, grow, configure, describe and delete a topic."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
    )

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "1234"})])[topic].result(TIMEOUT)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT)
    change = ConfigEntry("max.message.bytes", "777", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[change])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(TIMEOUT)
    found = next(iter(admin.describe_configs([ConfigResource("topic", topic)]).values())).result(TIMEOUT)
    listed = admin.list_topics(timeout=TIMEOUT)
    partitions = len(listed.topics[topic].partitions)
    admin.delete_topics([topic])[topic].result(TIMEOUT)
    return {
        "brokers": sorted(listed.brokers),
        "partitions": partitions,
        "retention": found["retention.ms"].value,
        "largest": found["max.message.bytes"].value,
        "deleted": topic not in admin.list_topics(timeout=TIMEOUT).topics,
    }


def kafka_python(servers: str, topic: str, count: int) -> Any:
    """kafka-python: produce, then read half, commit, and the other half as a new member."""
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers.split(","), compression_type="gzip")
    futures = [
        producer.send(topic, key=b"k%d" % (n % 10), value=b"%d" % n, headers=[("n", b"1")]) for n in range(count)
    ]
    producer.flush(TIMEOUT)
    delivered = sum(future.get(TIMEOUT).offset >= 0 for future in futures)
    producer.close()
    read = []
    for part in (count // 2, count - count // 2):
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=servers.split(","),
            group_id="kafka-python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=part,
            consumer_timeout_ms=TIMEOUT * 1000,
        )
        got = 0
        while got < part:
            # A poll must outlast a rebalance: when new metadata make kafka-python 3.0.12 join again and the poll ends
            # before SyncGroup is answered, the next poll takes the rebalance for done, and the member never has
            # partitions.
            for records in consumer.poll(timeout_ms=TIMEOUT * 1000, max_records=part - got).values():
                read += [(record.partition, record.offset, record.value.decode()) for record in records]
                got += len(records)
        consumer.commit()
        consumer.close()
    return {"delivered": delivered, "read": read}


def kafka_python_read(servers: str, topic: str, count: int) -> Any:
    """kafka-python: read so many records from the beginning."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT * 1000,
    )
    read: list[tuple[int, int, str]] = []
    while len(read) < count:
        for records in consumer.poll(timeout_ms=TIMEOUT * 1000).values():
            read += [(record.partition, record.offset, record.value.decode()) for record in records]
    consumer.close()
    return {"read": read}


def aiokafka_read(servers: str, topic: str, count: int) -> Any:
    """aiokafka: read so many records from the beginning."""
    from aiokafka import AIOKafkaConsumer

    async def main() -> Any:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        read: list[tuple[int, int, str]] = []
        async with asyncio.timeout(TIMEOUT):
            while len(read) < count:
                record = await consumer.getone()
                read.append((record.partition, record.offset, record.value.decode()))
        await consumer.stop()
        return {"read": read}

    return asyncio.run(main())


def aiokafka(servers: str, topic: str, count: int) -> Any:
    """aiokafka: produce (idempotent), then two members of one group at once."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    read: list[tuple[int, int, str]] = []

    async def member(name: str) -> int:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id="aiokafka",
            client_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        )
        await consumer.start()
        own = 0
        try:
            while len(read) < count:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    read.extend((record.partition, record.offset, record.value.decode()) for record in records)
                    own += len(records)
        finally:
            await consumer.stop()
        return own

    async def main() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, compression_type="snappy")
        await producer.start()
        futures = [
            await producer.send(topic, key=b"k%d" % (n % 10), value=b"%d" % n, headers=[("n", b"1")])
            for n in range(count)
        ]
        metadata = await asyncio.gather(*futures)
        await producer.stop()
        async with asyncio.timeout(TIMEOUT):
            shares = await asyncio.gather(member("first"), member("second"))
        return {"delivered": len(metadata), "read": read, "shares": shares}

    return asyncio.run(main())


class AiokafkaGroup:
    """Members of a group in this process, each a task, and a producer of the records that they read."""

    def __init__(self, servers: str, topic: str, partitions: int = 12) -> None:
        self.servers, self.topic, self.partitions = servers, topic, partitions
        self.members: list[tuple[Any, asyncio.Task[None]]] = []
        self.read: list[tuple[int, int, str]] = []

    async def join(self, number: int) -> None:
        """So many members come."""
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

        for _ in range(number):
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.servers,
                group_id="aiokafka",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
            )

            class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
                """Commits the read records' offsets before another member reads on."""

                consumer: Any

                async def on_partitions_revoked(self, revoked: Any) -> None:
                    if revoked:
                        await self.consumer.commit()

                async def on_partitions_assigned(self, assigned: Any) -> None:
                    pass

            listener = Listener()
            listener.consumer = consumer
            consumer.subscribe([self.topic], listener=listener)
            await consumer.start()
            self.members.append((consumer, asyncio.create_task(self._poll(consumer))))

    async def leave(self, number: int) -> None:
        """The first ones go."""
        from aiokafka.errors import CommitFailedError

        for consumer, task in self.members[:number]:
            task.cancel()
            await asyncio.wait([task])
            if consumer.assignment():
                # In a rebalance, which earlier members cause by going, the listener has committed already.
                with contextlib.suppress(CommitFailedError):
                    await consumer.commit()
            await consumer.stop()
        del self.members[:number]

    async def read_some(self, producer: Any, number: int = 600) -> None:
        """When each partition has its one owner, write so many records and read them."""
        await self._until(self._is_shared)
        values = {value for _, _, value in self.read}
        wanted = {str(value) for value in range(len(values), len(values) + number)}
        for value in sorted(wanted):
            await producer.send(self.topic, value.encode(), partition=int(value) % self.partitions)
        await producer.flush()
        await self._until(lambda: wanted <= {value for _, _, value in self.read})

    async def _poll(self, consumer: Any) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                self.read += [(record.partition, record.offset, record.value.decode()) for record in records]

    def _is_shared(self) -> bool:
        owned = [each.partition for consumer, _ in self.members for each in consumer.assignment()]
        return sorted(owned) == list(range(self.partitions)) and all(each.assignment() for each, _ in self.members)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(2 * TIMEOUT):
            while True:
                if is_so():
                    return
                await asyncio.sleep(0.02)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "confluent-produce": lambda servers, topic, count, codec: confluent_produce(servers, topic, int(count), codec),
    "confluent-consume": lambda servers, topic, group, count, *options: confluent_consume(
        servers, topic, group, int(count), **dict(option.split("=", 1) for option in options)
    ),
    "confluent-churn": confluent_churn,
    "confluent-admin": confluent_admin,
    "kafka-python-read": lambda servers, topic, count: kafka_python_read(servers, topic, int(count)),
    "aiokafka-read": lambda servers, topic, count: aiokafka_read(servers, topic, int(count)),
    "kafka-python": lambda servers, topic, count: kafka_python(servers, topic, int(count)),
    "confluent-lone": lambda servers, topic, count, protocol: confluent_lone(servers, topic, int(count), protocol),
    "aiokafka-lone": lambda servers, topic, count: aiokafka_lone(servers, topic, int(count)),
    "aiokafka": lambda servers, topic, count: aiokafka(servers, topic, int(count)),
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])))
