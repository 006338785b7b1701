"""The faults of a dev broker that are in force, as the page shows them.

Owns the reading of ``Controls.faults`` and of the broker's own state; changes nothing.
"""

from __future__ import annotations

from ..common import JsonLike
from ..errors import for_code
from ..protocol.api import api_name
from .shown_broker import ShownBroker

__all__ = ["faults_in_force"]


def faults_in_force(broker: ShownBroker) -> dict[str, JsonLike]:
    """The faults as JSON's types, without used-up ones."""
    faults, state = broker.controls.faults, broker.state
    running = {node.node_id for node in broker.running_nodes}
    return {
        "armed": [
            {
                "name": each.name,
                "api": api_name(each.api_key),
                "error": None if each.code is None else for_code(each.code).__name__,
                "topic": each.topic,
                "partition": each.partition,
                "after": each.after,
                "remaining": each.remaining,
            }
            for each in faults.armed
            if each.remaining != 0
        ],
        "delays": {api_name(api): seconds for api, seconds in faults.delays.items() if seconds},
        "throttles": [
            {"client_id": client_id, "ms": round(seconds * 1000)}
            for client_id, seconds in faults.throttles.items()
            if seconds
        ],
        "functions": sorted(api_name(api) for api in faults.interceptors),
        "stalled_nodes": broker.stalled_nodes,
        "stopped_nodes": [node.node_id for node in broker.nodes if node.node_id not in running],
        "moved_coordinators": dict(state.coordinators.moved),
        "is_holding_transactions": state.transactions.is_holding,
        "is_refusing_authentication": state.authentication.is_refusing,
        "has_sasl": any("SASL" in name for name in broker.protocols),
        "has_tls": any("SSL" in name.replace("SASL", "") for name in broker.protocols),
    }
