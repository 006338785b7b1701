"""ApiVersions (18): the APIs and versions that this broker serves.

versions: 0-4
kept: the version ranges of exactly the APIs that have a handler, those of telemetry with a receiver only; the check
    of the client's software name (v3+); the features (v3+) transaction.version, finalized at 2 (KIP-890), and
    group.version and share.version, finalized at 1 (KIP-848, KIP-932), until UpdateFeatures says otherwise
dropped: all other features
notes: it may come before a client has authenticated by SASL. The response's header is always version 0; a version we
    do not know is answered in v0 with UNSUPPORTED_VERSION and our range (KIP-511), see request_handler. Produce is
    advertised from 0 although 0-2 are refused, as Kafka 4 does: librdkafka before 2.10 compresses only when it sees
    them (KAFKA-18659).
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import InvalidRequestError, UnsupportedVersionError
from ...protocol.api import ApiKey
from ...protocol.messages import build_response
from ..context import RequestContext
from ..features import HIGHEST
from . import Body, dispatch_table, register

__all__ = ["handle", "unsupported_version_response"]

_OF_A_RECEIVER: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@register(ApiKey.API_VERSIONS, versions=(0, 4))
def handle(context: RequestContext, body: Body) -> Body:
    """The ranges of every registered handler."""
    if context.api_version >= 3:
        name, release = body.client_software_name, body.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(release)):
            raise InvalidRequestError("the client's software name or version has characters it may not have")
        context.connection.software = f"{name} {release}"
    if context.connection.session is not None:
        context.connection.session.versions_told()
    features = context.state.features
    has_receiver = context.state.telemetry.is_offered
    return context.respond(
        api_keys=[entry for entry in _api_keys() if has_receiver or entry["api_key"] not in _OF_A_RECEIVER],
        supported_features=[
            {"name": name, "min_version": 0, "max_version": highest} for name, highest in HIGHEST.items()
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            {"name": name, "max_version_level": features[name], "min_version_level": features[name]}
            for name in HIGHEST
            if features[name] > 0
        ],
    )


def unsupported_version_response() -> Body:
    """The answer to an ApiVersions request of an unknown version: in version 0, with the versions of this one API."""
    api_keys = [entry for entry in _api_keys() if entry["api_key"] == ApiKey.API_VERSIONS]
    return build_response(ApiKey.API_VERSIONS, 0, error_code=UnsupportedVersionError.code, api_keys=api_keys)


def _api_keys() -> list[dict[str, int]]:
    return [
        {
            "api_key": handler.api_key,
            "min_version": 0 if handler.api_key == ApiKey.PRODUCE else handler.min_version,
            "max_version": handler.max_version,
        }
        for handler in sorted(dispatch_table().values(), key=lambda handler: handler.api_key)
    ]
