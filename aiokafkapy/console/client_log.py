"""``ClientLog``: the finished requests of a dev broker's clients, and the clients themselves.

Owns the facts of each connection that only its requests tell: the client id, versions, throttling. ``note`` is called
for every request, so it does little: a row is made only for those that ``RequestLog`` keeps.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

from ..broker.network.client_connection import ClientConnection, MuteState
from ..broker.network.request_channel import Response, ResponseAction
from ..errors import for_code
from ..protocol.api import api_name
from ..protocol.writer import error_codes
from .model import Client, RequestRow
from .rates import Meters
from .request_log import RequestLog

__all__ = ["ClientLog"]

MOST_LOOKED_AT: Final = 64
"""The most entries of an answer that are searched for an error."""
_STATES: Final = {
    MuteState.NOT_MUTED: "idle",
    MuteState.MUTED: "waiting",
    MuteState.MUTED_AND_RESPONSE_PENDING: "request in progress",
    MuteState.MUTED_AND_THROTTLED: "throttled",
    MuteState.CLOSED: "closed",
}


class _Connection:
    __slots__ = ("client_id", "requests", "throttle_ms", "versions")

    def __init__(self) -> None:
        self.client_id = ""
        self.requests = 0
        self.throttle_ms = 0.0
        self.versions: dict[str, int] = {}


class ClientLog:
    """Notes requests, in the log and by connection."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._connections: dict[str, _Connection] = {}
        self._meters = Meters()

    def note(self, node_id: int, response: Response, sent: float) -> None:
        """A request is over: count it. ``sent`` is of ``time.monotonic()``."""
        request = response.request
        header, info = request.header, request.connection.info
        api = api_name(request.api_key)
        known = self._connections.get(info.connection_id)
        if known is None:
            known = self._connections[info.connection_id] = _Connection()
        known.requests += 1
        known.throttle_ms = response.throttle * 1000
        if header is not None:
            known.client_id = header.client_id or ""
            known.versions[api] = header.api_version
        outcome = "closed" if response.action is ResponseAction.CLOSE else _outcome(request.answer)
        total_ms = (sent - request.received) * 1000

        def row(number: int) -> RequestRow:
            return RequestRow(
                number=number,
                at_ms=int(time.time() * 1000),
                node_id=node_id,
                client_id=known.client_id,
                connection_id=info.connection_id,
                api=api,
                version=-1 if header is None else header.api_version,
                size=len(request.buffer),
                answer_size=len(response.buffer),
                queue_ms=_ms(request.dequeued - request.received),
                local_ms=_ms(request.handled - request.dequeued),
                remote_ms=_ms(request.answered - request.handled),
                send_ms=_ms(sent - request.answered),
                throttle_ms=round(response.throttle * 1000, 3),
                total_ms=round(total_ms, 3),
                outcome=outcome,
            )

        self._log.note(api, total_ms, is_error=outcome != "ok", now=sent, row=row)

    def forget_all_but(self, connection_ids: Collection[str]) -> None:
        """Forget connections that are gone."""
        for gone in self._connections.keys() - set(connection_ids):
            del self._connections[gone]

    def clients(self, connections: Sequence[tuple[int, ClientConnection]]) -> list[Client]:
        """The open connections, in the form of the page."""
        found = [(node_id, each, self._known(each)) for node_id, each in connections]
        now = time.monotonic()
        rates = self._meters.update({each.info.connection_id: known.requests for _, each, known in found}, now)
        return sorted(
            (_client(node_id, each, known, rates[each.info.connection_id]) for node_id, each, known in found),
            key=lambda client: (client.client_id, client.connection_id),
        )

    def _known(self, connection: ClientConnection) -> _Connection:
        return self._connections.get(connection.info.connection_id) or _Connection()


# internals


def _client(node_id: int, connection: ClientConnection, known: _Connection, rate: float) -> Client:
    info = connection.info
    return Client(
        connection_id=info.connection_id,
        node_id=node_id,
        client_id=known.client_id,
        software=info.software,
        principal=info.principal,
        listener=info.listener,
        protocol=info.security_protocol,
        state=_STATES[connection.state],
        requests=known.requests,
        requests_per_second=round(rate, 1),
        throttle_ms=round(known.throttle_ms, 1),
        versions=dict(sorted(known.versions.items())),
    )


def _ms(seconds: float) -> float:
    return round(max(0.0, seconds) * 1000, 3)


def _outcome(answer: object) -> str:
    code = next(error_codes(answer, MOST_LOOKED_AT), 0)
    return for_code(code).__name__ if code else "ok"
