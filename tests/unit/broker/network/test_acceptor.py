"""An Acceptor's turn-taking, without sockets; the real ones are in tests/system."""

from __future__ import annotations

import socket
from typing import cast

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.listeners import endpoints_of
from aiokafkapy.broker.network.acceptor import Acceptor
from aiokafkapy.broker.network.processor import CONNECTION_QUEUE_SIZE

from .connections import FakeSocket, info, server


async def test_connections_are_dealt_out_in_turn_and_past_full_processors() -> None:
    node = server(num_network_threads=3)
    (endpoint,) = endpoints_of({"PLAINTEXT": "127.0.0.1:0"}, BrokerConfig(), nodes=1).values()
    acceptor = Acceptor(
        cast(socket.socket, FakeSocket()), node.processors, node.quotas, node.metrics, endpoint, lambda listener: None
    )
    for number in range(6):
        acceptor.assign_new_connection(cast(socket.socket, FakeSocket()), info(number))
    assert [len(processor._new_connections) for processor in node.processors] == [2, 2, 2]
    while node.processors[1].has_room:
        node.processors[1].accept(cast(socket.socket, FakeSocket()), info())
    for number in range(4):
        acceptor.assign_new_connection(cast(socket.socket, FakeSocket()), info(number))
    assert [len(processor._new_connections) for processor in node.processors] == [4, CONNECTION_QUEUE_SIZE, 4]
