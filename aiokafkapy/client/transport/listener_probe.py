"""Finds out which kind of listener is at an address, after it closed a connection without answering.

Owns the three probes and the distinction of their answers. A plaintext listener takes the beginning of a TLS
handshake for a frame that is too large, and a TLS listener does not take a request for a handshake; both just close, as
a broker that is going down does. One question in the other language settles it. A listener with SASL reports its
versions to every client, but closes the connection silently at any other request before authentication. It answers
SaslHandshake with its mechanisms; a listener without SASL answers it with ILLEGAL_SASL_STATE. Nothing secret is sent.
Java has no counterpart: its clients try again until they are stopped.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from ...errors import ProtocolError, UnsupportedSaslMechanismError
from ...protocol.api import ApiKey
from ...protocol.codec import decode_response, encode_request
from ...protocol.messages import build_request
from ...sockets import current_network
from ..nodes.api_versions import build_api_versions_request
from ..nodes.connection_states import Address
from .dialers import Dialer

__all__ = ["sasl_mechanisms", "speaks_plaintext", "speaks_tls"]

_PATIENCE: Final = 2.0
"""Seconds for connecting and for the answer."""
_CORRELATION_ID: Final = 0x6B61666B
_ENOUGH: Final = 8
"""Bytes: a frame's size and its correlation id; a TLS record's kind is in the first two."""
_SASL_HANDSHAKE_VERSION: Final = 1
_ANY_MECHANISM: Final = "PLAIN"
"""Any name will do: brokers answer with the mechanisms that they have."""
_LARGEST_ANSWER: Final = 65_536
_TLS_RECORDS: Final = (0x15, 0x16)
"""An alert, a handshake."""


async def speaks_plaintext(loop: asyncio.AbstractEventLoop, dialer: Dialer, address: Address) -> bool:
    """True when a Kafka request without TLS is answered at ``address``."""
    question = encode_request(build_api_versions_request(0), _CORRELATION_ID, None)
    answer = await _answer(loop, dialer, address, question)
    return answer[4:8] == _CORRELATION_ID.to_bytes(4, "big")


async def speaks_tls(loop: asyncio.AbstractEventLoop, dialer: Dialer, address: Address) -> bool:
    """True when the beginning of a TLS handshake is answered at ``address``."""
    if (network := current_network()) is not None:
        return await network.speaks_tls()
    answer = await _answer(loop, dialer, address, _client_hello())
    return len(answer) >= 2 and answer[0] in _TLS_RECORDS and answer[1] == 3


async def sasl_mechanisms(
    dialer: Dialer, address: Address, context: ssl.SSLContext | None, peer_name: str
) -> list[str] | None:
    """The mechanisms of the listener at ``address``, asked for over TLS if there is a context; None when it has no
    SASL, or does not answer.
    """
    if (network := current_network()) is not None:
        return await network.sasl_mechanisms()
    body = build_request(ApiKey.SASL_HANDSHAKE, _SASL_HANDSHAKE_VERSION, mechanism=_ANY_MECHANISM)
    question = encode_request(body, _CORRELATION_ID, None)
    try:
        async with asyncio.timeout(_PATIENCE):
            frame = await _first_frame(await dialer.open(address), question, context, peer_name)
            _, answer = decode_response(ApiKey.SASL_HANDSHAKE, _SASL_HANDSHAKE_VERSION, frame)
    except (OSError, EOFError, ProtocolError):  # OSError: also the time-out
        return None
    known = (0, UnsupportedSaslMechanismError.code)
    return sorted(answer.mechanisms) if answer.error_code in known else None


# internals


async def _first_frame(sock: socket.socket, question: bytes, context: ssl.SSLContext | None, peer_name: str) -> bytes:
    """The frame that answers ``question``, without its size; the socket is closed in the end."""
    try:
        server_hostname = None if context is None else peer_name
        reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=server_hostname)
    except BaseException:
        sock.close()
        raise
    try:
        writer.write(question)
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(min(size, _LARGEST_ANSWER))
    finally:
        writer.transport.abort()


def _client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="kafka").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


async def _answer(loop: asyncio.AbstractEventLoop, dialer: Dialer, address: Address, question: bytes) -> bytes:
    """The first bytes of the answer; empty without one."""
    answer = b""
    if current_network() is not None:
        return answer
    try:
        async with asyncio.timeout(_PATIENCE):
            with await dialer.open(address) as sock:
                await loop.sock_sendall(sock, question)
                while len(answer) < _ENOUGH and (data := await loop.sock_recv(sock, _ENOUGH - len(answer))):
                    answer += data
    except OSError:  # also the time-out
        pass
    return answer
