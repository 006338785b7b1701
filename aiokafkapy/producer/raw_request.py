"""``KafkaProducer.request``: any request of Kafka's protocol over the producer's own connections.

Owns the choice of the requests that are let through, and their way to a node. The caller interprets the answer.
franz-go's counterpart is ``Client.Request``; Java has none.

Rules: a request that would interfere with the producer's own counts (of records, sequences, transactions, sessions)
is refused before anything is sent. Nothing is retried, and the caller reads the error code in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ..client.options.config_fields import shown_value
from ..common import Node, integer_of
from ..errors import KafkaError
from ..protocol.api import ApiKey, client_versions
from ..protocol.codec import Message, Struct
from ..protocol.messages import build_request

if TYPE_CHECKING:
    from ..client.network_client_utils import RequestOptions
    from .runtime import ProducerRuntime

__all__ = ["REFUSED", "raw_request"]

REFUSED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
    }
)
"""Requests that only the producer itself may send."""


async def raw_request(
    runtime: ProducerRuntime,
    api_key: int,
    body: Mapping[str, object] | None,
    *,
    node_id: int | None,
    version: int | None,
    timeout: float | None,
) -> Struct:
    """See ``KafkaProducer.request``."""
    key = _checked_key(api_key)
    if body is not None and not isinstance(body, Mapping):
        raise TypeError(f"request(): the body of {key.name} is a {type(body).__name__}, not a mapping of its fields")
    highest = _checked_version(key, version)
    build_request(key, highest, **(body or {}))  # a wrong field raises before anything is sent
    versions: RequestOptions = {} if version is None else {"min_version": highest, "max_version": highest}
    node = None if node_id is None else _node(runtime, node_id)
    return await runtime.client.send_and_wait(key, partial(_build, key, body or {}), node, timeout, **versions)


# internals


def _build(key: ApiKey, body: Mapping[str, object], version: int) -> Message:
    return build_request(key, version, **body)


def _checked_key(api_key: int) -> ApiKey:
    number = integer_of("request(): the API", api_key, "a member of ApiKey, or its number")
    try:
        key = ApiKey(number)
    except ValueError:
        raise ValueError(f"request(): {shown_value('', number)} is not a known API: use a member of ApiKey") from None
    if key in REFUSED:
        raise ValueError(f"request(): {key.name} is the producer's own: it would lose count of its records")
    return key


def _checked_version(key: ApiKey, version: int | None) -> int:
    low, high = client_versions(key)
    if version is None:
        return high
    number = integer_of(f"request(): the version of {key.name}", version)
    if not low <= number <= high:
        raise ValueError(f"request(): version {shown_value('', number)} of {key.name}: write {low} to {high}, or None")
    return number


def _node(runtime: ProducerRuntime, node_id: int) -> Node:
    number = integer_of("request(): node_id", node_id)
    # Not by a look-up: compiled, that takes no number beyond C's.
    node = next((each for each in runtime.metadata.cluster.nodes if each.node_id == number), None)
    if node is None:
        known = ", ".join(str(each.node_id) for each in runtime.metadata.cluster.nodes)
        raise KafkaError(f"request(): there is no node {shown_value('', number)}; metadata knows {known}")
    return node
