"""Administration, as far as our programs need it: topics.

`TopicAdmin` is the door. Groups, quotas, ACLs and the rest are what Kafka's own tools are for.
"""

from __future__ import annotations

from .topics import TopicAdmin, TopicDescription

__all__ = ["TopicAdmin", "TopicDescription"]
