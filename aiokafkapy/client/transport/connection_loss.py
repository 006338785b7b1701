"""``explain_loss``: the error of a lost connection, for its requests and for operators.

Owns the error's words. It knows neither requests nor states: the caller says whether the connection was being set up.
Kafka's counterpart is the part of ``Selector.pollSelectionKeys`` that tells a refused authentication from a
disconnection.
"""

from __future__ import annotations

import ssl

from ...errors import AuthenticationFailedError, DisconnectedError, KafkaError
from ...security.handshake_errors import explain_failure
from ..nodes.connection_states import NodeConnectionState
from .connection import BrokerConnection

__all__ = ["explain_loss"]


def explain_loss(
    connection: BrokerConnection, error: BaseException | None, in_setup: NodeConnectionState | None
) -> KafkaError:
    """DisconnectedError, or AuthenticationFailedError when the broker has refused our certificate.

    ``error`` is the transport's, None when the broker closed the connection; ``in_setup`` is the state of a node whose
    connection was not ready yet.
    """
    if in_setup is not None and isinstance(error, ssl.SSLError):
        # In TLS 1.3 a broker checks our certificate after our side of the handshake is done.
        explained = explain_failure(error, in_setup.host, in_setup.port)
        if isinstance(explained, AuthenticationFailedError):
            return explained
    reason = str(error) if error is not None else "it was closed by the broker"
    lost = DisconnectedError(f"the connection to node {connection.node_id} at {connection.address} was lost: {reason}")
    lost.__cause__ = error
    return lost
