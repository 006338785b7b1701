"""The network client: connections to brokers, requests in flight on them, API versions, fresh metadata.

In come a ``ClientConfig``, the cluster's ``Metadata`` and requests; out go frames on sockets, and each request's
response or error. ``nodes`` is pure and decides; ``transport`` moves bytes. ``request_pipeline`` (writes requests,
hands responses back), ``api_versions_handshake`` (a connection's first exchange) and ``metadata_updater`` connect the
two; ``network_client`` is on top. Import from the modules. Kafka's counterpart is ``NetworkClient``.
"""
