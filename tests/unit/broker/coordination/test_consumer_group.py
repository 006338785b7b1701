"""Consumer groups under any order of events: members that come, go, crash, change their minds and lose answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from aiokafkapy.broker.coordination.assignors import Assignment
from aiokafkapy.broker.coordination.consumer_group_manager import HeartbeatResult
from aiokafkapy.errors import FencedMemberEpochError, UnknownMemberIdError, UnreleasedInstanceIdError

from .consumer_groups import NOTHING, ConsumerGroups

TOPICS = ["t", "orders", "orders-eu"]
SUBSCRIPTIONS = st.sampled_from([["t"], ["t", "orders"], ["orders"], []])
REBALANCE_TIMEOUT = 30.0


@dataclass(eq=False)
class Consumer:
    """A client that keeps to the protocol: it gives partitions up before it says so, and adds the new ones of an answer
    unless a later answer was lost.
    """

    member_id: str
    names: list[str]
    regex: str
    assignor: str | None
    instance_id: str | None = None
    epoch: int = 0
    owned: Assignment = NOTHING
    assigned: Assignment = NOTHING
    says_all: bool = True
    is_gone: bool = False
    lives: int = field(default=0)

    def beat(self, groups: ConsumerGroups) -> HeartbeatResult:
        fields: dict[str, object] = {"instance_id": self.instance_id, "owned": self.owned}
        if self.says_all:
            fields |= {
                "rebalance_timeout": REBALANCE_TIMEOUT,
                "subscribed_topic_names": self.names,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
            }
        return groups.beat(self.member_id, self.epoch, **fields)

    def hear(self, answer: HeartbeatResult) -> None:
        self.says_all = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = answer.assignment

    def forget(self) -> None:
        """The member was removed, so it gives everything up and joins as a new one."""
        self.lives += 1
        self.member_id = f"{self.member_id.partition('/')[0]}/{self.lives}"
        self.epoch, self.owned, self.assigned, self.says_all = 0, NOTHING, NOTHING, True


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group and its clients."""

    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.groups = ConsumerGroups(partitions=5, group_consumer_session_timeout_ms=45_000)
        self.clients: list[Consumer] = []
        self.started = 0

    @rule(
        target=consumers,
        names=SUBSCRIPTIONS,
        regex=st.sampled_from(["", "orders.*"]),
        assignor=st.sampled_from([None, "uniform", "range"]),
        is_static=st.booleans(),
    )
    def start(self, names: list[str], regex: str, assignor: str | None, is_static: bool) -> Consumer:
        self.started += 1
        instance_id = f"i{self.started % 3}" if is_static else None
        consumer = Consumer(f"m{self.started}", names, regex, assignor, instance_id)
        self.clients.append(consumer)
        return consumer

    @rule(consumer=consumers, is_lost=st.booleans())
    def beat(self, consumer: Consumer, is_lost: bool) -> None:
        try:
            answer = consumer.beat(self.groups)
        except UnknownMemberIdError:
            consumer.forget()
        except (FencedMemberEpochError, UnreleasedInstanceIdError):
            # Too many answers were lost: the broker removes the member when its session is over.
            self.crash_of(consumer)
            consumer.instance_id = None
        else:
            if is_lost:
                consumer.says_all = True
            else:
                consumer.hear(answer)

    @rule(consumer=consumers)
    def act(self, consumer: Consumer) -> None:
        if consumer.owned <= consumer.assigned:
            # Not after a lost answer, which may have taken partitions that the member had not yet said it owns: Kafka's
            # CurrentAssignmentBuilder gives these to others at once.
            if not consumer.says_all:
                consumer.owned = consumer.assigned
        else:
            consumer.owned &= consumer.assigned

    @rule(consumer=consumers, names=SUBSCRIPTIONS)
    def subscribe(self, consumer: Consumer, names: list[str]) -> None:
        consumer.names, consumer.says_all = names, True

    @rule(consumer=consumes(consumers), temporarily=st.booleans())
    def leave(self, consumer: Consumer, temporarily: bool) -> None:
        self.clients.remove(consumer)
        if consumer.epoch <= 0:
            return self.crash_of(consumer)
        epoch = -2 if temporarily and consumer.instance_id else -1
        try:
            self.groups.beat(consumer.member_id, epoch, instance_id=consumer.instance_id)
        except UnknownMemberIdError:
            return None
        return None

    @rule(consumer=consumes(consumers))
    def crash(self, consumer: Consumer) -> None:
        self.clients.remove(consumer)
        self.crash_of(consumer)

    def crash_of(self, consumer: Consumer) -> None:
        consumer.forget()

    @rule(seconds=st.sampled_from([1.0, 29.0, 46.0]))
    def wait(self, seconds: float) -> None:
        self.groups.scheduler.advance(seconds)
        members = self.groups.group.members if self.groups.coordinator.get("g") else {}
        for consumer in self.clients:
            if consumer.epoch and consumer.member_id not in members:
                consumer.forget()  # its own time-outs are shorter than the broker's

    @rule(topic=st.sampled_from(TOPICS), is_there=st.booleans())
    def change_topics(self, topic: str, is_there: bool) -> None:
        topics = self.groups.topics
        found = topics.get(topic)
        if found is None and is_there:
            topics.create(topic, 3)
        elif found is not None and is_there and len(found.partitions) < 6:
            topics.add_partitions(topic, len(found.partitions) + 1)
        elif found is not None and not is_there:
            topics.delete(topic)

    @invariant()
    def nothing_has_two_owners(self) -> None:
        owners = Counter(partition for consumer in self.clients for partition in consumer.owned)
        assert not [partition for partition, count in owners.items() if count > 1]
        if self.groups.coordinator.get("g") is None:
            return
        group = self.groups.group
        held = [each for member in group.members.values() for each in member.assigned | member.pending_revocation]
        assert sorted(held) == sorted(partition for partition, _ in group.owners())
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        """In the end, when every client has had enough turns, every partition has its one owner and all agree."""
        if self.clients:
            self.wait(46.0)
            for _ in range(8):
                for consumer in self.clients:
                    self.act(consumer)
                    self.beat(consumer, False)
            self.groups.scheduler.advance(44)  # those that crashed are gone
            for _ in range(8):
                for consumer in self.clients:
                    self.act(consumer)
                    self.beat(consumer, False)
            self.nothing_has_two_owners()
            group = self.groups.group
            assert group.state.value == "Stable"
            wanted = {
                (topic.topic_id, partition.index)
                for topic in self.groups.topics
                for partition in topic.partitions
                if group.is_subscribed_to(topic.name)
            }
            assert {tuple(partition) for consumer in self.clients for partition in consumer.owned} == wanted
        self.groups.coordinator.close()
        assert self.groups.scheduler.pending == 0


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(stateful_step_count=40, deadline=None)
