"""The first exchange on a connection: which API versions does the broker have? After it the connection can be used.

Owns the question, asked again in an older version when the broker refuses it, and the versions noted from the answer.
Opens and closes nothing: the network client is told of the end, good or bad. In Java these are steps 6 and 7 of
``NetworkClient.poll``: ``handleConnections`` and ``handleInitiateApiVersionRequests`` (TLS and SASL will come before).

Rules:

- The question may take as long as setting a connection up.
- Each connection ends in ``on_ready``, in ``on_failed``, or by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import KafkaError, SerializationError, UnsupportedVersionError, make
from ..protocol.api import ApiKey, client_versions
from .nodes.api_versions import ApiVersionsAnswer, NodeApiVersions, build_api_versions_request, fallback_version
from .nodes.client_request import ClientRequest
from .nodes.in_flight_requests import InFlightRequest
from .nodes.node_readiness import NodeReadiness
from .request_pipeline import RequestPipeline
from .transport.connection import BrokerConnection
from .transport.connection_log import ConnectionLog

__all__ = ["ApiVersionsHandshake"]


class ApiVersionsHandshake:
    """Asks brokers for their API versions; without ``is_asked`` they are assumed to have all of ours."""

    def __init__(
        self,
        nodes: NodeReadiness,
        pipeline: RequestPipeline,
        log: ConnectionLog,
        *,
        request_timeout: float,
        is_asked: bool,
        on_ready: Callable[[BrokerConnection, float], None],
        on_failed: Callable[[BrokerConnection, KafkaError], None],
    ) -> None:
        self._nodes = nodes
        self._pipeline = pipeline
        self._log = log
        self._request_timeout = request_timeout
        self._is_asked = is_asked
        self._on_ready = on_ready
        self._on_failed = on_failed

    def begin(self, connection: BrokerConnection, now: float) -> None:
        """The socket is there."""
        if self._is_asked:
            self._nodes.states.checking_api_versions(connection.node_id)
            self._ask(connection, client_versions(ApiKey.API_VERSIONS)[1], now)
        else:
            self._nodes.api_versions.update(connection.node_id, NodeApiVersions.assumed())
            self._on_ready(connection, now)

    def handle_response(
        self, connection: BrokerConnection, entry: InFlightRequest, body: ApiVersionsAnswer, now: float
    ) -> None:
        """An answer came: to the question, or to a probe of a connection that was silent."""
        node_id = connection.node_id
        if body.error_code == UnsupportedVersionError.code and entry.version > 0:
            self._ask(connection, min(fallback_version(body), entry.version - 1), now)
        elif body.error_code:
            error = make(body.error_code)
            self._log.refused_api_versions(node_id, error, now)
            self._on_failed(connection, KafkaError(f"it did not tell its API versions: {error}"))
        else:
            self._nodes.api_versions.update(node_id, NodeApiVersions.from_response(body))
            if self._nodes.is_preparing_connection(node_id):
                self._on_ready(connection, now)

    # internals

    def _ask(self, connection: BrokerConnection, version: int, now: float) -> None:
        timeout = min(self._request_timeout, self._nodes.states.setup_timeout(connection.node_id))
        request = ClientRequest(connection.node_id, ApiKey.API_VERSIONS, build_api_versions_request)
        try:
            self._pipeline.write(connection, request, version, now, timeout, None, True)
        except SerializationError as error:
            # Nothing else would end the connection: it is not connecting any more, with nothing in flight on it.
            self._on_failed(connection, error)
