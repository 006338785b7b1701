"""Requests to a node that emulates another broker."""

from __future__ import annotations

import struct
from typing import Any

from aiokafkapy.broker.network.request_channel import ResponseAction
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request

from ..socketless import SocketlessNode

__all__ = ["SOFTWARE", "ask_with", "is_closed", "produce"]

SOFTWARE = {"client_software_name": "a", "client_software_version": "1"}


def ask_with(node: SocketlessNode, version: int) -> Any:
    """The answer to an ApiVersions request of a version that is unknown, None where the connection is closed."""
    node.handle(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + b"\0rubbish")
    response = node.responses[-1]
    if response.action is ResponseAction.CLOSE:
        return None
    return decode_response(ApiKey.API_VERSIONS, 0, response.buffer[4:])[1]


def is_closed(node: SocketlessNode, api: ApiKey, version: int) -> bool:
    """Whether a request of this version closes the connection."""
    node.handle(encode_request(build_request(api, version), 7, "me")[4:])
    return node.responses[-1].action is ResponseAction.CLOSE


def produce(node: SocketlessNode, version: int, records: bytes, transactional_id: str | None = None) -> int:
    """The error code of a batch for the topic ``t``."""
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    fields = {"acks": 1, "timeout": 1_000, "transactional_id": transactional_id}
    body = node.call(ApiKey.PRODUCE, version, topic_data=data, **fields)
    return int(body.responses[0].partition_responses[0].error_code)
