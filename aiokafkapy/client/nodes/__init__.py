"""Per-node state and the decisions made from it: connection states, API versions, requests in flight.

Events of connections come in, with the time; the node to take a request now, and the next deadline, go out.
Pure: no asyncio, no clock. Kafka's counterparts are ``ClusterConnectionStates``, ``NodeApiVersions`` and
``InFlightRequests``.
"""
