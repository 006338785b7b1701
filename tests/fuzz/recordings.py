"""Recordings, which are files of strangers; and the recording of arbitrary frames.

A file is read, or refused with its line; a file that is read is played to the client that it records. Of frames no
run of bytes that could be a secret is kept.
"""

from __future__ import annotations

import random
from typing import Final

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import RequestHeader, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.testing.recording import Recording, RecordingError
from aiokafkapy.testing.recording.hiding import Hiding
from aiokafkapy.testing.replay import ReplayBroker, ReplayMismatchError
from aiokafkapy.testing.replay.script import Script

from ..unit.testing.recordings import BROKER, SECOND, Tape
from .messages import EVERY_VERSION, request, response
from .target import MEBIBYTE, Target

__all__ = ["RECORDING_TARGETS"]

SECRET: Final = b"correct horse battery staple"


class Recordings(Target):
    """A file: each of its lines is as it must be, or the error names one."""

    name = "recordings"
    most_bytes = 40 * MEBIBYTE
    """The cost of a batch that grows when it is decompressed."""
    most_bytes_per_byte = 1_000

    def valid(self, chance: random.Random) -> bytes:
        made = Tape(payloads=chance.choice(("kept", "hashed")), servers=(BROKER, SECOND)[: chance.randrange(1, 3)])
        for number in range(1, chance.randrange(2, 4)):
            made.connected(number, chance.choice((BROKER, SECOND)))
            for correlation_id in range(chance.randrange(4)):
                api_key, version = chance.choice(EVERY_VERSION)
                made.request(encode_request(request(api_key, version, chance), correlation_id, "me"), number)
                if chance.random() < 0.8:
                    made.answer(_answer(api_key, version, chance, correlation_id), number)
            if chance.random() < 0.5:
                made.closed(number, chance.choice(("client", "cluster")))
        return made.data

    def run(self, data: bytes) -> None:
        try:
            recording = Recording.parse(data, "it.jsonl")
        except RecordingError as error:
            is_named = str(error).startswith(f"it.jsonl, line {error.line}: ")
            if not is_named or not 1 <= error.line <= data.count(b"\n") + 1:
                raise AssertionError("the error names no line") from error
            return
        ReplayBroker(recording)
        script = Script(recording)
        for conversation in recording.conversations:
            part = script.connect(conversation.address)
            for exchange in conversation.exchanges:
                try:
                    part.ask(exchange.wire[4:])
                except ReplayMismatchError:
                    continue
                part.unasked()
                part.end()
            part.ended()
        assert script.unplayed is not None


class Frames(Target):
    """A frame that goes by: it is recorded, and no proof of identity with it."""

    name = "recorded_frames"
    most_bytes = 140 * MEBIBYTE
    """The cost of a batch that grows when it is decompressed for its digests."""
    most_bytes_per_byte = 1_000

    def __init__(self) -> None:
        self._hidings = (Hiding(hash_payloads=False), Hiding(hash_payloads=True))

    def valid(self, chance: random.Random) -> bytes:
        if chance.random() < 0.3:
            proof = build_request(ApiKey.SASL_AUTHENTICATE, chance.randrange(3), auth_bytes=SECRET)
            return b"\0" + encode_request(proof, 7, "me")[4:]
        api_key, version = chance.choice(EVERY_VERSION)
        if chance.random() < 0.5:
            return b"\0" + encode_request(request(api_key, version, chance), 7, "me")[4:]
        return bytes((1, api_key, version)) + _answer(api_key, version, chance, 7)

    def run(self, data: bytes) -> None:
        for hiding in self._hidings:
            if data[:1] == b"\1" and len(data) > 3:
                header = RequestHeader(data[1], data[2], 7, None)
                hidden = hiding.answer(header, data[3:])
                self._judge(header, hidden.wire)
                continue
            for is_bare_sasl in (False, True):
                hidden = hiding.request(data[1:], is_bare_sasl=is_bare_sasl)
                assert int.from_bytes(hidden.wire[:4]) == len(hidden.wire) - 4
                self._judge(hidden.header, hidden.wire)

    @staticmethod
    def _judge(header: RequestHeader, wire: bytes) -> None:
        # Damage may make it a client's name.
        if header.api_key == ApiKey.SASL_AUTHENTICATE and SECRET.decode() not in (header.client_id or ""):
            assert SECRET not in wire


def _answer(api_key: int, version: int, chance: random.Random, correlation_id: int) -> bytes:
    while True:
        try:
            return encode_response(response(api_key, version, chance), correlation_id)
        except AttributeError:  # kio reads "no time" as None, and cannot write it everywhere
            continue


RECORDING_TARGETS: Final = (Recordings, Frames)
