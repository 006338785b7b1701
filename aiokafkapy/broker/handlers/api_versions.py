"""ApiVersions (18): the APIs and versions that this broker serves.

versions: 0-4
kept: the version ranges of exactly the APIs that have a handler, those of telemetry with a receiver only; the check
    of the client's software name (v3+); the features (v3+) transaction.version, finalized at 2 (KIP-890), and
    group.version and share.version, finalized at 1 (KIP-848, KIP-932), until UpdateFeatures says otherwise; with an
    emulation its own ranges and features
dropped: all other features
notes: it may come before a client has authenticated by SASL. The response's header is always version 0; a version we
    do not know is answered in v0 with UNSUPPORTED_VERSION and our range (KIP-511), see request_handler. Produce is
    advertised from 0 although 0-2 are refused, as Kafka 4 does: librdkafka before 2.10 compresses only when it sees
    them (KAFKA-18659). Features that may be at level 0 are told from v4 on (KAFKA-17011).
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import InvalidRequestError, UnsupportedVersionError
from ...protocol.api import ApiKey
from ...protocol.writer import PlainMessage
from ..context import BrokerState, RequestContext
from ..emulation.model import UnknownApiVersions
from .registry import Body, Response, register, registered, served

__all__ = ["handle", "unsupported_version_response"]

FEATURES_AT_0_FROM_VERSION: Final = 4
_OF_A_RECEIVER: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@register(ApiKey.API_VERSIONS, versions=(0, 4))
def handle(context: RequestContext, body: Body) -> Response:
    """The ranges of every handler that is served."""
    if context.api_version >= 3:
        name, release = body.client_software_name, body.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(release)):
            raise InvalidRequestError("the client's software name or version has characters it may not have")
        context.connection.software = f"{name} {release}"
    if context.connection.session is not None:
        context.connection.session.versions_told()
    features, emulation = context.state.features, context.state.emulation
    return context.respond(
        api_keys=_api_keys(context.state),
        supported_features=[
            {"name": name, "min_version": levels.lowest, "max_version": levels.highest}
            for name, levels in features.supported.items()
            if levels.lowest > 0 or context.api_version >= FEATURES_AT_0_FROM_VERSION
        ],
        finalized_features_epoch=-1 if emulation is not None and not emulation.has_features else features.epoch,
        finalized_features=[
            {"name": name, "max_version_level": features[name], "min_version_level": features[name]}
            for name in features.supported
            if features[name] > 0
        ],
    )


def unsupported_version_response(state: BrokerState, version: int) -> Response | None:
    """The answer to an ApiVersions request of an unknown version, in version 0; None when the broker gives no answer.

    It has the versions of this one API, and with an emulation the versions that the emulated broker gives.
    """
    emulation = state.emulation
    told = UnknownApiVersions.ITS_OWN
    if emulation is not None:
        if version > emulation.answers_api_versions_up_to:
            return None
        told = emulation.unknown_api_versions
    api_keys = [] if told is UnknownApiVersions.NONE else _api_keys(state)
    if told is UnknownApiVersions.ITS_OWN:
        api_keys = [entry for entry in api_keys if entry["api_key"] == ApiKey.API_VERSIONS]
    fields = {"error_code": UnsupportedVersionError.code, "api_keys": api_keys}
    return PlainMessage(ApiKey.API_VERSIONS, 0, fields)


def _api_keys(state: BrokerState) -> list[dict[str, int]]:
    produce = (0, 0) if state.emulation is None else state.emulation.apis[ApiKey.PRODUCE]
    return [
        {
            "api_key": key,
            "min_version": produce[0] if key == ApiKey.PRODUCE else handler.min_version,
            "max_version": handler.max_version,
        }
        for key, handler in sorted(served(registered(), state.emulation).items())
        if state.telemetry.is_offered or key not in _OF_A_RECEIVER
    ]
