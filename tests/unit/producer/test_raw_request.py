"""Requests of the caller's own: accepted ones, and the errors before anything is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.raw_request import REFUSED, raw_request
from aiokafkapy.protocol.api import ApiKey, client_versions

from .sender_fakes import cluster_of

THE_ANSWER: Any = "the answer"


class Client:
    """Keeps the requests that it is to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def send_and_wait(self, api_key: int, build: Any, node: Any, timeout: Any, **options: Any) -> Any:
        version = options.get("max_version", client_versions(api_key)[1])
        self.sent.append((api_key, build(version), node, timeout))
        return THE_ANSWER


def runtime() -> Any:
    return SimpleNamespace(client=Client(), metadata=SimpleNamespace(cluster=cluster_of({"t": [1]})))


async def test_a_raw_request_goes_to_the_node_that_is_named_in_the_version_that_is_wanted() -> None:
    asked = runtime()
    answer = await raw_request(
        asked, ApiKey.LIST_GROUPS, {"states_filter": ["Empty"]}, node_id=1, version=4, timeout=2.0
    )
    ((api_key, body, node, timeout),) = asked.client.sent
    assert answer is THE_ANSWER
    assert (api_key, node.node_id, timeout) == (ApiKey.LIST_GROUPS, 1, 2.0)
    assert (body.__version__, body.states_filter) == (4, ("Empty",))


async def test_numpy_s_ints_are_numbers_too() -> None:
    numpy = pytest.importorskip("numpy")
    asked = runtime()
    key, node_id, version = (numpy.int64(number) for number in (ApiKey.LIST_GROUPS, 1, 4))
    await raw_request(asked, key, {}, node_id=node_id, version=version, timeout=None)
    ((api_key, body, node, _),) = asked.client.sent
    assert (api_key, node.node_id, body.__version__) == (ApiKey.LIST_GROUPS, 1, 4)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        *(((key, None, None, None), ValueError, f"{key.name} is the producer's own") for key in sorted(REFUSED)),
        ((4711, None, None, None), ValueError, "4711 is not a known API"),
        ((10**5000, None, None, None), ValueError, "<a number of 16610 bits> is not a known API"),
        ((True, None, None, None), TypeError, "the API is a bool"),
        ((3.0, None, None, None), TypeError, "the API is a float"),
        ((ApiKey.LIST_GROUPS, {}, True, None), TypeError, "node_id is a bool"),
        ((ApiKey.LIST_GROUPS, {}, [], None), TypeError, "node_id is a list"),
        ((ApiKey.LIST_GROUPS, {}, 10**5000, None), KafkaError, "no node <a number of 16610 bits>"),
        ((ApiKey.LIST_GROUPS, {}, None, 10**5000), ValueError, "version <a number of 16610 bits> of LIST_GROUPS"),
        ((ApiKey.LIST_GROUPS, {}, None, "4"), TypeError, "the version of LIST_GROUPS is a str, not an int"),
        ((ApiKey.LIST_GROUPS, {}, None, True), TypeError, "the version of LIST_GROUPS is a bool, not an int"),
        ((ApiKey.LIST_GROUPS, [1], None, None), TypeError, "is a list, not a mapping"),
        ((ApiKey.LIST_GROUPS, {"colour": 1}, None, None), TypeError, "no field 'colour'"),
        ((ApiKey.LIST_GROUPS, {}, None, 99), ValueError, "version 99 of LIST_GROUPS: write 0 to"),
        ((ApiKey.LIST_GROUPS, {}, 7, None), KafkaError, "no node 7; metadata knows 1"),
    ],
)
async def test_a_record_that_cannot_be_sent_is_refused_at_once(arguments: Any, kind: Any, words: str) -> None:
    asked = runtime()
    with pytest.raises(kind, match=words):
        api_key, body, node_id, version = arguments
        await raw_request(asked, api_key, body, node_id=node_id, version=version, timeout=None)
    assert asked.client.sent == []
