"""ACLs of a real Kafka: adds and removes them, and waits until each broker applies the change.

It does not know how brokers are started. Kafka's counterpart is ``AclBinding`` with its ``ResourcePattern`` and
``AccessControlEntry``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...broker.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from ...protocol.api import ApiKey
from ..blocking_client import Address, Admin, exchange, raise_for

__all__ = ["Acl", "add_acls", "remove_acls"]

_OPERATIONS: Final = tuple(name for name in Operation.__members__ if name != "ANY")
_PATIENCE: Final = 5.0
"""Seconds for one broker to answer."""


@dataclass(frozen=True)
class Acl:
    """One ACL: ``Acl("User:alice", "WRITE", topic="flights")``; one of the last four arguments is the resource.

    ``"*"`` is any name; ``prefixed`` makes a name match all that begin with it. ``deny`` overrides any other ACL.
    """

    principal: str
    operation: str
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = False
    deny: bool = False
    host: str = "*"

    def __post_init__(self) -> None:
        if ":" not in self.principal:
            raise ValueError(f"principal={self.principal!r}: write 'User:{self.principal}'")
        if self.operation not in _OPERATIONS:
            raise ValueError(f"operation={self.operation!r} is unknown: write one of {', '.join(_OPERATIONS)}")
        if len(self._named()) != 1:
            raise ValueError(f"{self}: write one of topic, group, transactional_id and cluster")

    def message(self) -> dict[str, object]:
        """The ACL as an entry of CreateAcls."""
        ((kind, name),) = self._named().items()
        return {
            "resource_type": ResourceType[kind.upper()].value,
            "resource_name": name,
            "resource_pattern_type": (PatternType.PREFIXED if self.prefixed else PatternType.LITERAL).value,
            "principal": self.principal,
            "host": self.host,
            "operation": Operation[self.operation].value,
            "permission_type": (Permission.DENY if self.deny else Permission.ALLOW).value,
        }

    def filter(self) -> dict[str, object]:
        """The ACL as a filter of DeleteAcls and DescribeAcls."""
        message = self.message()
        return {
            "resource_type_filter": message["resource_type"],
            "resource_name_filter": message["resource_name"],
            "pattern_type_filter": message["resource_pattern_type"],
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": message["operation"],
            "permission_type": message["permission_type"],
        }

    def _named(self) -> dict[str, str]:
        cluster = CLUSTER_NAME if self.cluster else None
        named = {
            "topic": self.topic,
            "group": self.group,
            "transactional_id": self.transactional_id,
            "cluster": cluster,
        }
        return {kind: name for kind, name in named.items() if name is not None}


def add_acls(admin: Admin, addresses: Sequence[Address], acls: Sequence[Acl], timeout: float) -> None:
    """Add ACLs and return when every broker at ``addresses`` applies them."""
    answer = admin.ask_any(ApiKey.CREATE_ACLS, _PATIENCE, creations=[acl.message() for acl in acls])
    for result in answer.results:
        raise_for(result)
    _wait(admin, addresses, acls, timeout, present=True)


def remove_acls(admin: Admin, addresses: Sequence[Address], acls: Sequence[Acl], timeout: float) -> None:
    """Remove ACLs and return when no broker at ``addresses`` applies them; a missing one is not an error."""
    answer = admin.ask_any(ApiKey.DELETE_ACLS, _PATIENCE, filters=[acl.filter() for acl in acls])
    for result in answer.filter_results:
        raise_for(result)
    _wait(admin, addresses, acls, timeout, present=False)


def _wait(admin: Admin, addresses: Sequence[Address], acls: Sequence[Acl], timeout: float, *, present: bool) -> None:
    """Wait for each broker separately: brokers learn of new ACLs a moment after the controller."""

    def are_known() -> bool:
        return all(_has(address, acl) == present for address in addresses for acl in acls)

    admin.wait_until(are_known, timeout, f"not every broker {'has' if present else 'has forgotten'} {list(acls)}")


def _has(address: Address, acl: Acl) -> bool:
    answer = exchange(address, ApiKey.DESCRIBE_ACLS, _PATIENCE, **acl.filter())
    raise_for(answer)
    return bool(answer.resources)
