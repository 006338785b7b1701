"""The forms of listeners, and the ports and names that follow from them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.listeners import Endpoint, Listener, Listeners, endpoints_of
from aiokafkapy.broker.network.bound_socket import bound_socket
from aiokafkapy.errors import ConfigurationError


def one(name: str, listener: str | Listener, advertised_host: str | None = None) -> Endpoint:
    (endpoint,) = endpoints_of({name: listener}, BrokerConfig.of(), 3, advertised_host).values()
    return endpoint


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("PLAINTEXT", "127.0.0.1:0", ("PLAINTEXT", "127.0.0.1", 0)),
        ("SASL_PLAINTEXT", " localhost:9094 ", ("SASL_PLAINTEXT", "localhost", 9094)),
        ("INSIDE", "SASL_PLAINTEXT://10.0.0.1:1", ("SASL_PLAINTEXT", "10.0.0.1", 1)),
        ("PLAINTEXT", "[::1]:9092", ("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT", ":9092", ("PLAINTEXT", "", 9092)),
        ("OUTSIDE", Listener("PLAINTEXT", "h", 7), ("PLAINTEXT", "h", 7)),
    ],
)
def test_a_listener_is_an_address_with_its_protocol_unless_the_name_is_one(
    name: str, text: str | Listener, expected: tuple[str, str, int]
) -> None:
    endpoint = one(name, text)
    assert (endpoint.name, endpoint.security_protocol, endpoint.host, endpoint.port) == (name, *expected)


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ({}, "a broker has at least one"),
        ({"INSIDE": "h:1"}, "which protocol? Write {'INSIDE': 'SASL_SSL://h:1'}"),
        ({"SSL": "PLAINTEXT://h:1"}, "listener 'SSL' with protocol 'PLAINTEXT': give it that name"),
        ({"X": "TLS://h:1"}, "'TLS' is not a security protocol; write one of PLAINTEXT, SSL"),
        ({"PLAINTEXT": "h"}, "'h' is not host:port"),
        ({"PLAINTEXT": "h:65536"}, "port 65536 is not in 0 to 65535"),
        ({"PLAINTEXT": "h:65534"}, "port=65534: the last of 3 nodes would have a port over 65535"),
        ({"PLAINTEXT": "h:9092", "IN": "PLAINTEXT://h:9094"}, "listeners 'PLAINTEXT' and 'IN' both want port 9094"),
        ({"PLAINTEXT": Listener("PLAINTEXT", num_io_threads=1)}, "'num_io_threads' cannot differ"),
        ({"PLAINTEXT": Listener("PLAINTEXT", ssl_client_auth="some")}, "ssl_client_auth"),
        ({"PLAINTEXT": Listener("PLAINTEXT", ssl_wrong=1)}, "unknown broker option 'ssl_wrong'"),
    ],
)
def test_a_wrong_listener_is_refused_with_the_remedy(listeners: Listeners, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        endpoints_of(listeners, BrokerConfig.of(), nodes=3)


def test_ports_follow_the_first_nodes_and_free_ones_stay_free() -> None:
    assert [one("PLAINTEXT", "h:9092").port_of(node_id) for node_id in (1, 2, 3)] == [9092, 9093, 9094]
    assert [one("PLAINTEXT", "h:0").port_of(node_id) for node_id in (1, 2, 3)] == [0, 0, 0]


def test_sockets_that_listen_already_give_nodes_their_ports() -> None:
    with bound_socket("127.0.0.1", 0) as first, bound_socket("127.0.0.1", 0) as second:
        listener = Listener("PLAINTEXT", sockets=[first, second])
        (endpoint,) = endpoints_of({"PLAINTEXT": listener}, BrokerConfig(), nodes=2).values()
        assert [endpoint.port_of(1), endpoint.port_of(2)] == [first.getsockname()[1], second.getsockname()[1]]
        with pytest.raises(ConfigurationError, match="sockets=2, but there are 3 nodes: give one for each"):
            endpoints_of({"PLAINTEXT": listener}, BrokerConfig(), nodes=3)
        with_port = Listener("PLAINTEXT", port=9092, sockets=[first, second])
        with pytest.raises(ConfigurationError, match="port=9092, but its sockets have ports of their own"):
            endpoints_of({"PLAINTEXT": with_port}, BrokerConfig(), nodes=2)


def test_clients_are_told_the_listeners_own_name_then_the_brokers_then_the_address() -> None:
    own = Listener("PLAINTEXT", "10.0.0.1", advertised_host="own")
    assert one("PLAINTEXT", own, "brokers").advertised_host == "own"
    assert one("PLAINTEXT", "10.0.0.1:0", "brokers").advertised_host == "brokers"
    assert one("PLAINTEXT", "10.0.0.1:0").advertised_host == "10.0.0.1"
    assert one("PLAINTEXT", "0.0.0.0:0").advertised_host == "127.0.0.1"


def test_an_option_of_a_listener_counts_before_the_brokers() -> None:
    config = BrokerConfig.of(listener_max_connections=5, num_io_threads=2)
    listeners: Listeners = {"PLAINTEXT": "h:0", "IN": Listener("PLAINTEXT", listener_max_connections=1)}
    plain, inside = endpoints_of(listeners, config, nodes=1).values()
    assert (plain.config.listener_max_connections, plain.config.num_io_threads) == (5, 2)
    assert (inside.config.listener_max_connections, inside.config.num_io_threads) == (1, 2)


def test_keys_and_passwords_are_not_shown() -> None:
    options: dict[str, Any] = {"ssl_keystore_key": "hush-key", "ssl_key_password": "hush-word"}
    listener = Listener("PLAINTEXT", **options)
    assert "hush" not in repr(listener) + repr(one("PLAINTEXT", listener))
    with pytest.raises(ConfigurationError) as raised:
        BrokerConfig.of(ssl_key_password=["hush"])
    assert "hush" not in str(raised.value)
    assert "ssl_key_password" in str(raised.value)
