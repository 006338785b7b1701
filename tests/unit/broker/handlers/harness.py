"""The handlers of a cluster on their own: requests and responses go through the codec, and through no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from aiokafkapy.broker.clock import WallClock
from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.context import BrokerState, ConnectionInfo, RequestContext
from aiokafkapy.broker.controls import Controls
from aiokafkapy.broker.coordination.group_coordinator import GroupCoordinator
from aiokafkapy.broker.coordination.purgatory import Purgatory
from aiokafkapy.broker.coordination.transaction_coordinator import TransactionCoordinator
from aiokafkapy.broker.coordination.transaction_markers import TransactionMarkers
from aiokafkapy.broker.features import Features
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.handlers.registry import CLOSE_CONNECTION, NO_RESPONSE
from aiokafkapy.broker.security.authentication import Authentication
from aiokafkapy.broker.storage.producer_state import ProducerIdManager
from aiokafkapy.broker.storage.topics import TopicRegistry
from aiokafkapy.common import Node
from aiokafkapy.errors import KafkaError
from aiokafkapy.protocol.codec import decode_request, decode_response, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request

from ..support import VirtualScheduler

__all__ = ["Harness", "OpenHarness"]


class Harness:
    """The handlers of a cluster without sockets; requests and responses go through the codec."""

    def __init__(self, nodes: int = 3, *, data_dir: Path | None = None, **config: Any) -> None:
        self.scheduler = VirtualScheduler()
        loop = asyncio.get_running_loop()
        settings = BrokerConfig.of(**config)
        addresses = {node_id: Node(node_id, "localhost", 9091 + node_id) for node_id in range(1, nodes + 1)}
        self.controls = Controls(self)  # type: ignore[arg-type]
        topics = TopicRegistry(settings, list(addresses), data_dir=data_dir)
        clock = WallClock()
        groups = GroupCoordinator(settings, topics, data_dir=data_dir, scheduler=self.scheduler, clock=clock)
        producer_ids = ProducerIdManager(data_dir)
        purgatory = Purgatory(self.scheduler)
        markers = TransactionMarkers(topics, groups.offsets, purgatory.check, lambda: 0)
        self.state = BrokerState(
            config=settings,
            cluster_id="cluster",
            topics=topics,
            groups=groups,
            transactions=TransactionCoordinator(
                settings,
                markers,
                producer_ids.generate,
                now=self.scheduler.time(),
                features=Features(settings),
                data_dir=data_dir,
            ),
            producer_ids=producer_ids,
            purgatory=purgatory,
            faults=self.controls.faults,
            loop=loop,
            authentication=Authentication(settings, data_dir, lambda: 0),
            features=Features(settings),
            clock=clock,
            all_nodes=dict(addresses),
            running_nodes=dict(addresses),
            advertised={"PLAINTEXT": dict(addresses)},
        )
        self.state.topics.on_change = groups.share_partitions.on_available = purgatory.check
        self.topics = self.state.topics
        self.connection = ConnectionInfo("1", "PLAINTEXT", "127.0.0.1")

    def call(self, api: int, version: int, *, node_id: int = 1, **fields: Any) -> Any:
        """The response's body, or a future of it, or the mark that there is none."""
        header, body = decode_request(encode_request(build_request(api, version, **fields), 1, "client")[4:])
        context = RequestContext(node_id, header, self.connection, self.state)
        handler = dispatch_table()[api]
        assert handler.supports(version)
        try:
            answer = handler.handle(context, body)
        except KafkaError as error:
            answer = handler.error(context, body, error)
        if isinstance(answer, asyncio.Future):
            if not answer.done():
                return _Waiting(answer, lambda done: self.decoded(api, version, done))
            answer = answer.result()
        return self.decoded(api, version, answer)

    def fail(self, api: int, version: int, error: KafkaError, **fields: Any) -> Any:
        """The API's own error response."""
        header, body = decode_request(encode_request(build_request(api, version, **fields), 1, "client")[4:])
        context = RequestContext(1, header, self.connection, self.state)
        return self.decoded(api, version, dispatch_table()[api].error(context, body, error))

    @staticmethod
    def decoded(api: int, version: int, answer: Any) -> Any:
        """The answer as a client reads it."""
        if answer in (NO_RESPONSE, CLOSE_CONNECTION):
            return answer
        return decode_response(api, version, encode_response(answer, 1)[4:])[1]

    def coordinator_id(self, group_id: str) -> int:
        """The node to ask about a group."""
        node = self.state.coordinator_for(group_id)
        assert node is not None
        return node.node_id

    def close(self) -> None:
        """Close files and timers."""
        self.state.groups.close()
        self.state.purgatory.close()
        self.topics.close()


class _Waiting(asyncio.Future[Any]):
    """A request's answer that is still to come, as a client will read it."""

    def __init__(self, answer: asyncio.Future[Any], decoded: Callable[[Any], Any]) -> None:
        super().__init__()
        self._answer = answer
        self._decoded = decoded

    def done(self) -> bool:
        return self._answer.done()

    def result(self) -> Any:
        return self._decoded(self._answer.result())

    def cancel(self, msg: Any = None) -> bool:
        return self._answer.cancel(msg)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._answer
        return self.result()


OpenHarness = Callable[..., Harness]
