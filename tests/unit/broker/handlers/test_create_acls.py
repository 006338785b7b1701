"""CreateAcls, DescribeAcls and DeleteAcls: ACLs are made, found and removed, in every version."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from aiokafkapy.broker.security.authorizer import Authorizer
from aiokafkapy.protocol.api import ApiKey

from .group_requests import versions
from .harness import Harness

ACL: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture
def guarded(harness: Harness) -> Harness:
    harness.state.authorizer = Authorizer(["User:admin"])
    harness.connection = dataclasses.replace(harness.connection, principal="User:admin")
    return harness


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_ACLS))
async def test_acls_are_made_found_and_removed(guarded: Harness, version: int) -> None:
    creations = [ACL, {**ACL, "operation": 4}, {**ACL, "resource_name": "o", "resource_pattern_type": 4}]
    body = guarded.call(ApiKey.CREATE_ACLS, version, creations=[*creations, creations[0]])
    assert [(each.error_code, each.error_message) for each in body.results] == [(0, None)] * 4
    found = guarded.call(ApiKey.DESCRIBE_ACLS, version, **ANY)
    assert (found.error_code, found.error_message) == (0, None)
    assert [
        (each.resource_type, each.resource_name, each.pattern_type, [acl.operation for acl in each.acls])
        for each in found.resources
    ] == [(2, "orders", 3, [3, 4]), (2, "o", 4, [3])]
    (first, _) = found.resources[0].acls
    assert (first.principal, first.host, first.permission_type) == ("User:alice", "*", 3)
    wrong = {**ANY, "operation": 99}
    prefixed = {**ANY, "pattern_type_filter": 4}
    deleted = guarded.call(ApiKey.DELETE_ACLS, version, filters=[wrong, prefixed, ANY]).filter_results
    assert [each.error_code for each in deleted] == [42, 0, 0]
    assert [len(each.matching_acls) for each in deleted] == [0, 1, 3]
    assert deleted[0].error_message == "Unknown entryFilter."
    (gone,) = deleted[1].matching_acls
    assert (gone.error_code, gone.resource_name, gone.pattern_type, gone.principal) == (0, "o", 4, "User:alice")
    assert guarded.call(ApiKey.DESCRIBE_ACLS, version, **ANY).resources == ()


async def test_one_wrong_acl_does_not_stop_the_others(guarded: Harness) -> None:
    body = guarded.call(ApiKey.CREATE_ACLS, 3, creations=[{**ACL, "operation": 1}, ACL, {**ACL, "resource_name": ""}])
    assert [each.error_code for each in body.results] == [42, 0, 42]
    assert body.results[0].error_message == "Invalid operation ANY"
    assert len(guarded.call(ApiKey.DESCRIBE_ACLS, 3, **ANY).resources) == 1


@pytest.mark.parametrize("principal", ["User:admin", "User:alice"])
async def test_without_an_authorizer_security_is_disabled_and_without_the_right_refused(
    harness: Harness, principal: str
) -> None:
    harness.connection = dataclasses.replace(harness.connection, principal=principal)
    expected = 54
    if principal == "User:alice":
        harness.state.authorizer = Authorizer(["User:admin"])
        expected = 31
    made = harness.call(ApiKey.CREATE_ACLS, 3, creations=[ACL, ACL])
    assert [each.error_code for each in made.results] == [expected] * 2
    found = harness.call(ApiKey.DESCRIBE_ACLS, 3, **ANY)
    assert (found.error_code, found.resources) == (expected, ())
    deleted = harness.call(ApiKey.DELETE_ACLS, 3, filters=[ANY])
    assert [each.error_code for each in deleted.filter_results] == [expected]
    if principal == "User:alice":
        assert found.error_message == "User:alice may not DESCRIBE CLUSTER 'kafka-cluster'"
