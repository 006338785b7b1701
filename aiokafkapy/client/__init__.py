"""The network client: connections to brokers, requests in flight on them, API versions, fresh metadata.

The deciding half (``connection_states``, ``in_flight_requests``, ``api_versions``, ``least_loaded_node``, ``config``)
is pure; the asyncio half (``connection``, ``connector``, ``metadata_updater``, ``network_client``) is thin. Import
from the modules.
"""
