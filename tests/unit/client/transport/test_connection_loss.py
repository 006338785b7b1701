"""The error that a lost connection means."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from aiokafkapy.client.nodes.connection_states import NodeConnectionState
from aiokafkapy.client.transport.connection import BrokerConnection
from aiokafkapy.client.transport.connection_loss import explain_loss
from aiokafkapy.errors import AuthenticationFailedError, DisconnectedError


@pytest.fixture
def connection() -> BrokerConnection:
    owner: Any = None
    return BrokerConnection(3, owner, 0.0, "h:1", max_response_size=1_000)


@pytest.fixture
def alert() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    return error


def test_a_certificate_that_the_broker_refuses_in_setup_is_a_refused_authentication(
    connection: BrokerConnection, alert: ssl.SSLError
) -> None:
    explained = explain_loss(connection, alert, NodeConnectionState("broker.example", 9093))
    assert isinstance(explained, AuthenticationFailedError)
    assert "broker.example:9093" in str(explained)
    assert explained.__cause__ is alert


def test_the_same_alert_later_is_a_lost_connection(connection: BrokerConnection, alert: ssl.SSLError) -> None:
    explained = explain_loss(connection, alert, None)
    assert type(explained) is DisconnectedError
    assert explained.__cause__ is alert


def test_an_error_of_tls_that_is_not_a_refusal_is_a_lost_connection(connection: BrokerConnection) -> None:
    error = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    assert type(explain_loss(connection, error, NodeConnectionState("h", 1))) is DisconnectedError


def test_a_connection_that_the_broker_closed_names_node_and_address(connection: BrokerConnection) -> None:
    explained = explain_loss(connection, None, None)
    assert str(explained) == "the connection to node 3 at h:1 was lost: it was closed by the broker"
    assert explained.__cause__ is None
