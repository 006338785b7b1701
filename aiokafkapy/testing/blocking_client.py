"""Requests over a blocking socket, so that tests can query a broker independently of our client.

Readiness, topics and leaders are queried here in the simplest way, so that the producer is tested against the cluster's
own answers. Only ``Admin.wait_until`` retries, and no connection is kept open. Blocks: call it from a worker thread if
there is an event loop.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..errors import ElectionNotNeededError, KafkaTimeoutError, UnknownTopicOrPartitionError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Struct, decode_response, encode_request
from ..protocol.messages import build_request

__all__ = ["Admin", "PartitionState", "exchange", "raise_for"]

Address = tuple[str, int]

# Versions that all brokers from 2.4 to 4.x support.
_VERSIONS = {
    ApiKey.METADATA: 9,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
}
_POLL_INTERVAL = 0.05
_PREFERRED = 0
"""ElectLeaders' number for the election of preferred leaders."""
_PATIENCE = 5.0
"""Seconds after which a broker that does not answer is skipped; the controller itself answers such requests at once."""


class PartitionState(NamedTuple):
    """One partition in one broker's metadata; leader -1 means none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


def exchange(address: Address, api_key: ApiKey, patience: float, **fields: object) -> Struct:
    """Connect, send one request, and return the body of its response; OSError for any failure of the connection.

    ``patience`` is the time-out in seconds; it is not called ``timeout``, because ``fields`` may have that name.
    """
    version = _VERSIONS[api_key]
    request = encode_request(build_request(api_key, version, **fields), 1, "aiokafkapy-testing")
    with socket.create_connection(address, patience) as connection:
        connection.settimeout(patience)
        connection.sendall(request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        body: Struct = decode_response(api_key, version, _receive(connection, size))[1]
        return body


class Admin:
    """Topics and leaders of a cluster, requested from the addresses that a callable returns each time."""

    def __init__(self, addresses: Callable[[], Sequence[Address]]) -> None:
        self._addresses = addresses

    def brokers(self, address: Address, timeout: float = 5.0) -> set[int]:
        """Ids of the live brokers in the metadata of the one at ``address``; empty while it knows no controller."""
        body = exchange(address, ApiKey.METADATA, timeout, topics=())
        return {int(broker.node_id) for broker in body.brokers} if int(body.controller_id) >= 0 else set()

    def partitions(self, topic: str, address: Address | None = None, timeout: float = 5.0) -> dict[int, PartitionState]:
        """The topic's partitions as the broker at ``address``, or the first that answers, sees them; {} if unknown."""
        request = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        if address is None:
            body = self.ask_any(ApiKey.METADATA, timeout, **request)
        else:
            body = exchange(address, ApiKey.METADATA, timeout, **request)
        states = {
            int(partition.partition_index): PartitionState(
                int(partition.leader_id),
                tuple(int(node_id) for node_id in partition.replica_nodes),
                tuple(int(node_id) for node_id in partition.isr_nodes),
            )
            for known in body.topics
            if int(known.error_code) == 0
            for partition in known.partitions
        }
        return dict(sorted(states.items()))

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, object], timeout: float
    ) -> None:
        """Create a topic and return when every broker knows it with a leader for each partition."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": [],
            "configs": [{"name": key, "value": str(value)} for key, value in config.items()],
        }
        answer = self.ask_any(ApiKey.CREATE_TOPICS, timeout, topics=[topic], timeout=int(timeout * 1000))
        raise_for(answer.topics[0], name)
        self._wait_for_leaders(name, partitions, timeout)

    def delete_topic(self, name: str, timeout: float) -> None:
        """Delete a topic and return when no broker knows it."""
        answer = self.ask_any(ApiKey.DELETE_TOPICS, timeout, topic_names=[name], timeout=int(timeout * 1000))
        raise_for(answer.responses[0], name)
        self._wait_until_all_know(name, lambda known: not known, timeout, f"topic {name} is still known")

    def add_partitions(self, name: str, total: int, timeout: float) -> None:
        """Grow a topic to ``total`` partitions and return when every broker knows a leader for each."""
        request = {"name": name, "count": total, "assignments": None}
        answer = self.ask_any(ApiKey.CREATE_PARTITIONS, timeout, topics=[request], timeout=int(timeout * 1000))
        raise_for(answer.results[0], name)
        self._wait_for_leaders(name, total, timeout)

    def elect_leaders(self, name: str, partitions: Collection[int] | None, timeout: float) -> list[int]:
        """Elect the preferred leaders, wait until every broker knows them, and return the partitions with another
        leader.
        """
        if partitions is None:
            partitions = self.partitions(name)
            if not partitions:
                raise make(UnknownTopicOrPartitionError.code, topic=name)
        request = {"topic": name, "partitions": list(partitions)}
        answer = self.ask_any(
            ApiKey.ELECT_LEADERS,
            _PATIENCE,
            election_type=_PREFERRED,
            topic_partitions=[request],
            timeout=int(timeout * 1000),
        )
        raise_for(answer, name)
        results = [result for topic in answer.replica_election_results for result in topic.partition_result]
        moved = [result for result in results if int(result.error_code) != ElectionNotNeededError.code]
        for result in moved:
            raise_for(result, name, int(result.partition_id))

        def are_preferred(known: Mapping[int, PartitionState]) -> bool:
            return all(p in known and known[p].leader == known[p].replicas[0] for p in partitions)

        what = f"not every partition of {name} is led by its preferred leader"
        self._wait_until_all_know(name, are_preferred, timeout, what)
        return sorted(int(result.partition_id) for result in moved)

    def reassign(self, name: str, replicas: Mapping[int, Sequence[int]], timeout: float) -> None:
        """Give partitions these replicas and return when every broker knows them, all in sync."""
        partitions = [
            {"partition_index": partition, "replicas": list(node_ids)} for partition, node_ids in replicas.items()
        ]
        answer = self.ask_any(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            _PATIENCE,
            topics=[{"name": name, "partitions": partitions}],
            timeout=int(timeout * 1000),
        )
        raise_for(answer, name)
        for topic in answer.responses:
            for result in topic.partitions:
                raise_for(result, name, int(result.partition_index))

        def have_moved(known: Mapping[int, PartitionState]) -> bool:
            for partition, node_ids in replicas.items():
                # During a reassignment the old replicas are listed too.
                state = known.get(partition)
                if state is None or state.replicas != tuple(node_ids):
                    return False
                if set(state.in_sync_replicas) != set(node_ids) or state.leader not in node_ids:
                    return False
            return True

        what = f"the partitions of {name} have not moved to {dict(replicas)}"
        self._wait_until_all_know(name, have_moved, timeout, what)

    def ask_any(self, api_key: ApiKey, patience: float, **fields: object) -> Struct:
        """The response of the first broker that answers: in KRaft all of them forward requests to the controller."""
        failures = []
        for address in self._addresses():
            try:
                return exchange(address, api_key, patience, **fields)
            except OSError as error:
                failures.append(f"{address[0]}:{address[1]}: {error}")
        raise OSError(f"no broker answered {api_key.name}: {'; '.join(failures) or 'none is running'}")

    def wait_until(self, holds: Callable[[], bool], timeout: float, what: str) -> None:
        """Ask again until ``holds()``; a broker that does not answer counts as false. Raises KafkaTimeoutError after
        that.
        """
        deadline = time.monotonic() + timeout
        while True:
            last: object = ""
            try:
                if holds():
                    return
            except OSError as error:
                last = f" ({error})"
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"after {timeout} s: {what}{last}")
            time.sleep(_POLL_INTERVAL)

    def _wait_for_leaders(self, name: str, partitions: int, timeout: float) -> None:
        def are_led(known: Mapping[int, PartitionState]) -> bool:
            return len(known) == partitions and all(state.leader >= 0 for state in known.values())

        what = f"topic {name} has not {partitions} partitions with a leader everywhere"
        self._wait_until_all_know(name, are_led, timeout, what)

    def _wait_until_all_know(
        self, name: str, holds: Callable[[Mapping[int, PartitionState]], bool], timeout: float, what: str
    ) -> None:
        """``wait_until`` a condition holds for a topic's partitions on every broker."""
        self.wait_until(
            lambda: all(holds(self.partitions(name, address)) for address in self._addresses()), timeout, what
        )


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection before it had answered")
        received += piece
    return bytes(received)


def raise_for(result: Struct, topic: str | None = None, partition: int | None = None) -> None:
    """Raise the error of a result that has a code other than 0."""
    if code := int(result.error_code):
        raise make(code, getattr(result, "error_message", None) or "", topic=topic, partition=partition)
