"""Topics that remember commits, one record for each key: their creation when missing, and their check.

Owns the creation of such a topic. The callers, Spark's sink and the outbox, know the meaning of its records, and of a
missing or unfit topic. Kafka's counterpart is ``__transaction_state``.

Rules: compacted, with small segments, because the active segment is not compacted; as safe as Kafka's own topic
of transactions if the cluster has three nodes. With one copy, which is a broker's default for a new topic, nothing
could be committed while its node is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import TopicAlreadyExistsError
from .topics import TopicAdmin, TopicDescription

__all__ = ["SECONDS_TO_ABORT", "create_marker_topic", "unfit_policy"]

CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
REPLICAS: Final = 3
ON_THREE_NODES: Final[Mapping[str, str]] = {"min.insync.replicas": "2"}
SECONDS_TO_ABORT: Final = 60.0
"""Seconds beyond its time-out for which a transaction may hide markers: a broker looks for expired transactions every
10 s, and ends them.
"""


async def create_marker_topic(admin: TopicAdmin, name: str) -> TopicDescription:
    """Make the topic, of one partition; returns it also if somebody else was quicker. Call it when ``admin`` has
    found that the topic is missing, and so knows the cluster's nodes. Raises as ``TopicAdmin.create``.
    """
    replication: dict[str, Any] = {"configs": CONFIGS}
    if len(admin.metadata.cluster.nodes) >= REPLICAS:
        replication = {"configs": {**CONFIGS, **ON_THREE_NODES}, "replication_factor": REPLICAS}
    try:
        return await admin.create(name, partitions=1, **replication)
    except TopicAlreadyExistsError:
        return await admin.describe(name)


async def unfit_policy(admin: TopicAdmin, name: str) -> str | None:
    """The cleanup.policy of a topic that forgets records after a time, as an auto-created topic does; None for a
    compacted one. Raises TopicAuthorizationFailedError if we may not see it.
    """
    policy = (await admin.configs(name)).get("cleanup.policy")
    return None if policy == "compact" else policy or "delete"
