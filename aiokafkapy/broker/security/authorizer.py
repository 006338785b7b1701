"""Decides whether a principal may do an operation on a resource, by its ACLs.

Owns the set of ACLs and the decision. Pure: no asyncio, no disk; ``save`` is called with a new set before it counts. It
must not know requests. Kafka's counterparts are ``StandardAuthorizer`` with ``StandardAuthorizerData``, and
``AclControlManager``.

Rules, as there:
- a super user may do everything, even against the ACLs;
- one ACL that denies outweighs all that allow;
- READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS; only in ACLs that allow:
  to deny READ does not deny DESCRIBE;
- where no ACL decides, the answer is no; with ``allow.everyone.if.no.acl.found`` it is yes for a resource without
  an ACL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from .acls import WILDCARD, AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType

__all__ = ["Authorizer"]

_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()

_Pattern = tuple[ResourceType, PatternType, str]


def _nothing(bindings: Collection[AclBinding]) -> None:
    """Save nothing: the ACLs are kept in memory only."""


class Authorizer:
    """The ACLs of a cluster; iterating gives them, in the order in which they were made."""

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_everyone_if_no_acl_found: bool = False,
        bindings: Iterable[AclBinding] = (),
        save: Callable[[Collection[AclBinding]], None] = _nothing,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._is_open = allow_everyone_if_no_acl_found
        self._save = save
        self._bindings: dict[AclBinding, None] = {}
        self._by_pattern: dict[_Pattern, list[AclBinding]] = {}
        self._keep(dict.fromkeys(bindings))

    # deciding

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether this principal at this address may do this on this resource."""
        if principal in self._super_users:
            return True
        is_allowed, has_acls = False, False
        for acl in self._about(resource_type, name):
            has_acls = True
            if not acl.concerns(principal, host) or not _decides(acl, operation):
                continue
            if acl.permission is Permission.DENY:
                return False
            is_allowed = True
        return is_allowed or (self._is_open and not has_acls)

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether it may be done on any resource of this type, whether or not the resource exists."""
        if self.authorize(principal, host, operation, resource_type, "hardcode"):
            return True  # any name stands for all that no ACL is about
        concerning = [
            acl
            for acl in self._bindings
            if acl.resource_type is resource_type
            and acl.concerns(principal, host)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = [acl for acl in concerning if acl.permission is Permission.DENY]
        return any(
            acl.permission is Permission.ALLOW and not any(_includes(deny, acl) for deny in denied)
            for acl in concerning
        )

    # changing

    def find(self, wanted: AclFilter) -> list[AclBinding]:
        """The ACLs that match a filter."""
        return [acl for acl in self._bindings if wanted.matches(acl)]

    def create(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that are there already stay. Raises the errors of ``save``, and then nothing has changed."""
        self._replace({**self._bindings, **dict.fromkeys(bindings)})

    def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Remove the ACLs that match each filter, and return them; all at once, as ``create`` does."""
        found = [self.find(each) for each in filters]
        gone = {acl for matching in found for acl in matching}
        self._replace({acl: None for acl in self._bindings if acl not in gone})
        return found

    # internals

    def _replace(self, bindings: dict[AclBinding, None]) -> None:
        if bindings != self._bindings:
            self._save(bindings)
            self._keep(bindings)

    def _keep(self, bindings: dict[AclBinding, None]) -> None:
        self._bindings = bindings
        self._by_pattern = {}
        for acl in bindings:
            self._by_pattern.setdefault((acl.resource_type, acl.pattern_type, acl.name), []).append(acl)

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[AclBinding]:
        # By looking each possible pattern up: a name is short, and there may be thousands of ACLs.
        found = self._by_pattern
        if not found:
            return
        for literal in {name, WILDCARD}:
            yield from found.get((resource_type, PatternType.LITERAL, literal), ())
        for end in range(1, len(name) + 1):
            yield from found.get((resource_type, PatternType.PREFIXED, name[:end]), ())


def _decides(acl: AclBinding, operation: Operation) -> bool:
    if acl.operation in (Operation.ALL, operation):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLYING.get(operation, _NONE)


def _includes(deny: AclBinding, allow: AclBinding) -> bool:
    """Whether the one ACL denies all that the other one allows."""
    if deny.pattern_type is PatternType.PREFIXED:
        return allow.name.startswith(deny.name) and (allow.pattern_type, allow.name) != (PatternType.LITERAL, WILDCARD)
    return deny.name == WILDCARD or (allow.pattern_type is PatternType.LITERAL and allow.name == deny.name)
