"""The state of each node, and the decisions that follow from it: connection states, versions, requests in flight.

Pure: no asyncio, no clock. Kafka's counterparts are ``ClusterConnectionStates``, ``NodeApiVersions`` and
``InFlightRequests``.
"""
