"""Per-node state and the decisions made from it: connection states, API versions, requests in flight.

Events of connections come in, with the time; which node takes a request now, and when the next deadline is, go out.
Pure: no asyncio, no clock. Kafka's counterparts are ``ClusterConnectionStates``, ``NodeApiVersions`` and
``InFlightRequests``.
"""
