from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.errors import DisconnectedError, KafkaError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response

REQUEST = ClientRequest(1, ApiKey.METADATA)


def test_a_body_is_given_and_an_error_raised_with_a_fresh_traceback() -> None:
    body: Any = "body"
    assert ClientResponse(REQUEST, 1, body).body_or_raise() is body
    error = KafkaError("no")
    response = ClientResponse(REQUEST, 1, error=error)
    for _ in range(2):
        with pytest.raises(KafkaError, match="no") as raised:
            response.body_or_raise()
        assert raised.value is not error


def test_a_disconnection_raises_its_reason() -> None:
    response = ClientResponse(REQUEST, 1, disconnected=True, error=DisconnectedError("node 1 is gone"))
    with pytest.raises(DisconnectedError, match="node 1"):
        response.body_or_raise()


def test_requests_and_responses_show_the_important_fields() -> None:
    assert "METADATA" in repr(REQUEST)
    assert "timed out" in repr(ClientResponse(REQUEST, 1, disconnected=True, timed_out=True))
    assert "disconnected" in repr(ClientResponse(REQUEST, 1, disconnected=True))
    assert "ok" in repr(ClientResponse(REQUEST, 1))


def test_functions_given_make_the_frame_read_the_answer_and_get_the_response() -> None:
    got: list[ClientResponse] = []
    request = ClientRequest(
        1,
        ApiKey.METADATA,
        encode=lambda version, correlation_id, client_id: [f"{version} {correlation_id} {client_id}".encode()],
        decode=lambda version, frame: (version, frame),
        callback=got.append,
    )
    assert request.frame(9, 3, "me") == [b"9 3 me"]
    assert request.read(9, b"x") == (9, b"x")
    response = ClientResponse(request, 9)
    request.hand_out(response)
    assert got == [response]


def test_without_functions_kio_makes_and_reads_the_message() -> None:
    request = ClientRequest(1, ApiKey.LIST_GROUPS, lambda version: build_request(ApiKey.LIST_GROUPS, version))
    (frame,) = request.frame(4, 3, "me")
    header, body = decode_request(bytes(frame)[4:])
    assert (header.correlation_id, body.__version__) == (3, 4)
    answer = encode_response(build_response(ApiKey.LIST_GROUPS, 4, error_code=0, groups=()), 3)
    read: Any = request.read(4, answer[4:])
    assert read.error_code == 0
    request.hand_out(ClientResponse(request, 4))  # nobody is told
    assert REQUEST.frame(9, 3, "me") == ()
