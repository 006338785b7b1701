from __future__ import annotations

import pytest

from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.errors import DisconnectedError, KafkaError
from aiokafkapy.protocol.api import ApiKey

REQUEST = ClientRequest(1, ApiKey.METADATA)


def test_a_body_is_given_and_an_error_raised_with_a_fresh_traceback() -> None:
    assert ClientResponse(REQUEST, 1, "body").body_or_raise() == "body"
    error = KafkaError("no")
    response = ClientResponse(REQUEST, 1, error=error)
    for _ in range(2):
        with pytest.raises(KafkaError, match="no") as raised:
            response.body_or_raise()
        assert raised.value is not error


def test_a_disconnection_without_reason_is_raised_too() -> None:
    with pytest.raises(DisconnectedError, match="node 1"):
        ClientResponse(REQUEST, 1, disconnected=True).body_or_raise()


def test_they_show_the_important_fields() -> None:
    assert "METADATA" in repr(REQUEST)
    assert "timed out" in repr(ClientResponse(REQUEST, 1, disconnected=True, timed_out=True))
    assert "disconnected" in repr(ClientResponse(REQUEST, 1, disconnected=True))
    assert "ok" in repr(ClientResponse(REQUEST, 1))
