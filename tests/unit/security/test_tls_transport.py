"""Both halves of TLS without sockets, against a half that is not our code; then a client's on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pytest

from aiokafkapy.common import Buffer
from aiokafkapy.security.tls_transport import TLS_STATES, TlsState, TlsTransport, connect_tls
from aiokafkapy.testing import TestCertificates
from tests.tcp_servers import tcp_server

Half = Literal["client", "server"]
Change = Callable[[ssl.SSLContext], object]

PIECE = 64 * 1024
RECORD = 16 * 1024
HEADER = 5
ENCRYPTED_PIECE = PIECE + 4 * 64
"""The size of a piece, with the overhead of four records."""


class Socket(asyncio.Transport):
    """The bytes that the other side would get. It keeps those over ``room``, as a socket's transport with a limit of 0
    does.
    """

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 9093)})
        self.protocol: Any = None
        self.written = b""
        self.kept = b""
        self.room: float = float("inf")
        self.end = ""
        self.is_paused = False
        self.limits: tuple[int | None, int | None] | None = None

    def write(self, data: Any) -> None:
        assert not self.end
        assert data
        was_kept = bool(self.kept)
        self.kept += data
        self._take()
        if self.kept and not was_kept:
            self.protocol.pause_writing()

    def drain(self, room: float = float("inf")) -> None:
        """The other side reads: there is room for so much more."""
        self.room = room
        was_kept = bool(self.kept)
        self._take()
        if was_kept and not self.kept:
            self.protocol.resume_writing()

    def _take(self) -> None:
        taken = int(min(len(self.kept), self.room))
        self.written += self.kept[:taken]
        self.kept = self.kept[taken:]
        self.room -= taken

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"


class Connection(asyncio.Protocol):
    """A protocol that notes its calls, and does something at one of them."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.at_data: Callable[[], object] = lambda: None
        self.at_made: Callable[[], object] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")
        self.at_made()

    def data_received(self, data: bytes) -> None:
        self.told.append(data)
        self.at_data()

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(("lost", exc))

    @property
    def data(self) -> bytes:
        return b"".join(told for told in self.told if isinstance(told, bytes))


class Pair:
    """The transport as ``half``, and the other half by ``ssl`` alone; ``server`` and ``client`` change the contexts."""

    def __init__(
        self,
        certificates: TestCertificates,
        half: Half,
        version: str = "TLSv1.3",
        *,
        client: Change = lambda context: None,
        server: Change = lambda context: None,
        host: str = "localhost",
        timeout: float = 60.0,
    ) -> None:
        contexts = {"client": _client(certificates), "server": _server(certificates)}
        for name, change in (("client", client), ("server", server)):
            contexts[name].minimum_version = contexts[name].maximum_version = _version(version)
            change(contexts[name])
        self.half = half
        self.connection = Connection()
        self.done: list[OSError | None] = []
        self.done_once = asyncio.Event()
        self.socket = Socket()
        self.context = contexts[half]
        self.transport = TlsTransport(
            self.context, self.connection, timeout, self._note, host if half == "client" else None
        )
        self.socket.protocol = self.transport
        self._to_peer, self._to_us = ssl.MemoryBIO(), ssl.MemoryBIO()
        other = contexts["server" if half == "client" else "client"]
        self.peer = other.wrap_bio(
            self._to_peer,
            self._to_us,
            server_side=half == "client",
            server_hostname="localhost" if half == "server" else None,
        )
        self.peer_error: ssl.SSLError | None = None
        self.is_peer_ready = False

    def _note(self, error: OSError | None) -> None:
        self.done.append(error)
        self.done_once.set()

    def begin(self) -> None:
        self.transport.connection_made(self.socket)

    def carry_to_peer(self) -> None:
        self._to_peer.write(self.socket.written)
        self.socket.written = b""

    def carry_to_us(self, at_once: int | None = None) -> None:
        """The peer's bytes, ``at_once`` at a time."""
        data = self._to_us.read()
        for start in range(0, len(data), at_once or max(1, len(data))):
            self.transport.data_received(data[start : start + (at_once or len(data))])

    def advance_peer(self) -> None:
        try:
            if not self.is_peer_ready:
                self.peer.do_handshake()
                self.is_peer_ready = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.peer_error = self.peer_error or error

    def shake_hands(self, at_once: int | None = None) -> None:
        """Carry both handshakes as far as they go."""
        self.begin()
        for _ in range(4):
            self.carry_to_peer()
            self.advance_peer()
            if not self.socket.end:
                self.carry_to_us(at_once)

    def say(self, data: bytes, at_once: int | None = None) -> None:
        self.peer.write(data)
        self.carry_to_us(at_once)

    def heard(self) -> bytes:
        """All that the peer can read."""
        self.carry_to_peer()
        found = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while chunk := self.peer.read(RECORD):
                found += chunk
        return found


