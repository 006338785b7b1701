"""Administration of topics, as far as our own programs need it.

The entry point is ``TopicAdmin``. For groups, quotas, ACLs and the rest use Kafka's own tools.
"""

from __future__ import annotations

from .topics import TopicAdmin, TopicDescription

__all__ = ["TopicAdmin", "TopicDescription"]
