"""``find_coordinator``: the node that coordinates a consumer group or a transactional id; and the offsets sent to it.

Owns the request and the forms of its answer, and an offset's entry in the requests that commit it; the caller keeps the
node, and asks again when it has moved. Kafka's counterparts are ``AbstractCoordinator.lookupCoordinator`` and
``FindCoordinatorHandler``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common import Node
from ..errors import CoordinatorNotAvailableError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message
from ..protocol.constants import GROUP_COORDINATOR
from ..protocol.messages import build_request

if TYPE_CHECKING:
    from .network_client import NetworkClient

__all__ = ["find_coordinator", "offset_entry"]


async def find_coordinator(client: NetworkClient, key_type: int, key: str, timeout: float | None = None) -> Node:
    """Ask any broker, for ``timeout`` seconds, default request_timeout_ms. Raises its error,
    CoordinatorNotAvailableError when it names no node, and the errors of sending.
    """

    def build(version: int) -> Message:
        return build_request(ApiKey.FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=[key])

    # Version 0 knows groups only.
    min_version = None if key_type == GROUP_COORDINATOR else 1
    response = await client.send_and_wait(ApiKey.FIND_COORDINATOR, build, timeout=timeout, min_version=min_version)
    for found in getattr(response, "coordinators", (response,)):
        if found.error_code:
            raise make(found.error_code, getattr(found, "error_message", None))
        node = Node(found.node_id, found.host, found.port)
        if not node.is_empty:
            return node
    raise CoordinatorNotAvailableError(f"{key!r}: the broker named no coordinator")


def offset_entry(partition: int, offset: int, leader_epoch: int = -1, metadata: str = "") -> dict[str, object]:
    """A partition's offset in OffsetCommit and TxnOffsetCommit."""
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "committed_metadata": metadata,
    }
