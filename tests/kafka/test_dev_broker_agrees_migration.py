"""The dev broker and real Kafka on groups with members of both protocols (KIP-848's online migration)."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka
from tests.embedded_protocol import assignment, assignment_of, subscription
from tests.kafka.agreement import Scenario, answers_of_both, describe, join_fields, patiently
from tests.kafka.group_calls import (
    beat,
    create_for_groups,
    described,
    joining,
    listed,
    topic_ids,
)
from tests.raw_client import RawClient


class Classic:
    """A member of the classic protocol, static with an instance id; its answers, without ids that differ."""

    def __init__(self, client: RawClient, topic: str, instance_id: str | None = None) -> None:
        self.client = client
        self.topic = topic
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[int, ...] = ()

    async def join(self, **changes: Any) -> Any:
        metadata = subscription(self.topic, owned=self.owned)
        fields = join_fields(self.topic, self.member_id, protocols=[{"name": "range", "metadata": metadata}], **changes)
        body = await patiently(self.client, ApiKey.JOIN_GROUP, 7, **fields, group_instance_id=self.instance_id)
        self.member_id = body.member_id or self.member_id
        self.generation = body.generation_id if not body.error_code else self.generation
        leads = body.leader == body.member_id
        return (
            int(body.error_code),
            body.generation_id,
            body.protocol_type,
            body.protocol_name,
            leads,
            bool(body.leader),
        )

    async def sync(self, given: bytes | None = None, **changes: Any) -> Any:
        """The member's partitions, which it has from then on; as the leader it gives itself some."""
        assignments = [] if given is None else [{"member_id": self.member_id, "assignment": given}]
        fields = {
            "group_id": self.topic,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": assignments,
            **changes,
        }
        body = await self.client.call(ApiKey.SYNC_GROUP, 5, **fields)
        if body.error_code:
            return int(body.error_code)
        version, places = assignment_of(body.assignment)
        self.owned = tuple(number for _, number in places)
        return (
            version,
            {topic for topic, _ in places} <= {self.topic},
            self.owned,
            body.protocol_type,
            body.protocol_name,
        )

    async def heartbeat(self, generation: int | None = None) -> int:
        fields = {"group_id": self.topic, "member_id": self.member_id, "group_instance_id": self.instance_id}
        number = self.generation if generation is None else generation
        return int((await self.client.call(ApiKey.HEARTBEAT, 4, generation_id=number, **fields)).error_code)

    async def leave(self, *others: str) -> list[int]:
        leaving = [
            {"member_id": self.member_id, "group_instance_id": self.instance_id},
            *({"member_id": each} for each in others),
        ]
        body = await self.client.call(ApiKey.LEAVE_GROUP, 5, group_id=self.topic, members=leaving)
        return [int(body.error_code), *(int(each.error_code) for each in body.members)]

    async def commit(self, version: int = 8) -> int:
        topics = [{"name": self.topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        fields = {"group_id": self.topic, "member_id": self.member_id, "topics": topics}
        body = await self.client.call(
            ApiKey.OFFSET_COMMIT, version, generation_id_or_member_epoch=self.generation, **fields
        )
        return int(body.topics[0].partitions[0].error_code)

    async def stable(self, *partitions: int) -> None:
        """A group of this one member, with these partitions."""
        if self.instance_id is None:
            await self.join()  # an id first (KIP-394)
        await self.join()
        await self.sync(assignment(self.topic, *partitions))


async def shown(client: RawClient, group: str) -> Any:
    """The group as ConsumerGroupDescribe gives it, without the ids of members."""
    code, message, state, epoch, assignment_epoch, assignor, members = await described(client, group)
    told = sorted((each[1] or "", each[2], each[5], each[9], [len(n) for _, n in each[7]]) for each in members)
    return code, message, state, epoch, assignment_epoch, assignor, told


async def a_classic_group_is_upgraded_and_downgraded(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 4)
    (topic_id,) = await topic_ids(client, topic)

    def owning(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": topic_id, "partitions": list(partitions)}]}

    old = Classic(client, topic)
    await old.stable(0, 1, 2, 3)
    told: list[Any] = [await listed(client, topic), await old.heartbeat()]
    told += [await beat(client, topic, "n", 0, **joining(topic)), await listed(client, topic)]
    told += [await shown(client, topic), await describe(client, topic)]
    told += [await old.commit(), await old.commit(9), await old.heartbeat(), await old.heartbeat(7), await old.sync()]
    told += [await old.join(), await shown(client, topic), await old.heartbeat(), (await old.sync())[0]]
    told += [len(old.owned), await old.join(), (await old.sync())[:2], await old.heartbeat()]
    told += [(await beat(client, topic, "n", 2))[:3], await shown(client, topic)]
    told += [await old.sync(protocol_name="sticky"), await old.sync(protocol_type="connect")]
    other = Classic(client, topic)
    told += [await other.join(), bool(other.member_id), await other.join(), await shown(client, topic)]
    told += [await other.join(protocol_type="connect"), await other.sync()]
    told += [await old.heartbeat(), await beat(client, topic, "n", 1), await old.commit(9)]
    told += [await other.leave(), await other.leave(), await old.heartbeat(), await old.join(), await old.sync()]
    told += [await beat(client, topic, "n", -1), await listed(client, topic), (await describe(client, topic))[:4]]
    told += [await shown(client, topic), await old.heartbeat()]
    told += [await old.join(), await old.sync(assignment(topic, 0, 1)), await old.heartbeat(), await old.leave()]
    told.append(await listed(client, topic))
    return told


async def members_of_both_protocols_leave(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 4)
    first, second = Classic(client, topic), Classic(client, topic)
    told: list[Any] = [
        await beat(client, topic, "n", 0, **joining(topic)),
        await beat(client, topic, "m", 0, **joining(topic)),
    ]
    for each in (first, second):
        told += [await each.join(), await each.join()]
    told += [await first.leave("m", "nobody"), await shown(client, topic), await second.leave("n")]
    told += [await shown(client, topic), await listed(client, topic)]
    return told


async def a_static_member_changes_its_protocol_and_back(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 2)
    old = Classic(client, topic, "i")
    await old.stable(0, 1)
    told: list[Any] = [await beat(client, topic, "n", 0, **joining(topic, instance_id="i")), await shown(client, topic)]
    told += [await old.heartbeat(), await old.join()]
    another = Classic(client, topic, "j")
    told += [await another.join(), await shown(client, topic)]
    new = Classic(client, topic, "i")
    told += [await new.join(), await listed(client, topic), (await describe(client, topic))[:4]]
    told += [await new.sync(), await another.heartbeat(), await new.heartbeat()]
    told += [await beat(client, topic, "n", 1, instance_id="i")]
    return told


async def groups_that_cannot_be_upgraded(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 2)
    told: list[Any] = []
    for name, protocol_type, metadata, given in (
        ("connect", "connect", subscription(topic), assignment(topic, 0)),
        ("malformed", "consumer", b"\0", assignment(topic, 0)),
        ("malformed-assignment", "consumer", subscription(topic), b"\0"),
        ("user-data", "consumer", subscription(topic), assignment(topic, 0, user_data=b"x")),
        ("no-user-data", "consumer", subscription(topic), assignment(topic, 0, user_data=b"")),
        ("unknown-topic", "consumer", subscription(topic), assignment(f"{topic}-none", 0)),
        ("version-0", "consumer", subscription(topic, version=0), assignment(topic, 0)),
    ):
        member = Classic(client, f"{topic}-{name}")
        group = member.topic
        fields = {"protocol_type": protocol_type, "protocols": [{"name": "range", "metadata": metadata}]}
        for _ in range(2):
            body = await patiently(client, ApiKey.JOIN_GROUP, 7, **join_fields(group, member.member_id, **fields))
            member.member_id, member.generation = body.member_id, body.generation_id
        assignments = [{"member_id": member.member_id, "assignment": given}]
        me = {"group_id": group, "generation_id": member.generation, "member_id": member.member_id}
        body = await client.call(ApiKey.SYNC_GROUP, 4, **me, assignments=assignments)
        error_code, message, epoch, assigned = await beat(client, group, "n", 0, **joining(topic))
        # Only their number is compared: Kafka gives free partitions out in the order of the hashes of the members'
        # ids, and a classic member's id is random.
        count = None if assigned is None else len(assigned)
        told.append((name, int(body.error_code), error_code, (message or "").replace(topic, "t"), epoch, count))
        told.append([each[1:] for each in await listed(client, group)])
    return told


async def classic_members_that_cannot_be(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 2)
    told: list[Any] = [await beat(client, topic, "m", 0, **joining(topic))]
    classic = Classic(client, topic)
    for metadata in (b"", b"\0", b"\xff\xff"):
        fields = join_fields(topic, "", protocols=[{"name": "range", "metadata": metadata}])
        body = await client.call(ApiKey.JOIN_GROUP, 3, **fields)
        told.append((int(body.error_code), body.generation_id))
    told += [await classic.join(protocol_type="connect"), await classic.join(session_timeout=1)]
    fields = join_fields(topic, "", protocols=[])
    body = await client.call(ApiKey.JOIN_GROUP, 7, **fields)
    told.append(int(body.error_code))
    classic.member_id = "m"  # of the other protocol
    classic.generation = 1
    told += [await classic.heartbeat(), await classic.sync(), await classic.commit()]
    classic.member_id = "nobody"
    told += [await classic.heartbeat(), await classic.sync(), await classic.leave(), await classic.commit()]
    classic.instance_id = "i"
    told += [await classic.join(), await classic.heartbeat(), await classic.sync(), await classic.leave()]
    return told


SCENARIOS: list[Scenario] = [
    a_classic_group_is_upgraded_and_downgraded,
    members_of_both_protocols_leave,
    a_static_member_changes_its_protocol_and_back,
    groups_that_cannot_be_upgraded,
    classic_members_that_cannot_be,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_dev_broker_answers_as_kafka_does(kafka: ApacheKafka, topic: str, scenario: Scenario) -> None:
    ours, kafkas = await answers_of_both(kafka, topic, scenario)
    assert ours == kafkas
