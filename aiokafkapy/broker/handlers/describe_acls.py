"""DescribeAcls (29): the ACLs that match a filter.

versions: 1-3
kept: all of it
dropped: nothing
notes: Any node answers.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import AclBinding, Operation, ResourceType
from .acl_requests import filter_of, required_authorizer
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error, and no ACLs."""
    return context.respond(**entry_error(error), resources=[])


@register(ApiKey.DESCRIBE_ACLS, versions=(1, 3), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The ACLs, those of one resource together."""
    context.check_right(Operation.DESCRIBE, ResourceType.CLUSTER)
    wanted = filter_of(body)
    resources: dict[tuple[int, str, int], list[AclBinding]] = {}
    for acl in required_authorizer(context).find(wanted):
        resources.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(acl)
    return context.respond(
        error_code=0,
        resources=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "pattern_type": pattern_type,
                "acls": [_description(acl) for acl in acls],
            }
            for (resource_type, name, pattern_type), acls in resources.items()
        ],
    )


def _description(acl: AclBinding) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
