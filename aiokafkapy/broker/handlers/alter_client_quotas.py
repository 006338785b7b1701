"""AlterClientQuotas (49): set and take away quotas of users and client ids (KIP-546).

versions: 0-1
kept: producer_byte_rate, consumer_byte_rate and request_percentage of users, client ids, both, and their defaults
dropped: connection_creation_rate of addresses, and controller_mutation_rate: INVALID_REQUEST
notes: they count at once, and are forgotten in a restart. All changes of an entity are made, or none.
"""

from __future__ import annotations

from ...errors import InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every entity."""
    return context.respond(entries=[_result(entry, error) for entry in body.entries])


@register(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each entity by itself."""
    context.check_right(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
    return context.respond(
        entries=[_result(entry, _alter(context, entry, validate_only=body.validate_only)) for entry in body.entries]
    )


def _alter(context: RequestContext, entry: Struct, *, validate_only: bool) -> KafkaError | None:
    try:
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        if len({kind for kind, _ in parts}) != len(parts):
            raise InvalidRequestError("Invalid repeated client quota entity")
        changes = {change.key: None if change.remove else change.value for change in entry.ops}
        context.state.quotas.alter(frozenset(parts), changes, validate_only=validate_only)
    except KafkaError as error:
        return error
    return None


def _result(entry: Struct, error: KafkaError | None) -> dict[str, object]:
    return {
        **entry_error(error),
        "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
    }
