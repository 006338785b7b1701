"""DeleteAcls (31): remove the ACLs that match filters.

versions: 1-3
kept: all of it
dropped: nothing
notes: an ACL that several filters match is in the answer to each of them. A filter that is wrong stops no other.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import AclBinding, AclFilter, Operation, ResourceType
from .acl_requests import filter_of, required_authorizer
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every filter."""
    return context.respond(filter_results=[_failed(error) for _ in body.filters])


@register(ApiKey.DELETE_ACLS, versions=(1, 3), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The ACLs that any of the filters matches, at once."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    authorizer = required_authorizer(context)
    checked = [_checked(requested) for requested in body.filters]
    deleted = iter(authorizer.delete([each for each in checked if isinstance(each, AclFilter)]))
    return context.respond(
        filter_results=[_matching(next(deleted)) if isinstance(each, AclFilter) else _failed(each) for each in checked]
    )


def _checked(requested: Struct) -> AclFilter | KafkaError:
    try:
        return filter_of(requested)
    except KafkaError as error:
        return error


def _matching(acls: list[AclBinding]) -> dict[str, object]:
    return {
        "error_code": 0,
        "matching_acls": [
            {
                "error_code": 0,
                "resource_type": acl.resource_type,
                "resource_name": acl.name,
                "pattern_type": acl.pattern_type,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            for acl in acls
        ],
    }


def _failed(error: KafkaError) -> dict[str, object]:
    return {**entry_error(error), "matching_acls": []}
