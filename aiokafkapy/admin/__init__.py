"""Administration of topics, as far as our own programs need it, and a check-up of a cluster.

The entry points are ``TopicAdmin`` and ``Doctor``. For groups, quotas, ACLs and the rest use Kafka's own tools.
"""

from __future__ import annotations

from .diagnosis import Finding, Verdict
from .doctor import Doctor
from .topics import TopicAdmin, TopicDescription

__all__ = ["Doctor", "Finding", "TopicAdmin", "TopicDescription", "Verdict"]
