"""The dev broker: an embedded, in-process Kafka broker that speaks the real protocol on real TCP.

Connections, and calls of ``DevBroker`` and its ``Controls``, come in; responses, logs and faults go out. Kafka's
counterpart is ``KafkaRaftServer``, and everything else in this package has the name of its counterpart too
(``SocketServer``, ``RequestChannel``, ``KafkaRequestHandler``, ...). Nothing here imports the client or the producer,
so each is a true test of the other, and nothing is imported until a name is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .config import BrokerConfig
    from .controls import Controls
    from .dev_broker import DevBroker
    from .faults.fault_schedule import FaultSchedule
    from .listeners import Listener

__all__ = ["BrokerConfig", "Controls", "DevBroker", "FaultSchedule", "Listener"]

_HOMES = {
    "BrokerConfig": "config",
    "Controls": "controls",
    "DevBroker": "dev_broker",
    "FaultSchedule": "faults.fault_schedule",
    "Listener": "listeners",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
