"""CreateAcls (30): add ACLs.

versions: 1-3
kept: all of it, and Kafka's checks of an ACL
dropped: nothing
notes: each ACL by itself; an ACL that exists already is not an error. Any node answers, and all nodes know at once.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import AclBinding, Operation, ResourceType, check_binding
from .acl_requests import required_authorizer
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every ACL."""
    return context.respond(results=[entry_error(error) for _ in body.creations])


@register(ApiKey.CREATE_ACLS, versions=(1, 3), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """All that pass the checks, at once."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    authorizer = required_authorizer(context)
    bindings: list[AclBinding] = []
    results = []
    for creation in body.creations:
        try:
            bindings.append(_binding(creation))
            results.append(entry_error(None))
        except KafkaError as error:
            results.append(entry_error(error))
    authorizer.create(bindings)
    return context.respond(results=results)


def _binding(creation: Struct) -> AclBinding:
    return check_binding(
        resource_type=creation.resource_type,
        name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission=creation.permission_type,
    )
