"""AlterConfigs (33): replace all options of topics, groups or subscriptions to metrics.

versions: 0-2
kept: options that are not named go back to their defaults; validate_only
dropped: broker options, as in IncrementalAlterConfigs, which is the one to use
notes: all changes of one resource are made, or none; one that occurs twice fails, at each place, as in Kafka.
"""

from __future__ import annotations

from ...errors import InvalidConfigError, InvalidRequestError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from .incremental_alter_configs import changeable, error_response, respond_each
from .registry import Body, Response, register

__all__ = ["handle"]


@register(ApiKey.ALTER_CONFIGS, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each resource by itself."""
    return respond_each(context, body, None, _replace)


def _replace(context: RequestContext, resource: Struct, *, validate_only: bool) -> None:
    options = changeable(context, resource)
    given: dict[str, str | None] = {}
    for entry in resource.configs:
        if entry.name in given:
            raise InvalidRequestError(f"Error due to duplicate config keys: {entry.name}")
        if entry.value is None:
            raise InvalidConfigError(f"Null value not supported for {entry.name}")
        given[entry.name] = entry.value
    options.alter({**dict.fromkeys(options.overrides), **given}, validate_only=validate_only)
