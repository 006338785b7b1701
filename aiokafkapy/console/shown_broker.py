"""``ShownBroker``: the part of a dev broker that the console knows and calls.

``DevBroker`` has it, and makes a console on request; so no module here imports ``DevBroker``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..broker.context import BrokerState
    from ..broker.controls import Controls
    from ..broker.emulation.model import Emulation
    from ..broker.network.client_connection import ClientConnection
    from ..broker.network.request_channel import RequestWatcher
    from ..common import Node

__all__ = ["ShownBroker"]


class ShownBroker(Protocol):
    """As ``DevBroker`` describes each."""

    @property
    def emulation(self) -> Emulation | None: ...

    @property
    def controls(self) -> Controls: ...

    @property
    def state(self) -> BrokerState: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def running_nodes(self) -> Sequence[Node]: ...

    @property
    def stalled_nodes(self) -> list[int]: ...

    @property
    def protocols(self) -> Sequence[str]: ...

    def connections(self) -> list[tuple[int, ClientConnection]]: ...

    def watch_requests(self, watcher: RequestWatcher | None) -> None: ...
