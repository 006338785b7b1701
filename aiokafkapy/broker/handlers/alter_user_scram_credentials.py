"""AlterUserScramCredentials (51): give users SCRAM credentials, or take them away.

versions: 0
kept: all of it, and Kafka's checks; kept on disk with a data_dir
dropped: nothing
notes: each user by itself, and each at most once in a request. Connections that are open stay so.
"""

from __future__ import annotations

from ...errors import DuplicateResourceError, KafkaError, ResourceNotFoundError, UnacceptableCredentialError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...security.sasl.scram_credential import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..security.authentication import SCRAM_CODES, ScramChange
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every user."""
    return context.respond(results=[_result(name, error) for name in _by_user(body)])


@register(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """All that pass the checks, at once."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    changes: list[ScramChange] = []
    results = []
    for user, requested in _by_user(body).items():
        error: KafkaError | None = None
        try:
            changes.append(_checked(context, user, requested))
        except KafkaError as refusal:
            error = refusal
        results.append(_result(user, error))
    context.state.authentication.change_scram(changes)
    return context.respond(results=results)


def _by_user(body: Body) -> dict[str, list[Struct]]:
    found: dict[str, list[Struct]] = {}
    for requested in (*body.deletions, *body.upsertions):
        found.setdefault(requested.name, []).append(requested)
    return found


def _checked(context: RequestContext, user: str, changes: list[Struct]) -> ScramChange:
    if len(changes) > 1:
        raise DuplicateResourceError("A user credential cannot be altered twice in the same request")
    (change,) = changes
    store = context.state.authentication.check_scram_user(user, change.mechanism)
    if not hasattr(change, "salted_password"):
        if user not in store:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
        return user, change.mechanism, None
    if change.iterations < MIN_ITERATIONS:
        raise UnacceptableCredentialError("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise UnacceptableCredentialError("Too many iterations")
    credential = ScramCredential.from_salted_password(
        SCRAM_CODES[change.mechanism], change.salted_password, iterations=change.iterations, salt=change.salt
    )
    return user, change.mechanism, credential


def _result(user: str, error: KafkaError | None) -> dict[str, object]:
    return {
        "user": user,
        **entry_error(error),
    }
