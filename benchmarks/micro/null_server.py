"""A ``NullBroker`` in a process of its own, at the other end of a real socket: so that the cost of TLS to a client is
included.

``serving(topics)`` starts it and gives a client's options; it ends with the block. The process makes its certificates
itself, says on standard output how it is reached, and lives until its standard input ends. So callgrind, which follows
no children, counts the client alone.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.testing import TestCertificates

from .null_broker import NullBroker

__all__ = ["main", "serving"]

ROOT: Final = Path(__file__).parents[2]
_FRAME_LIMIT: Final = 100 * 1024 * 1024


@contextmanager
def serving(topics: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Options by which a producer reaches a broker with these topics, over TLS."""
    command = [sys.executable, "-m", __spec__.name, json.dumps(dict(topics))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the null broker's process ended")
            yield json.loads(line)
        finally:
            process.stdin.close()


class _Connection(asyncio.Protocol):
    def __init__(self, broker: NullBroker) -> None:
        self._broker = broker
        self._decoder = FrameDecoder(_FRAME_LIMIT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if int.from_bytes(frame[:2]) == ApiKey.PRODUCE:
                answer = self._broker.produce_answer([len(frame).to_bytes(4) + frame])
            else:
                answer = self._broker.answer(frame)
            self._transport.write(answer)


async def _serve(topics: Mapping[str, int], certificates: TestCertificates) -> None:
    broker = NullBroker(topics)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_file)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(broker), "127.0.0.1", 0, ssl=context)
    broker.port = server.sockets[0].getsockname()[1]
    options = {"bootstrap_servers": f"127.0.0.1:{broker.port}", **certificates.client_options()}
    print(json.dumps(options), flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main(topics: Mapping[str, int]) -> None:
    """The process: serve until standard input ends."""
    import uvloop

    with TestCertificates() as certificates:
        uvloop.run(_serve(topics, certificates))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
