"""Where a network client stands, and where it may go from there."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..states import StateTable

__all__ = ["ACTIVE", "NETWORK_CLIENT_STATES", "NetworkClientState"]


class NetworkClientState(Enum):
    """Where the client stands."""

    ACTIVE = "active"
    CLOSING = "closing"
    CLOSED = "closed"


_S = NetworkClientState

ACTIVE: Final = _S.ACTIVE
"""Looked up once: reading a member off its class costs more than the rest of the question whether it is."""

NETWORK_CLIENT_STATES: Final = StateTable(
    "network client", _S.ACTIVE, {_S.ACTIVE: {_S.CLOSING}, _S.CLOSING: {_S.CLOSED}, _S.CLOSED: set()}
)