def _client(certificates: TestCertificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.ca_file))


def _server(certificates: TestCertificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_file)
    context.load_verify_locations(certificates.ca_file)
    return context


def _version(name: str) -> ssl.TLSVersion:
    return {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[name]


def _wants_certificate(context: ssl.SSLContext) -> None:
    context.verify_mode = ssl.CERT_REQUIRED


@pytest.fixture(scope="module")
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as made:
        yield made


both_halves = pytest.mark.parametrize("half", ["client", "server"])
both_versions = pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])


@both_halves
@both_versions
@pytest.mark.parametrize("at_once", [None, 1, 100])
async def test_bytes_go_both_ways_after_a_handshake_in_any_fragments(
    certificates: TestCertificates, half: Half, version: str, at_once: int | None
) -> None:
    pair = Pair(certificates, half, version)
    pair.shake_hands(at_once)
    assert (pair.done, pair.connection.told, pair.peer_error) == ([None], ["made"], None)
    assert pair.peer.version() == version
    said = b""
    for message in (b"one", b"two" * 10_000, b"x"):
        pair.say(message, at_once)
        said += message
        assert pair.connection.data == said
        pair.transport.write(message)
        assert pair.heard() == message
    pair.transport.connection_lost(None)
    assert pair.connection.told[-1] == ("lost", None)
    assert pair.done == [None]


async def test_the_bytes_that_come_with_the_last_flight_are_read(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "server")
    pair.begin()
    pair.advance_peer()
    pair.carry_to_us()
    pair.carry_to_peer()
    pair.advance_peer()
    pair.say(b"request")
    assert pair.connection.told == ["made", b"request"]


