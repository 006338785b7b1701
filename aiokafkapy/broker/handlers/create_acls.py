"""CreateAcls (30): add ACLs.

versions: 1-3
kept: all of it, and Kafka's checks of an ACL
dropped: nothing
notes: each ACL by itself; one that is there already is no error. Any node answers, and all nodes know at once.
"""

from __future__ import annotations

from ...errors import KafkaError, SecurityDisabledError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import AclBinding, Operation, ResourceType, check_binding
from ..security.authorizer import Authorizer
from . import Body, Response, error_message, register

__all__ = ["handle", "required_authorizer"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every ACL."""
    return context.respond(results=[_result(error) for _ in body.creations])


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
            results.append(_result(None))
        except KafkaError as error:
            results.append(_result(error))
    authorizer.create(bindings)
    return context.respond(results=results)


def required_authorizer(context: RequestContext) -> Authorizer:
    """The authorizer. Raises SecurityDisabledError when there is none."""
    authorizer = context.state.authorizer
    if authorizer is None:
        raise SecurityDisabledError("No Authorizer is configured: DevBroker(authorizer=True) has one.")
    return authorizer


def _binding(creation: Struct) -> AclBinding:
    return check_binding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _result(error: KafkaError | None) -> dict[str, object]:
    return {"error_code": error.code if error else 0, "error_message": error_message(error) if error else None}
