"""DescribeClientQuotas (48): the quotas of users and client ids that administrators have set (KIP-546).

versions: 0-1
kept: filters by exact name, by default, and by any; strict
dropped: quotas of addresses, which the dev broker does not have
notes: the quotas of the dev broker's own options are not among them: they are in its configuration.
"""

from __future__ import annotations

from ...errors import InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..entity_quotas import Entity
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]

EXACT, DEFAULT, ANY = range(3)


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(**entry_error(error), entries=None)


@register(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The entities that fit."""
    context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    types = [component.entity_type for component in body.components]
    for kind in types:
        if types.count(kind) > 1:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
    return context.respond(
        error_code=0,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in sorted(entity, key=str)],
                "values": [{"key": key, "value": value} for key, value in quotas.items()],
            }
            for entity, quotas in context.state.quotas
            if _fits(entity, body)
        ],
    )


def _fits(entity: Entity, body: Body) -> bool:
    names = dict(entity)
    if body.strict and len(names) != len(body.components):
        return False
    return all(
        component.entity_type in names
        and (
            component.match_type == ANY
            or names[component.entity_type] == (component.match if component.match_type == EXACT else None)
        )
        for component in body.components
    )
