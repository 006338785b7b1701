"""Rules of rights, as the protocol has them; tests/kafka shows that a real Kafka goes by them."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.testing import Acl


def test_a_rule_is_the_protocols() -> None:
    assert Acl("User:alice", "WRITE", topic="flights").message() == {
        "resource_type": 2,
        "resource_name": "flights",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 4,
        "permission_type": 3,
    }
    denied = Acl("User:CN=bob", "ALL", group="g-", prefixed=True, deny=True, host="10.0.0.1")
    assert denied.message() == {
        "resource_type": 3,
        "resource_name": "g-",
        "resource_pattern_type": 4,
        "principal": "User:CN=bob",
        "host": "10.0.0.1",
        "operation": 2,
        "permission_type": 2,
    }
    assert denied.filter() == {
        "resource_type_filter": 3,
        "resource_name_filter": "g-",
        "pattern_type_filter": 4,
        "principal_filter": "User:CN=bob",
        "host_filter": "10.0.0.1",
        "operation": 2,
        "permission_type": 2,
    }
    assert Acl("User:a", "IDEMPOTENT_WRITE", cluster=True).message()["resource_name"] == "kafka-cluster"
    assert Acl("User:a", "DESCRIBE", transactional_id="*").message()["resource_type"] == 5


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"principal": "alice", "operation": "READ", "topic": "t"}, "principal='alice': write 'User:alice'"),
        ({"principal": "User:a", "operation": "Write", "topic": "t"}, "operation='Write' is unknown: write one of ALL"),
        ({"principal": "User:a", "operation": "READ"}, "write one of topic, group, transactional_id and cluster"),
        ({"principal": "User:a", "operation": "READ", "topic": "t", "group": "g"}, "write one of topic, group"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Acl(**rule)