async def test_several_records_of_one_read_come_in_order(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    sent = b"".join(bytes((number,)) * (number * 997) for number in range(1, 20))
    pair.peer.write(sent[:1_000])
    pair.peer.write(sent[1_000:])
    pair.carry_to_us()
    assert pair.connection.data == sent


@both_halves
@pytest.mark.parametrize(
    "sizes",
    [
        (0, 1, 0),
        (20, 300, 5),
        (RECORD,),
        (RECORD, 1),
        (100, PIECE, 7),
        (PIECE + 1, 3, 3, PIECE * 3 + 17, 9),
        (40_000,) * 5,
        (1,) * 100,
    ],
    ids=str,
)
async def test_buffers_of_any_size_arrive_whole(
    certificates: TestCertificates, half: Half, sizes: Sequence[int]
) -> None:
    pair = Pair(certificates, half)
    pair.shake_hands()
    kinds: list[Callable[[bytes], Buffer]] = [bytes, bytearray, memoryview]
    buffers = [kinds[place % 3](bytes((place % 256,)) * size) for place, size in enumerate(sizes)]
    pair.transport.writelines(buffers)
    assert pair.heard() == b"".join(buffers)
    assert pair.connection.told == ["made"]
    assert pair.transport.get_write_buffer_size() == 0


async def test_small_buffers_share_a_record(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    pair.carry_to_peer()
    pair.transport.writelines([b"size", b"head" * 20, memoryview(b"batch" * 100), b"\0"])
    length = int.from_bytes(pair.socket.written[3:HEADER])
    assert len(pair.socket.written) == HEADER + length


async def test_small_buffers_between_large_ones_share_a_record_too(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    pair.carry_to_peer()
    pair.transport.writelines([*([b"small"] * 100), bytes(PIECE), b"\0", b"\0"])
    lengths, data = [], pair.socket.written
    while data:
        length = HEADER + int.from_bytes(data[3:HEADER])
        lengths.append(length)
        data = data[length:]
    assert len(lengths) == 1 + PIECE // RECORD + 1


async def test_the_word_of_tls_itself_leaves_after_a_read(certificates: TestCertificates) -> None:
    """Such a word is the new key that OpenSSL leaves behind when it has read one of the other side's."""

    class Chatty(ssl.SSLObject):
        def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002  # the name is ssl's
            data = super().read(len, buffer)
            self.write(b"by the way")
            return data

    pair = Pair(certificates, "client", client=lambda context: setattr(context, "sslobject_class", Chatty))
    pair.shake_hands()
    pair.say(b"data")
    assert pair.heard() == b"by the way"


@both_halves
async def test_only_as_much_of_a_long_write_is_encrypted_as_the_socket_takes(
    certificates: TestCertificates, half: Half
) -> None:
    pair = Pair(certificates, half)
    pair.shake_hands()
    pair.carry_to_peer()
    head, body = b"head", bytes(range(256)) * 4 * 1_024
    pair.socket.room = 100_000
    pair.transport.writelines([head, body])
    assert pair.connection.told == ["made", "pause"]
    total = len(head) + len(body)
    heard = b""
    while pair.socket.kept:
        assert len(pair.socket.kept) <= ENCRYPTED_PIECE
        waiting = pair.transport.get_write_buffer_size()
        assert waiting <= total + 2_000
        heard += pair.heard()
        pair.socket.drain(100_000)
    assert heard + pair.heard() == head + body
    assert pair.connection.told == ["made", "pause", "resume"]
    assert pair.transport.get_write_buffer_size() == 0


async def test_bytes_written_while_the_socket_takes_nothing_wait_their_turn(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    pair.carry_to_peer()
    pair.socket.room = 0
    pair.transport.write(b"first")
    pair.transport.writelines([b"second", b"third"])
    assert pair.connection.told == ["made", "pause"]
    assert pair.transport.get_write_buffer_size() > len(b"firstsecondthird")
    pair.socket.drain()
    assert pair.heard() == b"firstsecondthird"
    assert pair.connection.told == ["made", "pause", "resume"]


async def test_a_socket_that_takes_nothing_in_the_handshake_pauses_the_connection_once_it_is_made(
    certificates: TestCertificates,
) -> None:
    pair = Pair(certificates, "client")
    pair.begin()
    pair.carry_to_peer()
    pair.advance_peer()
    pair.socket.room = 0
    pair.carry_to_us()
    assert pair.connection.told == ["made", "pause"]
    pair.socket.drain()
    assert pair.connection.told == ["made", "pause", "resume"]


async def test_a_write_that_has_to_wait_for_the_other_side_is_kept_and_done_after_the_next_read(
    certificates: TestCertificates,
) -> None:
    """A user's context that negotiates anew has to wait so."""

    class Waiting(ssl.SSLObject):
        waits = 0

        def write(self, data: Any) -> int:
            if self.waits:
                self.waits -= 1
                raise ssl.SSLWantReadError
            return super().write(data)

    pair = Pair(certificates, "client", client=lambda context: setattr(context, "sslobject_class", Waiting))
    pair.shake_hands()
    pair.heard()
    pair.transport.get_extra_info("ssl_object").waits = 1
    pair.transport.writelines([b"one", b"two"])
    assert pair.heard() == b""
    assert pair.connection.told == ["made", "pause"]
    pair.say(b"come on")
    assert pair.heard() == b"onetwo"
    assert pair.connection.told == ["made", "pause", b"come on", "resume"]


@pytest.mark.parametrize("wrong", ["text", [1, 2], 7])
async def test_an_invalid_buffer_is_a_type_error(certificates: TestCertificates, wrong: Any) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    with pytest.raises(TypeError):
        pair.transport.write(wrong)


@both_halves
@both_versions
async def test_an_other_side_that_ends_tls_is_heard_to_the_end_answered_and_closed(
    certificates: TestCertificates, half: Half, version: str
) -> None:
    pair = Pair(certificates, half, version)
    pair.shake_hands()
    pair.heard()
    pair.peer.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.peer.unwrap()
    pair.carry_to_us()
    assert pair.connection.told == ["made", b"last"]
    assert pair.socket.end == "closed"
    pair.carry_to_peer()
    pair.peer.unwrap()
    pair.transport.write(b"too late")
    pair.transport.connection_lost(None)
    assert pair.connection.told[2:] == [("lost", None)]


async def test_nothing_waits_at_the_end_for_an_other_side_that_reads_nothing(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "server")
    pair.shake_hands()
    pair.socket.room = 0
    pair.transport.write(b"response")
    with pytest.raises(ssl.SSLWantReadError):
        pair.peer.unwrap()
    pair.carry_to_us()
    assert pair.socket.end == "aborted"


@both_halves
@both_versions
@pytest.mark.parametrize("at_once", [None, 1])
async def test_bytes_that_are_not_tls_end_the_connection_with_an_alert_and_that_reason(
    certificates: TestCertificates, half: Half, version: str, at_once: int | None
) -> None:
    pair = Pair(certificates, half, version)
    pair.shake_hands()
    pair.heard()
    garbage = b"\x17\x03\x03\x00\x20" + b"x" * 32
    for start in range(0, len(garbage), at_once or len(garbage)):
        pair.transport.data_received(garbage[start : start + (at_once or len(garbage))])
    assert pair.socket.end == "closed"
    with pytest.raises(ssl.SSLError, match=r"(?i)alert bad record mac"):
        pair.heard()
    pair.transport.connection_lost(None)
    name, error = pair.connection.told[-1]
    assert (name, type(error)) == ("lost", ssl.SSLError)
    assert pair.done == [None]


@both_halves
@both_versions
async def test_bytes_that_are_not_tls_in_the_handshake_are_its_failure(
    certificates: TestCertificates, half: Half, version: str
) -> None:
    pair = Pair(certificates, half, version)
    pair.begin()
    pair.transport.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    (error,) = pair.done
    assert isinstance(error, ssl.SSLError)
    assert pair.socket.end == "closed"
    pair.transport.connection_lost(None)
    assert pair.connection.told == []


async def test_a_refused_client_gets_the_alert_before_the_end_and_the_connection_is_never_made(
    certificates: TestCertificates,
) -> None:
    pair = Pair(certificates, "server", server=_wants_certificate)
    pair.shake_hands()
    with pytest.raises(ssl.SSLError) as raised:
        pair.heard()
    assert raised.value.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert pair.socket.end == "closed"
    pair.transport.connection_lost(None)
    assert pair.connection.told == []
    assert [type(error) for error in pair.done] == [ssl.SSLError]


async def test_a_certificate_that_is_refused_after_our_handshake_is_the_reason_of_the_loss(
    certificates: TestCertificates,
) -> None:
    """In TLS 1.3 a client is done before the server has looked at its certificate."""
    pair = Pair(certificates, "client", server=_wants_certificate)
    pair.shake_hands()
    assert pair.done == [None]
    assert pair.socket.end == "closed"
    pair.transport.connection_lost(None)
    assert pair.connection.told[0] == "made"
    _, error = pair.connection.told[-1]
    assert error.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


async def test_a_certificate_that_is_refused_in_the_handshake_is_its_failure(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client", "TLSv1.2", server=_wants_certificate)
    pair.shake_hands()
    (error,) = pair.done
    assert isinstance(error, ssl.SSLError)
    assert f"{error.reason}".endswith("ALERT_HANDSHAKE_FAILURE")
    assert pair.connection.told == []


@both_versions
@pytest.mark.parametrize("host", ["elsewhere.example", "localhost"])
async def test_a_server_that_is_refused_gets_an_alert(certificates: TestCertificates, version: str, host: str) -> None:
    """The server has another name, or another CA."""
    with TestCertificates() as others:
        chosen = others if host == "localhost" else certificates
        pair = Pair(
            certificates,
            "client",
            version,
            server=lambda context: context.load_cert_chain(chosen.server_file),
            host=host,
        )
        pair.shake_hands()
    (error,) = pair.done
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert error.verify_code == (62 if host == "elsewhere.example" else 20)
    assert pair.socket.end == "closed"
    pair.carry_to_peer()
    pair.advance_peer()
    if pair.peer_error is None:
        with pytest.raises(ssl.SSLError) as raised:
            pair.heard()
        pair.peer_error = raised.value
    assert "ALERT" in f"{pair.peer_error.reason}"
    assert pair.connection.told == []


@both_halves
@pytest.mark.parametrize("error", [None, BrokenPipeError("gone")], ids=repr)
@pytest.mark.parametrize("is_begun", [False, True])
async def test_an_other_side_that_goes_away_in_the_handshake_is_its_failure_once(
    certificates: TestCertificates, half: Half, error: OSError | None, is_begun: bool
) -> None:
    pair = Pair(certificates, half)
    pair.begin()
    if is_begun:
        pair.carry_to_peer()
        pair.advance_peer()
        data = pair._to_us.read()
        pair.transport.data_received(data[: len(data) // 2])
    pair.transport.eof_received()
    pair.transport.connection_lost(error)
    assert [type(each) for each in pair.done] == [ConnectionResetError if error is None else BrokenPipeError]
    assert pair.connection.told == []


@both_halves
async def test_a_handshake_that_takes_too_long_is_over(certificates: TestCertificates, half: Half) -> None:
    pair = Pair(certificates, half, timeout=0.0)
    pair.begin()
    await pair.done_once.wait()
    (error,) = pair.done
    assert isinstance(error, ConnectionAbortedError)
    assert "longer than 0 seconds" in str(error)
    assert pair.socket.end == "aborted"
    pair.transport.connection_lost(None)
    assert (len(pair.done), pair.connection.told) == (1, [])


@both_halves
async def test_a_handshake_that_is_done_in_time_is_not_over_later(certificates: TestCertificates, half: Half) -> None:
    pair = Pair(certificates, half, timeout=0.0)
    pair.shake_hands()
    after = asyncio.Event()
    asyncio.get_running_loop().call_later(0.0, after.set)  # later than the handshake's own time
    await after.wait()
    assert (pair.done, pair.socket.end) == ([None], "")


async def test_a_socket_that_comes_after_the_abort_is_aborted(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.transport.abort()
    pair.begin()
    await asyncio.sleep(0)
    assert (pair.socket.end, pair.socket.written, pair.done) == ("aborted", b"", [])


@both_halves
@pytest.mark.parametrize("moment", ["before", "begun", "made", "open", "waiting", "ended"])
async def test_an_abort_at_any_moment_ends_it_and_tells_only_a_connection_that_was_made(
    certificates: TestCertificates, half: Half, moment: str
) -> None:
    pair = Pair(certificates, half)
    if moment == "made":
        pair.connection.at_made = pair.transport.abort
    if moment == "before":
        pair.transport.abort()
        pair.begin()
    elif moment == "begun":
        pair.begin()
    else:
        pair.shake_hands()
    if moment == "waiting":
        pair.socket.room = 0
        pair.transport.write(b"x" * 200_000)
    if moment == "ended":
        pair.transport.connection_lost(None)
    pair.transport.abort()
    assert pair.socket.end == "aborted"
    assert pair.transport.is_closing()
    assert pair.transport.get_write_buffer_size() == len(pair.socket.kept)
    pair.transport.write(b"dropped")
    pair.transport.data_received(b"dropped")
    pair.transport.connection_lost(None)
    pair.transport.abort()
    is_made = moment not in ("before", "begun")
    assert pair.done == ([None] if is_made else [])
    assert pair.connection.told.count(("lost", None)) == is_made


async def test_an_abort_between_two_records_drops_the_second(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.shake_hands()
    pair.connection.at_data = pair.transport.abort
    pair.peer.write(b"one")
    pair.peer.write(b"two")
    pair.carry_to_us()
    assert pair.connection.told == ["made", b"one"]


async def test_a_pause_between_two_records_pauses_the_socket_and_keeps_nothing(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "server")
    pair.shake_hands()
    pair.connection.at_data = pair.transport.pause_reading
    pair.peer.write(b"one")
    pair.peer.write(b"two")
    pair.carry_to_us()
    assert pair.connection.told == ["made", b"one", b"two"]
    assert (pair.socket.is_paused, pair.transport.is_reading()) == (True, False)
    pair.transport.resume_reading()
    assert pair.transport.is_reading()


@both_halves
@both_versions
async def test_closing_writes_the_waiting_bytes_and_then_the_end_of_tls(
    certificates: TestCertificates, half: Half, version: str
) -> None:
    pair = Pair(certificates, half, version)
    pair.shake_hands()
    pair.heard()
    pair.socket.room = 0
    pair.transport.write(b"x" * 200_000)
    pair.transport.close()
    pair.transport.write(b"too late")
    assert (pair.socket.end, pair.transport.is_closing()) == ("", True)
    pair.socket.drain()
    assert pair.socket.end == "closed"
    assert pair.heard() == b"x" * 200_000
    pair.peer.unwrap()
    pair.transport.connection_lost(None)
    assert pair.connection.told[-1] == ("lost", None)


async def test_closing_in_the_handshake_is_an_abort(certificates: TestCertificates) -> None:
    pair = Pair(certificates, "client")
    pair.begin()
    pair.transport.close()
    assert pair.socket.end == "aborted"


@both_halves
async def test_extra_info_is_that_of_tls_and_of_the_socket(certificates: TestCertificates, half: Half) -> None:
    pair = Pair(certificates, half)
    was_connected = pair.transport.was_connected
    assert pair.transport.get_extra_info("peername", "none yet") == "none yet"
    pair.shake_hands()
    assert (was_connected, pair.transport.was_connected) == (False, True)
    info = pair.transport.get_extra_info
    assert info("ssl_object").version() == "TLSv1.3"
    assert bool(info("peercert")) == (half == "client")
    assert info("peername") == ("10.0.0.1", 9093)
    pair.transport.set_write_buffer_limits(high=7, low=3)
    assert pair.socket.limits == (7, 3)


def test_a_connection_opens_once_and_closes_from_anywhere() -> None:
    assert set(TLS_STATES.successors) == set(TlsState)
    assert TLS_STATES.initial is TlsState.SHAKING_HANDS
    assert TLS_STATES.is_final(TlsState.CLOSED)
    assert TLS_STATES.can_follow(TlsState.SHAKING_HANDS, TlsState.OPEN)
    assert not TLS_STATES.can_follow(TlsState.OPEN, TlsState.SHAKING_HANDS)


# a client on a real socket


class Peer:
    """A listener that does one thing with each connection; ``with`` closes the accepted connections."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)

    async def client(self) -> tuple[socket.socket, socket.socket]:
        """A connection's two ends, the client's first."""
        loop = asyncio.get_running_loop()
        ours = socket.socket()
        ours.setblocking(False)
        await loop.sock_connect(ours, self.listener.getsockname())
        theirs, _ = await loop.sock_accept(self.listener)
        return ours, theirs


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    with made.listener:
        yield made


class Lost(Connection):
    def __init__(self) -> None:
        super().__init__()
        self.transport: Any = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set_result(exc)


async def _connect(ours: socket.socket, context: ssl.SSLContext, made: Connection, timeout: float = 60.0) -> None:
    """Connect as a connector does: uvloop leaves the socket of a transport that ends in ``connection_made``."""
    try:
        await connect_tls(
            asyncio.get_running_loop(),
            ours,
            lambda: made,
            context=context,
            server_hostname="localhost",
            handshake_timeout=timeout,
        )
    except BaseException:
        ours.close()
        raise


async def test_a_client_connects_sends_and_ends_on_a_real_socket(certificates: TestCertificates, peer: Peer) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(data)
        writer.close()

    ours = socket.socket()
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    async with tcp_server(echo, tls=_server(certificates)) as address:
        await loop.sock_connect(ours, address)
        made = Lost()
        await _connect(ours, _client(certificates), made)
        sent = b"x" * 3_000_000
        all_here = loop.create_future()

        def count() -> None:
            if len(made.data) == len(sent):
                all_here.set_result(None)

        made.at_data = count
        made.transport.writelines([b"x", sent[1:]])
        await asyncio.wait_for(all_here, 30)
        made.transport.close()
        assert await asyncio.wait_for(made.lost, 30) is None


async def test_a_cancelled_handshake_leaves_no_socket(certificates: TestCertificates, peer: Peer) -> None:
    ours, theirs = await peer.client()
    made = Connection()
    task = asyncio.ensure_future(_connect(ours, _client(certificates), made))
    with theirs:
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(theirs, 1)  # it has begun
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.wait_for(loop.sock_recv(theirs, 65_536), 30):
                pass
    assert made.told == []


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_at_any_turn_before_it_leaves_none(
    certificates: TestCertificates, peer: Peer, turns: int
) -> None:
    ours, theirs = await peer.client()
    made = Connection()
    task = asyncio.ensure_future(_connect(ours, _client(certificates), made))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if not turns:
        ours.close()  # it had not begun
    with theirs, contextlib.suppress(ConnectionResetError):
        while await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 65_536), 30):
            pass
    assert made.told == []


async def test_a_failed_handshake_leaves_no_socket(certificates: TestCertificates, peer: Peer) -> None:
    ours, theirs = await peer.client()
    with theirs:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(theirs, b"SSH-2.0-OpenSSH_9.2\r\n")
        with pytest.raises(ssl.SSLError):
            await _connect(ours, _client(certificates), Connection())
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.wait_for(loop.sock_recv(theirs, 65_536), 30):
                pass


async def test_a_context_that_cannot_begin_is_an_error_at_once(certificates: TestCertificates, peer: Peer) -> None:
    context = _client(certificates)
    context.maximum_version, context.minimum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    ours, theirs = await peer.client()
    with theirs:
        with pytest.raises(ssl.SSLError, match="NO_PROTOCOLS_AVAILABLE"):
            await _connect(ours, context, Connection())
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 65_536), 30):
                pass


async def test_a_silent_listener_is_given_up_in_time(certificates: TestCertificates, peer: Peer) -> None:
    ours, theirs = await peer.client()
    with theirs, pytest.raises(ConnectionAbortedError, match=r"longer than 0\.01 seconds"):
        await _connect(ours, _client(certificates), Connection(), 0.01)
