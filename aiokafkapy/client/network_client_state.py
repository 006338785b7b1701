"""The life cycle of a network client, as a state table."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..states import StateTable

__all__ = ["ACTIVE", "NETWORK_CLIENT_STATES", "NetworkClientState"]


class NetworkClientState(Enum):
    """The states of a network client."""

    ACTIVE = "active"
    CLOSING = "closing"
    CLOSED = "closed"


_S = NetworkClientState

ACTIVE: Final = _S.ACTIVE
"""Looked up once: reading the member off its class costs more than the rest of ``is_active``."""

NETWORK_CLIENT_STATES: Final = StateTable(
    "network client", _S.ACTIVE, {_S.ACTIVE: {_S.CLOSING}, _S.CLOSING: {_S.CLOSED}, _S.CLOSED: set()}
)
