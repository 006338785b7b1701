"""Finds the recorded request that a request matches, and its response.

Owns the order in which a recording is played. Pure: frames come in, replies go out; it knows neither sockets nor a
clock.

Rules:

- A connection plays one that was recorded at the same address, in their order; only its first request for that broker
  alone settles which, since clients open several at once.
- On it, the requests of each API come in the recorded order. Requests of different APIs may come in another order:
  heartbeats and fetches are sent by the clock.
- A request without effects may be left out, or come more often than it was recorded: it then gets the last answer to
  the same request. A request that any broker can answer may come to any. Metadata for topics that were requested in
  another combination is put together from an answer that has them all, records and offsets of partitions from several.
  A fetch session that differs from the recording is ended, and its client goes on without one.
- A request that any broker can answer may lack an answer in the recording because its client had left. A client that
  stays gets an answer to the same request from elsewhere, at the time when the other had left.
- Any other request is a ``ReplayMismatchError``, which is kept, and ends its connection.
- SASL may be left out, so that a recording can be played without a password. If the replay has users (``logins``),
  SASL is carried out, by PLAIN and SCRAM. Otherwise its answers are the recorded ones, so only mechanisms whose
  answers have no proofs can be played: PLAIN and OAUTHBEARER. If the recording has no SASL, a client that asks for it,
  as ours does after a listener has closed its connection, gets ILLEGAL_SASL_STATE.
- The cluster ends a connection at the recorded point: when all earlier requests have come.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...common import format_address
from ...errors import IllegalSaslStateError, MalformedFrameError
from ...protocol.api import ApiKey, api_name, schema_versions
from ...protocol.codec import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_response,
)
from ...protocol.messages import build_response
from ..recording.hiding import NO_HEADER
from ..recording.recording import Conversation, Exchange, Recording
from .comparison import comparable, difference
from .fetch_sessions import Fetch, as_full_fetches, end_of_session
from .logins import Login, Logins
from .partitions import PARTED, Values, put_together

__all__ = ["Part", "ReplayMismatchError", "Reply", "Script"]

_GREETINGS: Final = frozenset({-1, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that do not identify their connection; -1 stands for SASL's bytes without a header."""

_ANYWHERE: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }
)
"""Any broker may answer, so a client asks any of them."""

_REPEATABLE: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
    }
)
"""Requests without effects, or sent by the clock; their number does not matter."""

_PLAYABLE_MECHANISMS: Final = ("PLAIN", "OAUTHBEARER")
_CORRELATION_ID: Final = struct.Struct(">I")


class ReplayMismatchError(Exception):
    """A request missing from the recording: ``expected`` and ``came`` are words; ``connection`` is the recording's, or
    None. ``address`` is the broker's in the recording.
    """

    def __init__(self, address: str, connection: int | None, expected: str, came: str, reason: str) -> None:
        where = f"connection {connection} to {address}" if connection is not None else f"a connection to {address}"
        detail = f": {reason}" if reason else ""
        super().__init__(f"{where}: expected {expected}, and {came} came{detail}")
        self.address = address
        self.connection = connection
        self.expected = expected
        self.came = came
        self.reason = reason


@dataclass(slots=True, frozen=True)
class Reply:
    """The recorded ``answer`` with the right correlation id, None for silence, and the seconds until it comes.

    ``exchange`` is the recorded exchange; None for a request that a recording need not contain. ``is_last``: the
    connection ends then.
    """

    exchange: Exchange | None
    answer: bytes | None
    delay: float
    is_last: bool = False


