"""The client's view of the cluster, which is immutable, how responses are merged into it, and when to update it.

In come Metadata responses, leader hints and failures; out go ``Cluster`` snapshots and the time of the next request.
Pure: no asyncio, no socket, no clock; ``now`` is an argument. Kafka's counterparts are ``Metadata``,
``MetadataSnapshot`` and ``Cluster``.
"""
