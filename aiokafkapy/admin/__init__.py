"""Administration of topics, as far as our own programs need it, and a check-up of a cluster.

Names, options and offsets come in; descriptions of topics, and findings with their remedies, go out. The entry points
are ``TopicAdmin`` and ``Doctor``. For groups, quotas, ACLs and the rest use Kafka's own tools. Kafka's counterpart is
``KafkaAdminClient``.
"""

from __future__ import annotations

from .configs import ConfigEntry, ConfigSource
from .diagnosis import Finding, Verdict
from .doctor import Doctor
from .topics import ClusterDescription, TopicAdmin, TopicDescription

__all__ = [
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSource",
    "Doctor",
    "Finding",
    "TopicAdmin",
    "TopicDescription",
    "Verdict",
]