class Script:
    """A recording while it is played."""

    def __init__(self, recording: Recording, logins: Logins | None = None) -> None:
        self.recording = recording
        self.logins = logins
        self.mismatches: list[ReplayMismatchError] = []
        self._order = recording.exchanges
        self.has_sasl = any(each.api_key == ApiKey.SASL_HANDSHAKE for each in self._order)
        self._played: set[Exchange] = set()
        self._last: dict[tuple[int, bytes], Exchange] = {}
        self._prints: dict[Exchange, bytes] = {}
        self._full_fetches: dict[int, Mapping[Exchange, tuple[Values, bytes] | None]] = {}
        self._parts: list[Part] = []
        self._free = list(recording.conversations)

    def connect(self, address: tuple[str, int]) -> Part:
        """A client has connected where ``address`` was."""
        part = Part(self, address, self._take(address))
        self._parts.append(part)
        return part

    @property
    def unplayed(self) -> list[str]:
        """The missing requests, in words, without optional ones."""
        return [
            f"{_named(each)} of connection {each.connection}"
            for each in self._order
            if each not in self._played and each.api_key not in _REPEATABLE and each.api_key not in _GREETINGS
        ]

    # for the parts

    def is_played(self, exchange: Exchange) -> bool:
        """True if the request has come."""
        return exchange in self._played

    def play(self, exchange: Exchange) -> None:
        """The request has come."""
        self._played.add(exchange)
        self._last[exchange.api_key, self.print_of(exchange)] = exchange

    def print_of(self, exchange: Exchange) -> bytes:
        """The fingerprint of a recorded request."""
        found = self._prints.get(exchange)
        if found is None:
            found = self._prints[exchange] = _print(exchange.header, self.values_of(exchange))
        return found

    def values_of(self, exchange: Exchange) -> Values:
        """A recorded request in the form for comparison."""
        is_hashed = self.recording.is_hashed
        return comparable(exchange.header, exchange.wire[4:], is_hashed=is_hashed, is_hidden=exchange.is_hidden)

    def anywhere(self, api_key: int, print_: bytes, own: Conversation | None) -> Exchange | None:
        """The first equal request of all connections that has not come."""
        for exchange in self._order:
            if exchange.api_key != api_key or exchange in self._played or self.print_of(exchange) != print_:
                continue
            is_own = own is not None and exchange.connection == own.number
            if is_own or exchange.answer is not None:
                return exchange
        return None

    def all_of(self, api_key: int) -> list[Exchange]:
        """The requests of an API, outstanding ones first."""
        found = [exchange for exchange in self._order if exchange.api_key == api_key]
        return sorted(found, key=self.is_played)

    def full_fetches(self, version: int) -> Mapping[Exchange, tuple[Values, bytes] | None]:
        """The answered fetches of a version, each as if it had named all of its session's partitions."""
        found = self._full_fetches.get(version)
        if found is None:
            addresses = {each.number: each.address for each in self.recording.conversations}
            fetches = {
                each: Fetch(addresses[each.connection], each.header, each.wire[4:], each.answer[4:])
                for each in self._order
                if (each.api_key, each.header.api_version) == (ApiKey.FETCH, version) and each.answer is not None
            }
            found = dict(zip(fetches, as_full_fetches(fetches.values()), strict=True))
            self._full_fetches[version] = found
        return found

    def elsewhere(self, exchange: Exchange) -> tuple[Exchange, float] | None:
        """An equal request with an answer, and the seconds after which the client of ``exchange``, which has none, had
        left; None if that client did not end the connection.
        """
        if exchange.api_key not in _ANYWHERE & _REPEATABLE:
            return None
        conversation = next(each for each in self.recording.conversations if each.number == exchange.connection)
        later = conversation.exchanges[exchange.number :]
        if not conversation.is_closed_by_client or any(each.answer is not None for each in later):
            return None
        print_ = self.print_of(exchange)
        same = (each for each in self.all_of(exchange.api_key) if each.answer is not None)
        found = next((each for each in same if self.print_of(each) == print_), None)
        return None if found is None else (found, max(0.0, (conversation.closed_at or 0.0) - exchange.at))

    def again(self, api_key: int, print_: bytes) -> Exchange | None:
        """The last equal request that came."""
        return self._last.get((api_key, print_))

    def exchange_for(self, part: Part, print_: bytes, api_key: int) -> Conversation | None:
        """Another connection at the same address, free or with an unsettled client, whose next request is this one."""
        for conversation in self.recording.conversations:
            if conversation.address != part.address or conversation is part.conversation:
                continue
            owner = next((each for each in self._parts if each.conversation is conversation), None)
            is_free = conversation in self._free or (owner is not None and not owner.is_settled)
            if is_free and self.next_of(conversation, print_, api_key) is not None:
                self._swap(part, conversation, owner)
                return conversation
        return None

    def next_of(self, conversation: Conversation, print_: bytes, api_key: int) -> Exchange | None:
        """A connection's next request of an API, if it is equal; the first equal one, if some may be left out."""
        for exchange in conversation.exchanges:
            if exchange in self._played or exchange.api_key != api_key:
                continue
            if self.print_of(exchange) == print_:
                return exchange
            if api_key not in _REPEATABLE:
                return None
        return None

    def ended(self, part: Part) -> None:
        """The client's connection has ended: an unsettled one frees its recorded connection for another."""
        self._parts.remove(part)
        conversation = part.conversation
        has_more = conversation is not None and any(
            exchange not in self._played and exchange.api_key not in _GREETINGS for exchange in conversation.exchanges
        )
        if conversation is not None and has_more and not part.is_settled:
            self._give_back(conversation)

    # internals

    def _take(self, address: tuple[str, int]) -> Conversation | None:
        for conversation in self._free:
            if conversation.address == address:
                self._free.remove(conversation)
                return conversation
        return None

    def _give_back(self, conversation: Conversation) -> None:
        self._free.append(conversation)
        self._free.sort(key=lambda each: each.number)

    def _swap(self, part: Part, conversation: Conversation, owner: Part | None) -> None:
        before = part.conversation
        if owner is not None:
            owner.conversation = before
        else:
            self._free.remove(conversation)
            if before is not None:
                self._give_back(before)
        part.conversation = conversation


