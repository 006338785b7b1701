"""The client's view of the cluster, which is immutable, the merge of responses into it, and the times of its updates.

Metadata responses, leader hints and failures come in; ``Cluster`` snapshots and the time of the next request go out.
Pure: no asyncio, no socket, no clock; ``now`` is an argument. Kafka's counterparts are ``Metadata``,
``MetadataSnapshot`` and ``Cluster``.
"""
