"""What is known of each node, and what follows from it: connection states, versions, requests in flight.

Pure: no asyncio, no clock. Kafka's counterparts are ``ClusterConnectionStates``, ``NodeApiVersions`` and
``InFlightRequests``.
"""