class Part:
    """A client's connection, and the recorded one that it plays, if there is one."""

    def __init__(self, script: Script, address: tuple[str, int], conversation: Conversation | None) -> None:
        self.address = address
        self.conversation = conversation
        self.is_settled = False
        self._script = script
        self._sends_bare_sasl = False
        self._unasked_sent = 0
        self._login = None if script.logins is None else Login(script.logins)

    def ask(self, frame: bytes, now: float = 0.0) -> Reply:
        """The reply to a request, given without its size; raises ReplayMismatchError, which the script has kept.

        ``now`` is the loop's time, for logins.
        """
        if self._login is not None and (login := self._answer_login(self._login, frame, now)) is not None:
            return login
        header = self._header(frame)
        values = comparable(header, frame, is_hashed=self._script.recording.is_hashed)
        if header is NO_HEADER:
            values = {"bytes": None}
        if self._script.has_sasl:
            self._check_mechanism(header, frame)
        exchange = self._found(header.api_key, _print(header, values))
        if exchange is None and header.api_key == ApiKey.SASL_HANDSHAKE and not self._script.has_sasl:
            return Reply(None, _no_sasl(header), 0.0)
        if exchange is None and header.api_key == ApiKey.METADATA and (part := self._metadata(header, values)):
            return part
        if exchange is None and header.api_key in PARTED and (part := self._put_together(header, values)):
            return part
        if exchange is None and header.api_key == ApiKey.FETCH and (answer := end_of_session(header, frame)):
            return Reply(None, answer, 0.0)
        if exchange is None:
            raise self._mismatch(header, values)
        self._sends_bare_sasl = (header.api_key == ApiKey.SASL_HANDSHAKE and header.api_version == 0) or (
            self._sends_bare_sasl and header is NO_HEADER
        )
        self._script.play(exchange)
        if exchange.answer is not None:
            return Reply(exchange, _answer(exchange, header), exchange.delay)
        if (found := self._script.elsewhere(exchange)) is not None:
            other, seconds = found
            return Reply(exchange, _answer(other, header), seconds)
        return Reply(exchange, None, exchange.delay)

    def unasked(self) -> list[bytes]:
        """Bytes that were sent without a request, once each, in their turn."""
        if self.conversation is None:
            return []
        played = sum(map(self._script.is_played, self.conversation.exchanges))
        due = [data for position, data in self.conversation.unasked if position <= played]
        new, self._unasked_sent = due[self._unasked_sent :], max(self._unasked_sent, len(due))
        return new

    def end(self) -> tuple[float, bool] | None:
        """The seconds until the cluster ends the connection, and whether by RST; None while earlier requests are
        missing.
        """
        conversation = self.conversation
        if conversation is None or not conversation.is_closed_by_cluster or conversation.closed_at is None:
            return None
        exchanges = conversation.exchanges
        may_miss = _REPEATABLE | _GREETINGS
        is_over = all(self._script.is_played(each) or each.api_key in may_miss for each in exchanges[:-1])
        if not is_over or (exchanges and not self._script.is_played(exchanges[-1])):
            return None
        return max(0.0, conversation.closed_at - conversation.last_at), conversation.is_reset

    def ended(self) -> None:
        """The client's connection has ended."""
        self._script.ended(self)

    # internals

    def _header(self, frame: bytes) -> RequestHeader:
        try:
            header, _ = decode_request_header(frame)
            schema_versions(header.api_key)
            if self._sends_bare_sasl:
                decode_request(frame)
        except Exception:  # not a request of a known API
            return NO_HEADER
        return header

    def _answer_login(self, login: Login, frame: bytes, now: float) -> Reply | None:
        answer = login.token(frame, now) if login.takes_tokens else login.answer(self._header(frame), frame, now)
        return None if answer is None else Reply(None, answer, 0.0, is_last=login.is_failed)

    def _check_mechanism(self, header: RequestHeader, frame: bytes) -> None:
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return
        mechanism = getattr(decode_request(frame)[1], "mechanism", "")
        if mechanism not in _PLAYABLE_MECHANISMS:
            reason = (
                "a recording has no proofs of identity: give the replay users of its own, ReplayBroker(sasl_users=…) or"
                " `aiokafkapy replay --user NAME=PASSWORD`, or connect without SASL, by security_protocol=PLAINTEXT"
            )
            raise self._kept("no SASL, or PLAIN or OAUTHBEARER", f"SASL's {mechanism}", reason)

    def _found(self, api_key: int, print_: bytes) -> Exchange | None:
        script, conversation = self._script, self.conversation
        if api_key in _ANYWHERE or api_key == ApiKey.API_VERSIONS:
            own = None if conversation is None else script.next_of(conversation, print_, api_key)
            if api_key == ApiKey.API_VERSIONS and own is not None:
                return own
            return script.anywhere(api_key, print_, conversation) or self._again(api_key, print_)
        found = None if conversation is None else script.next_of(conversation, print_, api_key)
        if found is None and not self.is_settled and api_key not in _GREETINGS:
            other = script.exchange_for(self, print_, api_key)
            found = None if other is None else script.next_of(other, print_, api_key)
        if found is not None:
            self.is_settled |= api_key not in _GREETINGS
            return found
        return self._again(api_key, print_)

    def _metadata(self, header: RequestHeader, values: Values) -> Reply | None:
        """The metadata of topics that were not requested together in the recording; None if it lacks one of them."""
        wanted = values.get("topics")
        known = [each for each in self._script.all_of(ApiKey.METADATA) if each.header.api_version == header.api_version]
        # The latest request that has come, else the first that will.
        came = [each for each in known if self._script.is_played(each)]
        for exchange in [*reversed(came), *(each for each in known if each not in came)]:
            answer = None if wanted is None else _topics_of(exchange, wanted, header.correlation_id)
            if answer is not None:
                return Reply(exchange, answer, exchange.delay)
        return None

    def _put_together(self, header: RequestHeader, values: Values) -> Reply | None:
        """The answer for partitions that were not requested together in the recording; None if it lacks one."""
        known = [
            each
            for each in self._script.all_of(header.api_key)
            if each.header.api_version == header.api_version and each.answer is not None
        ]
        if header.api_key == ApiKey.FETCH:
            told = self._script.full_fetches(header.api_version)
            pairs = [pair for each in known if (pair := told[each]) is not None]
        else:
            pairs = [(self._script.values_of(each), each.answer or b"") for each in known]
        answer = put_together(header, values, pairs)
        return None if answer is None else Reply(known[0], answer, known[0].delay)

    def _again(self, api_key: int, print_: bytes) -> Exchange | None:
        return self._script.again(api_key, print_) if api_key in _REPEATABLE else None

    def _mismatch(self, header: RequestHeader, values: object) -> ReplayMismatchError:
        came = f"{api_name(header.api_key)} v{header.api_version}" if header.api_key >= 0 else "no request of Kafka's"
        own = self.conversation.exchanges if self.conversation is not None else []
        left = [each for each in own if not self._script.is_played(each)]
        same_api = [each for each in left if each.api_key == header.api_key]
        if not same_api and header.api_key in _ANYWHERE:
            same_api = self._script.all_of(header.api_key)
        if not left and not same_api:
            rest = "nothing more on it" if self.conversation is not None else "no further connection"
            return self._kept(rest, came, "")
        wanted = (same_api or [each for each in left if each.api_key not in _REPEATABLE] or left)[0]
        reason = ""
        if same_api and wanted.header.api_version == header.api_version:
            reason = difference(self._script.values_of(wanted), values)
        return self._kept(_named(wanted), came, reason)

    def _kept(self, expected: str, came: str, reason: str) -> ReplayMismatchError:
        number = None if self.conversation is None else self.conversation.number
        found = ReplayMismatchError(format_address(*self.address), number, expected, came, reason)
        self._script.mismatches.append(found)
        return found


