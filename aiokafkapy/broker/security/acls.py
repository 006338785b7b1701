"""ACLs: a principal may, or may not, do an operation on some resources, from a host; and filters of ACLs.

Owns the codes of Kafka's ACL APIs and the match of a filter. It must not know how ACLs decide, which ``authorizer``
does, nor where they are kept. Kafka's counterparts are ``AclBinding``, ``AclBindingFilter``, ``AclEntry`` and their
enums.

Rules:

- a binding is a value: two that are equal are one;
- codes are the wire's; one that has no name here is unknown to Kafka too and is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from ...errors import InvalidRequestError

__all__ = [
    "CLUSTER_NAME",
    "SUPPORTED_OPERATIONS",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "check_binding",
    "check_filter",
]

WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the only cluster."""


class ResourceType(IntEnum):
    """The kind of resource of an ACL; delegation tokens and users can be stored, and nothing here asks about them."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """An ACL's way to name its resources; ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operation; ANY is for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it may be done; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_Code = TypeVar("_Code", bound=IntEnum)

_O = Operation
SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            *(_O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER),
            *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        ),
        ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        ResourceType.CLUSTER: (
            *(_O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
            *(_O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE),
        ),
    }
)
"""The operations of each kind of resource in ``authorized_operations`` of a response."""


class AclBinding(NamedTuple):
    """One ACL."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def covers(self, name: str) -> bool:
        """Whether the ACL is about the resource of this name, of its type."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def concerns(self, principal: str, host: str) -> bool:
        """Whether the ACL is about this principal, at this address."""
        return self.principal in (principal, "User:*") and self.host in (host, WILDCARD)


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY match any value of a field."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches(self, acl: AclBinding) -> bool:
        """Whether the ACL is one of those; with MATCH, all that are about the resource of this name."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.name is None:
            return True
        return acl.covers(self.name) if self.pattern_type is PatternType.MATCH else self.name == acl.name


def check_binding(
    *, resource_type: int, name: str, pattern_type: int, principal: str, host: str, operation: int, permission: int
) -> AclBinding:
    """The ACL of these codes. Raises InvalidRequestError for one that Kafka would refuse to make, with its words."""
    if resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise InvalidRequestError("Invalid empty resource name")
    binding = AclBinding(
        _code(ResourceType, resource_type, "resourceType"),
        name,
        _code(PatternType, pattern_type, "patternType", PatternType.MATCH),
        principal,
        host,
        _code(Operation, operation, "operation"),
        _code(Permission, permission, "permissionType"),
    )
    if ":" not in principal:
        raise InvalidRequestError(
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from the"
            " principal name)"
        )
    return binding


def check_filter(
    *,
    resource_type: int,
    name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """The filter of these codes. Raises InvalidRequestError for a code that Kafka does not know."""
    try:
        resources, patterns = ResourceType(resource_type), PatternType(pattern_type)
    except ValueError:
        raise InvalidRequestError("Unknown patternFilter.") from None
    try:
        return AclFilter(resources, name, patterns, principal, host, Operation(operation), Permission(permission))
    except ValueError:
        raise InvalidRequestError("Unknown entryFilter.") from None


def _code(kind: type[_Code], code: int, what: str, *refused: int) -> _Code:
    try:
        value = kind(code)
    except ValueError:
        raise InvalidRequestError(f"Invalid {what} UNKNOWN") from None
    if value == 1 or value in refused:  # ANY
        raise InvalidRequestError(f"Invalid {what} {value.name}")
    return value
