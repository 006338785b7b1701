"""UpdateFeatures (57): finalize features at other levels (KIP-584).

versions: 0-2
kept: upgrades, downgrades that are agreed to, validate_only (v1+)
dropped: metadata.version and the other features of Kafka: those here are group.version, share.version
    and transaction.version
notes: a client learns of a change by its next ApiVersions. The results by feature (v0-1) are all the same.
"""

from __future__ import annotations

from ...errors import InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..features import UpgradeType
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(**entry_error(error), results=[])


@register(ApiKey.UPDATE_FEATURES, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """All of them, or none."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    changes: dict[str, tuple[int, UpgradeType]] = {}
    for update in body.feature_updates:
        if update.feature in changes:
            raise InvalidRequestError(f"Feature {update.feature} is updated twice.")
        changes[update.feature] = (update.max_version_level, _upgrade_type(update))
    context.state.features.update(changes, validate_only=getattr(body, "validate_only", False))
    return context.respond(error_code=0, results=[{"feature": name, "error_code": 0} for name in changes])


def _upgrade_type(update: Struct) -> UpgradeType:
    if getattr(update, "allow_downgrade", False):
        return UpgradeType.SAFE_DOWNGRADE
    number = getattr(update, "upgrade_type", UpgradeType.UPGRADE)
    if number not in list(UpgradeType):
        raise InvalidRequestError(f"{number} is not an upgrade type")
    return UpgradeType(number)