def _print(header: RequestHeader, values: object) -> bytes:
    text = repr((header.api_key, header.api_version, values))
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).digest()


def _named(exchange: Exchange) -> str:
    if exchange.api_key < 0:
        return f"SASL's bytes (line {exchange.line})"
    return f"{api_name(exchange.api_key)} v{exchange.header.api_version} (line {exchange.line})"


def _no_sasl(header: RequestHeader) -> bytes:
    code = IllegalSaslStateError.code
    body = build_response(ApiKey.SASL_HANDSHAKE, header.api_version, error_code=code, mechanisms=())
    return encode_response(body, header.correlation_id)


def _topics_of(exchange: Exchange, wanted: Sequence[Values], correlation_id: int) -> bytes | None:
    """A recorded answer to Metadata, with only the wanted topics; None if it lacks one of them."""
    try:
        _, body = decode_response(exchange.api_key, exchange.header.api_version, (exchange.answer or b"")[4:])
    except MalformedFrameError:
        return None
    found = []
    for one in wanted:
        ids = {value for value in one.values() if value is not None}
        topic = next((each for each in body.topics if {each.name, getattr(each, "topic_id", None)} >= ids), None)
        if topic is None or not ids:
            return None
        found.append(topic)
    return encode_response(dataclasses.replace(body, topics=tuple(found)), correlation_id)


def _answer(exchange: Exchange, header: RequestHeader) -> bytes:
    """The recorded answer for another correlation id; a wrong id stays wrong by as much."""
    answer = exchange.answer or b""
    if exchange.api_key < 0 or len(answer) < 8:
        return answer
    (found,) = _CORRELATION_ID.unpack_from(answer, 4)
    wanted = (found - exchange.header.correlation_id + header.correlation_id) % (1 << 32)
    return answer[:4] + _CORRELATION_ID.pack(wanted) + answer[8:]
