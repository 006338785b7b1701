"""Decides when to fetch metadata and from which node, and handles the outcome.

Owns the one metadata request in progress, the hunt for a node that can answer, and the return to the bootstrap
addresses. Sends through its ``MetadataClient``, the network client; reads no clock. Kafka's counterpart is
``NetworkClient.DefaultMetadataUpdater``.

Rules:

- At most one metadata request is in progress. Its time-out starts small, so that a stalled broker does not keep us from
  asking another, and grows with each failure up to request_timeout_ms.
- Nothing polls: where Java checks again after reconnect_backoff_ms while a connection is being set up, here the
  connection's events call ``maybe_update``. A connection attempt older than a second no longer holds back an attempt at
  another node.
- When no known node is left to try, the bootstrap addresses are tried as well, and the known cluster is kept (KIP-899).
  After metadata_recovery_rebootstrap_trigger_ms without metadata, or on REBOOTSTRAP_REQUIRED, it is forgotten
  (KIP-1102). So it is when another cluster answers at a node's address: the response is dropped, since its topics are
  not ours (KIP-1242; no released broker detects a misrouted connection itself yet).
- If no broker answers, ``metadata.no_answer`` is logged after a moment with the addresses and their errors, then
  seldom.
- A failed connection is not a failed update: each node has its own back-off. A failed request is; if the broker closed
  the connection on it, the new topics in it are then requested separately.
- Each request ends in ``update``, ``failed_update`` or ``rebootstrap`` of ``Metadata``; their listeners schedule the
  next one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ..cluster.metadata import Metadata, MetadataRequestAndVersion
from ..cluster.metadata_answer import MetadataAnswer
from ..common import ExponentialBackoff, Node
from ..errors import (
    AuthenticationFailedError,
    DisconnectedError,
    KafkaError,
    RebootstrapRequiredError,
    SerializationError,
    make,
)
from ..observability import RateLimitedLogger, get_logger
from .nodes.least_loaded_node import LeastLoadedNode, NodeChooser

if TYPE_CHECKING:
    from .config import ClientConfig

__all__ = ["MetadataClient", "MetadataNodes", "MetadataUpdater"]

_logger = get_logger(__name__)

# A broker answers a metadata request from memory; one that has not after this long is probably stalled.
_FIRST_REQUEST_TIMEOUT: Final = 5.0
_MAX_TOPIC_ERRORS_SHOWN: Final = 10
# The time for which a single connection attempt may keep us from trying another node.
_CONNECT_PATIENCE: Final = 1.0
# The user of a program that has just started is waiting for output.
_SILENCE: Final = 1.5
_SILENCE_AGAIN: Final = 30.0


class MetadataNodes(NodeChooser, Protocol):
    """The updater's questions about nodes; ``NodeReadiness`` implements it."""

    def choose_node(self, nodes: Sequence[Node], now: float) -> LeastLoadedNode:
        """The least loaded of ``nodes``."""

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds until another attempt can be of use."""


class MetadataClient(Protocol):
    """The I/O that the updater asks for; the network client implements it."""

    def initiate_connect(self, node: Node, now: float) -> None:
        """Begin to connect."""

    def send_internal_metadata_request(
        self, node: Node, request: MetadataRequestAndVersion, timeout: float, now: float
    ) -> KafkaError | None:
        """Send the request; returns the error that prevents it, or None."""

    def forget_connections(self, now: float) -> None:
        """Close all connections: they lead to a cluster that is no longer ours."""


class MetadataUpdater:
    """Keeps a ``Metadata`` up to date through a ``MetadataClient``."""

    __slots__ = (
        "_attempt_started",
        "_client",
        "_failed_requests",
        "_in_progress",
        "_log",
        "_metadata",
        "_nodes",
        "_rebootstrap_trigger",
        "_rebootstraps",
        "_timeouts",
        "_times",
        "is_waiting_for_node",
        "silence_at",
    )

    def __init__(self, config: ClientConfig, metadata: Metadata, nodes: MetadataNodes, client: MetadataClient) -> None:
        self._metadata = metadata
        self._times = metadata.times
        self._nodes = nodes
        self._client = client
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_trigger = config.metadata_recovery_rebootstrap_trigger_ms / 1000
        request_timeout = config.request_timeout_ms / 1000
        self._timeouts = ExponentialBackoff(min(_FIRST_REQUEST_TIMEOUT, request_timeout), request_timeout, jitter=0)
        self._log = RateLimitedLogger(_logger)
        self._in_progress: MetadataRequestAndVersion | None = None
        self._failed_requests = 0
        # The time since which metadata has been wanted without arriving.
        self._attempt_started: float | None = None
        self.is_waiting_for_node = False
        """True when an update is due but must wait for an event on a connection."""
        self.silence_at = math.inf
        """The next time at which ``tell_silence`` is due, in loop time."""

    @property
    def has_fetch_in_progress(self) -> bool:
        """True while a metadata request is in flight."""
        return self._in_progress is not None

    def is_update_due(self, now: float) -> bool:
        """True when a request should be sent before anything else is."""
        return self._in_progress is None and self._times.is_due(now)

    def maybe_update(self, now: float) -> float:
        """Step 1: send a metadata request, or begin to connect so that one can be sent.

        Returns the seconds after which to call again; infinite if an event on a connection or a new request will call
        it before.
        """
        self.is_waiting_for_node = False
        if self._in_progress is not None:
            return math.inf
        delay = self._metadata.time_to_next_update(now)
        if delay > 0:
            return delay
        if self._attempt_started is None:
            self._attempt_started = now
            if self._metadata.cluster.is_bootstrap:
                self.silence_at = now + _SILENCE
        elif self._rebootstraps and now - self._attempt_started >= self._rebootstrap_trigger:
            self._rebootstrap(now, "no metadata for metadata_recovery_rebootstrap_trigger_ms")
        nodes: Sequence[Node] = self._metadata.cluster.nodes
        choice = self._nodes.choose_node(nodes, now)
        if self._rebootstraps and not choice.has_node_available_or_connection_ready:
            nodes = self._metadata.bootstrap_nodes
            choice = self._nodes.choose_node(nodes, now)
        if choice.node is not None:
            return self._update_from(choice.node, nodes, now)
        self.is_waiting_for_node = True
        return self._until_some_node_can_be_tried(now)

    def tell_silence(self, now: float) -> None:
        """Log that no broker has answered yet, if that is due."""
        if now < self.silence_at or self._attempt_started is None:
            return
        self.silence_at = now + _SILENCE_AGAIN
        self._log.log(
            "metadata.no_answer",
            now,
            logging.WARNING,
            "metadata.no_answer",
            addresses=[node.address for node in self._metadata.bootstrap_nodes],
            seconds=round(now - self._attempt_started, 1),
            error=self._metadata.describe_failure(),
        )

    def handle_completed_response(self, answer: MetadataAnswer, now: float) -> None:
        """Take a response into the metadata, or count the update as failed."""
        in_progress, self._in_progress = self._in_progress, None
        if in_progress is None:
            return
        code = answer.error_code
        if code == RebootstrapRequiredError.code and self._rebootstraps:
            self._handle_rebootstrap_required(now, make(code))
        elif code:
            self._fail(now, make(code))
        elif self._rebootstraps and self._is_of_another_cluster(answer):
            ours = self._metadata.cluster.cluster_id
            self._rebootstrap(now, f"cluster {answer.cluster_id!r} answers in the place of {ours!r}")
        elif not answer.nodes:
            # A broker that is starting may list no brokers, not even itself.
            self._fail(now, KafkaError("the answer names no brokers with an address"))
        else:
            self._failed_requests = 0
            self._attempt_started = None
            self.silence_at = math.inf
            self._metadata.update(in_progress.request_version, answer, now, is_partial=in_progress.is_partial)
            _logger.debug(
                "metadata.updated",
                nodes=len(answer.nodes),
                topics=len(answer.topics) + len(answer.errors),
                partial=in_progress.is_partial,
            )
            self._log_topic_errors(answer, now)

    def handle_failed_request(self, now: float, error: KafkaError) -> None:
        """The request in progress could not be sent, got no response, or one that cannot be decoded."""
        request, self._in_progress = self._in_progress, None
        if request is None:
            return
        if isinstance(error, DisconnectedError | SerializationError):
            self._metadata.suspect_topics(request, now)
        self._fail(now, error)

    def handle_server_disconnect(self, error: KafkaError) -> None:
        """A connection was lost, perhaps since our view is stale: request an update. Refused credentials are fatal."""
        if isinstance(error, AuthenticationFailedError):
            self._metadata.set_fatal_error(error)
        self._metadata.request_update()

    # internals

    def _is_of_another_cluster(self, answer: MetadataAnswer) -> bool:
        theirs, ours = answer.cluster_id, self._metadata.cluster.cluster_id
        return theirs is not None and ours is not None and theirs != ours

    def _update_from(self, node: Node, nodes: Sequence[Node], now: float) -> float:
        known = self._nodes
        if known.can_send_request(node.node_id, now):
            return self._send_request(node, now)
        if known.is_preparing_connection(node.node_id):
            newest = max(
                known.last_attempt(other.node_id) for other in nodes if known.is_preparing_connection(other.node_id)
            )
            patience = newest + _CONNECT_PATIENCE - now
            others = [other for other in nodes if known.can_connect(other.node_id, now)]
            self.is_waiting_for_node = True
            if patience > 0 or not others:
                return patience if patience > 0 else self._until_some_node_can_be_tried(now)
            node = min(others, key=lambda other: known.last_attempt(other.node_id))
        if known.can_connect(node.node_id, now):
            self._client.initiate_connect(node, now)
            self.is_waiting_for_node = True
            return _CONNECT_PATIENCE
        self.is_waiting_for_node = True
        return math.inf

    def _send_request(self, node: Node, now: float) -> float:
        request = self._metadata.new_request(now)
        self._in_progress = request
        timeout = self._timeouts.delay(self._failed_requests)
        error = self._client.send_internal_metadata_request(node, request, timeout, now)
        if error is None:
            return math.inf
        self.handle_failed_request(now, error)
        return self._metadata.time_to_next_update(now)

    def _until_some_node_can_be_tried(self, now: float) -> float:
        nodes = [*self._metadata.cluster.nodes, *(self._metadata.bootstrap_nodes if self._rebootstraps else ())]
        return min(
            (delay for node in nodes if (delay := self._nodes.connection_delay(node, now)) > 0), default=math.inf
        )

    def _log_topic_errors(self, answer: MetadataAnswer, now: float) -> None:
        errors = [make(code, topic=topic) for topic, code in answer.errors.items()]
        if errors:
            # While a topic is being auto-created, the first responses have errors for it.
            level = logging.INFO if all(error.retriable for error in errors) else logging.WARNING
            shown = [str(error) for error in errors[:_MAX_TOPIC_ERRORS_SHOWN]]
            self._log.log("metadata.topic_errors", now, level, "metadata.topic_errors", count=len(errors), errors=shown)

    def _fail(self, now: float, error: KafkaError) -> None:
        self._failed_requests += 1
        self._log.log("metadata.failed", now, logging.WARNING, "metadata.failed", error=str(error))
        self._metadata.failed_update(now, error)

    def _handle_rebootstrap_required(self, now: float, error: KafkaError) -> None:
        if self._metadata.cluster.is_bootstrap:
            # This bootstrap address failed, and there is nothing to forget: after the back-off any of them is tried,
            # each by a new connection, which may lead to another broker behind the same name.
            self._client.forget_connections(now)
            self._fail(now, error)
        else:
            self._rebootstrap(now, "the broker asks for it")

    def _rebootstrap(self, now: float, reason: str) -> None:
        self._attempt_started = now
        if self._metadata.cluster.is_bootstrap:
            return  # nothing is known that could be forgotten
        addresses = [node.address for node in self._metadata.bootstrap_nodes]
        self._log.log(
            "metadata.rebootstrap", now, logging.WARNING, "metadata.rebootstrap", reason=reason, addresses=addresses
        )
        self._client.forget_connections(now)
        self._metadata.rebootstrap()
