"""The network client: connections to brokers, requests in flight on them, API versions, fresh metadata.

``nodes`` decides and is pure, ``transport`` moves bytes; between them ``request_pipeline`` (a request's way out and its
answer's way back), ``api_versions_handshake`` (a connection's first exchange), ``metadata_updater``, and above all
``network_client``. Import from the modules.
"""
