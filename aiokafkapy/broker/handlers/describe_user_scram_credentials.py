"""DescribeUserScramCredentials (50): the SCRAM mechanisms of users, with their iterations.

versions: 0
kept: all of it
dropped: nothing
notes: no users, or null, means all. A user without credentials is RESOURCE_NOT_FOUND, one named twice
    DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter

from ...errors import DuplicateResourceError, KafkaError, ResourceNotFoundError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..security.authentication import SCRAM_CODES
from .registry import Body, Response, entry_error, register, top_level_error_with_text

__all__ = ["handle"]


@register(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """Each user by itself."""
    context.check_right(Operation.DESCRIBE, ResourceType.CLUSTER)
    names = Counter(user.name for user in body.users or ())
    if not names:
        names = Counter({user for store in context.state.authentication.scram.values() for user in store})
    return context.respond(error_code=0, results=[_describe(context, name, names[name]) for name in sorted(names)])


def _describe(context: RequestContext, user: str, occurrences: int) -> dict[str, object]:
    scram = context.state.authentication.scram
    credentials = [
        {"mechanism": code, "iterations": scram[mechanism][user].iterations}
        for code, mechanism in SCRAM_CODES.items()
        if user in scram[mechanism]
    ]
    error: KafkaError | None = None
    if occurrences > 1:
        error = DuplicateResourceError(f"Cannot describe SCRAM credentials for the same user twice: {user}")
    elif not credentials:
        error = ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {user}")
    if error is not None:
        return {"user": user, **entry_error(error), "credential_infos": []}
    return {"user": user, "error_code": 0, "credential_infos": credentials}
