"""Rights by ACLs, case by case and against a plain reading of the rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from aiokafkapy.broker.security.authorizer import Authorizer

_O, _R = Operation, ResourceType


def acl(name: str = "orders", operation: Operation = Operation.READ, **fields: Any) -> AclBinding:
    default = AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW)
    return default._replace(**fields)


def may(
    acls: Collection[AclBinding],
    operation: Operation = Operation.READ,
    name: str = "orders",
    principal: str = "User:alice",
    host: str = "10.0.0.1",
    **options: Any,
) -> bool:
    return Authorizer(bindings=acls, **options).authorize(principal, host, operation, ResourceType.TOPIC, name)


DENY: Any = {"permission": Permission.DENY}
PREFIXED: Any = {"pattern_type": PatternType.PREFIXED}


def test_without_an_acl_nothing_may_be_done() -> None:
    assert not may([])
    assert not may([acl(principal="User:bob")])
    assert not may([acl(host="10.0.0.2")])
    assert not may([acl(resource_type=ResourceType.GROUP)])
    assert not may([acl()], _O.WRITE)


def test_an_acl_allows_by_name_prefix_or_wildcard_for_one_or_all() -> None:
    assert may([acl()])
    assert may([acl("ord", **PREFIXED)])
    assert may([acl("*")])
    assert may([acl(principal="User:*")])
    assert may([acl(host="10.0.0.1")])
    assert may([acl(operation=_O.ALL)])
    assert not may([acl("ord")])
    assert not may([acl("orders-eu", **PREFIXED)])


def test_to_deny_outweighs_every_permission() -> None:
    everything = acl("*", _O.ALL, principal="User:*")
    for denying in (acl(**DENY), acl("ord", **PREFIXED, **DENY), acl("*", **DENY), acl(operation=_O.ALL, **DENY)):
        assert not may([everything, denying])
        assert not may([denying, everything])
    assert may([everything, acl(host="10.0.0.2", **DENY)])
    assert may([everything, acl(principal="User:bob", **DENY)])
    assert may([everything, acl(operation=_O.WRITE, **DENY)])


@pytest.mark.parametrize("implying", [_O.READ, _O.WRITE, _O.DELETE, _O.ALTER])
def test_some_rights_imply_describe_and_to_deny_them_does_not_deny_it(implying: Operation) -> None:
    assert may([acl(operation=implying)], _O.DESCRIBE)
    assert may([acl(operation=_O.DESCRIBE), acl(operation=implying, **DENY)], _O.DESCRIBE)
    assert not may([acl(operation=implying)], _O.DESCRIBE_CONFIGS)
    assert not may([acl(operation=_O.DESCRIBE)], implying)


def test_alter_configs_implies_describe_configs() -> None:
    assert may([acl(operation=_O.ALTER_CONFIGS)], _O.DESCRIBE_CONFIGS)
    assert not may([acl(operation=_O.ALTER_CONFIGS)], _O.DESCRIBE)
    assert not may([acl(operation=_O.CREATE)], _O.DESCRIBE)


def test_a_super_user_may_do_everything() -> None:
    assert may([acl("*", _O.ALL, **DENY)], super_users=["User:alice"])
    assert not may([], super_users=["User:bob"])


def test_resources_without_acls_can_be_open_to_everybody() -> None:
    assert may([], allow_everyone_if_no_acl_found=True)
    assert may([acl("others", principal="User:bob")], allow_everyone_if_no_acl_found=True)
    assert not may([acl(principal="User:bob")], allow_everyone_if_no_acl_found=True)
    assert not may([acl("ord", principal="User:bob", **PREFIXED)], allow_everyone_if_no_acl_found=True)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl()], True),
        ([acl("ord", **PREFIXED)], True),
        ([acl(), acl(**DENY)], False),
        ([acl(), acl("ord", **PREFIXED, **DENY)], False),
        ([acl("or", **PREFIXED), acl("ord", **PREFIXED, **DENY)], True),
        ([acl("ord", **PREFIXED), acl("or", **PREFIXED, **DENY)], False),
        ([acl("ord", **PREFIXED), acl("ord", **DENY)], True),
        ([acl("*"), acl("*", **DENY)], False),
        ([acl("*"), acl("o", **PREFIXED, **DENY)], True),
        ([acl(), acl("*", **DENY)], False),
        ([acl(operation=_O.WRITE)], False),
        ([acl(principal="User:bob")], False),
    ],
)
def test_a_right_on_any_resource_of_a_type(acls: list[AclBinding], expected: bool) -> None:
    found = Authorizer(bindings=acls).authorize_by_resource_type("User:alice", "h", _O.READ, _R.TOPIC)
    assert found is expected


def test_changes_are_saved_before_they_count() -> None:
    saved: list[set[AclBinding]] = []
    authorizer = Authorizer(save=lambda acls: saved.append(set(acls)))
    authorizer.create([acl(), acl("b")])
    authorizer.create([acl()])  # there already
    assert saved == [{acl(), acl("b")}]
    reads = AclFilter(_R.ANY, "b", PatternType.ANY, None, None, _O.READ, Permission.ANY)
    assert authorizer.delete([reads, reads]) == [[acl("b")], [acl("b")]]
    assert saved[1:] == [{acl()}]
    everything = AclFilter(_R.ANY, None, PatternType.ANY, None, None, _O.ANY, Permission.ANY)
    assert authorizer.find(everything) == [acl()]

    def fail(_: Collection[AclBinding]) -> None:
        raise OSError("the disk is full")

    full = Authorizer(bindings=[acl()], save=fail)
    with pytest.raises(OSError, match="full"):
        full.create([acl("b")])
    assert full.find(everything) == [acl()]


NAMES = st.text("ab", min_size=1, max_size=3)
ACLS = st.builds(
    AclBinding,
    st.just(_R.TOPIC),
    NAMES | st.just("*"),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "h"]),
    st.sampled_from([_O.ALL, _O.READ, _O.WRITE, _O.DESCRIBE]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(st.lists(ACLS, max_size=6), NAMES, st.sampled_from([_O.READ, _O.DESCRIBE]))
def test_the_index_finds_the_same_as_a_look_at_all_acls(
    acls: list[AclBinding], name: str, operation: Operation
) -> None:
    about = [
        each
        for each in acls
        if (name.startswith(each.name) if each.pattern_type is PatternType.PREFIXED else each.name in ("*", name))
        and each.principal in ("User:alice", "User:*")
    ]
    implying = {_O.READ, _O.WRITE} if operation is _O.DESCRIBE else set()
    is_denied = any(each.permission is Permission.DENY and each.operation in (operation, _O.ALL) for each in about)
    is_allowed = any(
        each.permission is Permission.ALLOW and each.operation in {operation, _O.ALL, *implying} for each in about
    )
    assert may(acls, operation, name, host="h") is (is_allowed and not is_denied)
