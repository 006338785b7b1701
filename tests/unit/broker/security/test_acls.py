"""Valid ACLs, and the filters that match them."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.broker.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_binding,
    check_filter,
)
from aiokafkapy.errors import InvalidRequestError

FIELDS: dict[str, Any] = {
    "resource_type": 2,
    "name": "orders",
    "pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission": 3,
}
ACL = check_binding(**FIELDS)
OPEN = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def test_codes_become_an_acl() -> None:
    assert (
        AclBinding(
            ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
        )
        == ACL
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 100}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_a_topic_that_kafka_would_not_make_is_refused_in_its_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        check_binding(**{**FIELDS, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"resource_type": 0}, "Unknown patternFilter"),
        ({"pattern_type": 0}, "Unknown patternFilter"),
        ({"operation": 0}, "Unknown entryFilter"),
        ({"permission": 77}, "Unknown entryFilter"),
    ],
)
def test_a_filter_of_unknown_codes_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        check_filter(**{**FIELDS, **fields})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resource_type": ResourceType.TOPIC},
        {"name": "orders"},
        {"pattern_type": PatternType.LITERAL},
        {"name": "orders", "pattern_type": PatternType.MATCH},
        {"principal": "User:alice"},
        {"host": "*"},
        {"operation": Operation.READ},
        {"permission": Permission.ALLOW},
    ],
)
def test_a_filter_matches_by_its_fields(changes: dict[str, Any]) -> None:
    assert OPEN._replace(**changes).matches(ACL)


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": ResourceType.GROUP},
        {"name": "order"},
        {"pattern_type": PatternType.PREFIXED},
        {"name": "orders-eu", "pattern_type": PatternType.MATCH},
        {"principal": "User:*"},
        {"host": "10.0.0.1"},
        {"operation": Operation.ALL},
        {"permission": Permission.DENY},
    ],
)
def test_a_filter_matches_nothing_else(changes: dict[str, Any]) -> None:
    assert not OPEN._replace(**changes).matches(ACL)


@pytest.mark.parametrize(
    ("name", "pattern_type", "is_matched"),
    [
        ("*", PatternType.LITERAL, True),
        ("orders", PatternType.LITERAL, True),
        ("ord", PatternType.PREFIXED, True),
        ("orders", PatternType.PREFIXED, True),
        ("ord", PatternType.LITERAL, False),
        ("orders-eu", PatternType.PREFIXED, False),
    ],
)
def test_match_means_all_acls_about_a_name(name: str, pattern_type: PatternType, is_matched: bool) -> None:
    acl = ACL._replace(name=name, pattern_type=pattern_type)
    assert OPEN._replace(name="orders", pattern_type=PatternType.MATCH).matches(acl) is is_matched
