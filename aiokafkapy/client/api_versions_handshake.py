"""The ApiVersions exchange, the first on each connection; the connection is ready for requests after it.

Owns the request, which is sent again in an older version if the broker refuses it, and records the versions from the
response. Opens and closes no connections: the network client gets success or failure by a callback. In Java these are
steps 6 and 7 of ``NetworkClient.poll``: ``handleConnections`` and ``handleInitiateApiVersionRequests``. TLS comes
before it.

Rules:

- The time-out of the exchange is that of connection set-up.
- A broker may close the connection over a version that it does not know (Azure Event Hubs does so over 4): if a
  connection ends before any answer, the next one to that node begins with an older version; if that is answered, all
  others of the cluster begin with it too, else the next one begins with the newest again.
- Each exchange ends in ``on_ready``, in ``on_failed``, or with its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import KafkaError, SerializationError, UnsupportedVersionError, make
from ..protocol.api import ApiKey, client_versions
from ..protocol.api_versions import ApiVersionsResponse
from .nodes.api_versions import NodeApiVersions, build_api_versions_request, fallback_version
from .nodes.client_request import ClientRequest
from .nodes.in_flight_requests import InFlightRequest
from .nodes.node_readiness import NodeReadiness
from .request_pipeline import RequestPipeline
from .transport.connection import BrokerConnection
from .transport.connection_log import ConnectionLog

__all__ = ["ApiVersionsHandshake"]

BEFORE_FEATURES_AT_0: Final = 3
"""The version before the newest, on which nothing of ours depends: KAFKA-17011."""


class ApiVersionsHandshake:
    """Asks brokers for their API versions."""

    def __init__(
        self,
        nodes: NodeReadiness,
        pipeline: RequestPipeline,
        log: ConnectionLog,
        *,
        request_timeout: float,
        on_ready: Callable[[BrokerConnection, float], None],
        on_failed: Callable[[BrokerConnection, KafkaError], None],
    ) -> None:
        self._nodes = nodes
        self._pipeline = pipeline
        self._log = log
        self._request_timeout = request_timeout
        self._on_ready = on_ready
        self._on_failed = on_failed
        # The version that an exchange began with and that has no answer yet, or never got one, by node.
        self._unanswered: dict[int, int] = {}
        self._begins_with_older = False

    def begin(self, connection: BrokerConnection, now: float) -> None:
        """Start the exchange on a connection that has just been opened."""
        self._nodes.states.checking_api_versions(connection.node_id)
        version = self._unanswered[connection.node_id] = self._first_version(connection.node_id)
        self._ask(connection, version, now)

    def handle_response(
        self, connection: BrokerConnection, entry: InFlightRequest, body: ApiVersionsResponse, now: float
    ) -> None:
        """Handle an ApiVersions response: of the exchange, or of a probe on an idle connection."""
        node_id = connection.node_id
        if self._unanswered.pop(node_id, None) == BEFORE_FEATURES_AT_0:
            self._begins_with_older = True
        if body.error_code == UnsupportedVersionError.code and entry.version > 0:
            self._ask(connection, min(fallback_version(body), entry.version - 1), now)
        elif body.error_code:
            error = make(body.error_code)
            self._log.refused_api_versions(node_id, error, now)
            self._on_failed(connection, KafkaError(f"it did not tell its API versions: {error}"))
        else:
            self._nodes.api_versions.update(node_id, NodeApiVersions.from_response(body))
            self._nodes.measured(node_id, now - entry.sent_at)
            if self._nodes.states.is_checking_api_versions(node_id):
                self._on_ready(connection, now)

    # internals

    def _first_version(self, node_id: int) -> int:
        newest = client_versions(ApiKey.API_VERSIONS)[1]
        is_older = self._begins_with_older or self._unanswered.get(node_id) == newest
        return BEFORE_FEATURES_AT_0 if is_older else newest

    def _ask(self, connection: BrokerConnection, version: int, now: float) -> None:
        timeout = min(self._request_timeout, self._nodes.states.setup_timeout(connection.node_id))
        request = ClientRequest(connection.node_id, ApiKey.API_VERSIONS, build_api_versions_request)
        try:
            self._pipeline.write_internal(connection, request, version, now, timeout)
        except SerializationError as error:
            # No time-out would close this connection: it is past connecting, and nothing is in flight on it.
            self._on_failed(connection, error)
