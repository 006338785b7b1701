"""Quotas of users and client ids, as administrators set them while the broker runs (KIP-546).

Owns them; ``network.client_quotas`` measures. Knows no request and no clock. Kafka's counterparts are
``ClientQuotasImage`` and ``ClientQuotaManager.QuotaTypes``.

Rules:

- an entity is a user, a client id, or both; None in place of a name is the default for names without a quota;
- the most specific entity that has the quota counts: user with client id before user before client id, each name before
  its default. Clients of one entity share its quota, but the default of client ids is for each client id by itself;
- without such a quota the broker's own option counts, for each client id. Quotas are forgotten in a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ..errors import InvalidRequestError

__all__ = ["CLIENT_ID", "QUOTA_KEYS", "USER", "Entity", "EntityQuotas", "FoundQuota"]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
QUOTA_KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
"""The quotas that the dev broker keeps: no quotas of addresses, and no controller_mutation_rate."""

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""(type, name) of each part."""


class FoundQuota(NamedTuple):
    """A limit, and the clients that share it."""

    limit: float
    shared_by: Entity


class EntityQuotas:
    """All quotas, by entity."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._quotas)

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._quotas.items())

    def alter(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False) -> None:
        """Set quotas of an entity, or take them away (None). Raises InvalidRequestError; then nothing has changed."""
        _check_entity(entity)
        for key, value in changes.items():
            if key not in QUOTA_KEYS:
                raise InvalidRequestError(f"Invalid configuration key {key}: there are {', '.join(QUOTA_KEYS)}")
            if value is not None and not value > 0:
                raise InvalidRequestError(f"Quota {key} must be greater than 0")
        if validate_only:
            return
        merged = {**self._quotas.get(entity, {}), **changes}
        self._quotas[entity] = {key: value for key, value in merged.items() if value is not None}
        if not self._quotas[entity]:
            del self._quotas[entity]

    def find(self, key: str, user: str, client_id: str) -> FoundQuota | None:
        """The quota of a client; None when only the broker's own option limits it."""
        if not self._quotas:
            return None
        for user_part, client_part in _BY_RANK:
            parts = []
            if user_part:
                parts.append((USER, user if user_part == "name" else None))
            if client_part:
                parts.append((CLIENT_ID, client_id if client_part == "name" else None))
            limit = self._quotas.get(frozenset(parts), {}).get(key)
            if limit is not None:
                named = [(USER, user)] * bool(user_part) + [(CLIENT_ID, client_id)] * bool(client_part)
                return FoundQuota(limit, frozenset(named))
        return None


_BY_RANK: Final = (
    ("name", "name"),
    ("name", "default"),
    ("name", ""),
    ("default", "name"),
    ("default", "default"),
    ("default", ""),
    ("", "name"),
    ("", "default"),
)
"""The entities that a client may belong to, by its user and its client id, the most specific first (KIP-55)."""


def _check_entity(entity: Iterable[tuple[str, str | None]]) -> None:
    types = [kind for kind, _ in entity]
    unknown = [kind for kind in types if kind not in (USER, CLIENT_ID)]
    if unknown:
        raise InvalidRequestError(f"Unhandled client quota entity type: {unknown[0]}; there are user, client-id")
    if not types or len(set(types)) != len(types):
        raise InvalidRequestError("Invalid empty or repeated client quota entity")
    if any(name == "" for _, name in entity):
        raise InvalidRequestError("Empty client quota entity name")
