"""The broker to emulate, as a client sees it: its versions, its features, its refusals.

Owns the form of an emulation and the part of our APIs that one leaves; must not know any handler nor a release.
Kafka's counterparts are ``ApiVersionManager`` and ``BrokerFeatures``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["Emulation", "FeatureLevels", "UnknownApiVersions", "UnknownProducer"]

_EVERY_VERSION: Final = 0x7FFF


class UnknownApiVersions(Enum):
    """The ranges in the answer to an ApiVersions request of a version that the broker does not have."""

    NONE = "none"
    ITS_OWN = "its own"
    """The range of ApiVersions itself (KIP-511)."""
    ALL = "all"


class UnknownProducer(Enum):
    """The answer to a first batch of a producer whose sequence does not begin with 0: its records are gone."""

    OUT_OF_ORDER = "out of order"
    UNKNOWN = "unknown"
    TAKEN = "taken"
    """KIP-360."""


class FeatureLevels(NamedTuple):
    """A feature: the levels that the broker has, and the one it is finalized at (0: it is not) in a new cluster."""

    lowest: int
    highest: int
    level: int


@dataclass(frozen=True, slots=True, eq=False)
class Emulation:
    """One release, or one other product. Behaviour that has no field here follows from the versions of its APIs."""

    version: str
    """As ``DevBroker(version=...)`` takes it."""
    name: str
    """The name that people read: ``Kafka 2.8``."""
    source: str
    """The source of its ranges."""

    apis: Mapping[int, tuple[int, int]]
    """The lowest and highest version by API key; those that our broker lacks are not served."""
    features: Mapping[str, FeatureLevels] = field(default_factory=dict)

    unknown_api_versions: UnknownApiVersions = UnknownApiVersions.ITS_OWN
    answers_api_versions_up_to: int = _EVERY_VERSION
    """A request of a higher version closes the connection."""
    has_features: bool = True
    """Whether the broker knows finalized features, even if it has none; otherwise their epoch is -1."""
    cluster_id_prefix: str = ""

    refused_codecs: Mapping[int, int] = field(default_factory=dict)
    """The error code for a batch that is compressed with a codec, by the codec's number."""
    names_invalid_records: bool = True
    """Whether a record that is refused is INVALID_RECORD, and not CORRUPT_MESSAGE."""
    unknown_producer: UnknownProducer = UnknownProducer.TAKEN
    checks_special_times: bool = True
    """Whether ListOffsets refuses the negative times that mean something in a later version than the request's."""
    caps_min_insync_replicas: bool = True
    """Whether acks=all asks for no more replicas than the partition has, even if ``min.insync.replicas`` is higher."""
    verifies_transactions: bool = True
    """Whether a transactional batch is refused where its partition was not added to the transaction."""

    def narrowed(self, api_key: int, lowest: int, highest: int) -> tuple[int, int] | None:
        """The versions from ``lowest`` to ``highest`` that the broker serves; None when it serves none of them."""
        if api_key not in self.apis:
            return None
        low, high = self.apis[api_key]
        common = max(low, lowest), min(high, highest)
        return common if common[0] <= common[1] else None
