"""Per-node state and the decisions made from it: connection states, API versions, requests in flight.

Pure: no asyncio, no clock. Kafka's counterparts are ``ClusterConnectionStates``, ``NodeApiVersions`` and
``InFlightRequests``.
"""
