from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.recording import Recorder, Recording

from ..recordings import answer, produce, produced, records, request

SECRET = b"correct horse battery staple"
PLACE = ("kafka.example", 9092)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_recorded_events_are_read_back(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    recorder = Recorder(file)
    recorder.begin([PLACE, ("::1", 9093)])
    connection = recorder.connected(1, PLACE, None)
    number = connection.request(produce(records(b"a"))[4:], 3)
    connection.answer(number, produced(0), 3)
    connection.answer(None, b"odd", 3)
    connection.closed(by_client=False, reset=True)
    connection.closed(by_client=True, reset=False)  # the first counts
    recorder.end()
    recorder.end()
    recording = Recording.read(file)
    assert recording.bootstrap_servers == [PLACE, ("::1", 9093)]
    (conversation,) = recording.conversations
    (exchange,) = conversation.exchanges
    assert (exchange.wire, exchange.answer, conversation.node_id) == (produce(records(b"a")), produced(0), 3)
    assert len(conversation.unasked) == 1
    assert (conversation.is_closed_by_cluster, conversation.is_reset) == (True, True)
    assert recording.ended == "the recording was stopped"
    assert recorder.requests == 1


def test_a_line_can_be_read_by_people_and_the_file_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    recorder = Recorder(file)
    recorder.begin([PLACE])
    recorder.connected(1, PLACE, 2).request(produce(records(SECRET))[4:], 2)
    recorder.end()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    _, connected, sent, _ = lines(file)
    assert connected | {"at": 0} == {
        "at": 0, "event": "connected", "connection": 1, "address": "kafka.example:9092", "node": 2,
    }  # fmt: skip
    assert (sent["api"], sent["version"], sent["client_id"], sent["node"]) == ("PRODUCE", 9, "me", 2)
    assert sent["body"]["topic_data"][0]["name"] == "orders"
    assert SECRET.decode() not in json.dumps(sent["body"])


def test_a_recording_ends_at_its_limit_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    recorder = Recorder(file, max_bytes=2_000)
    recorder.begin([PLACE])
    connection = recorder.connected(1, PLACE, None)
    for _ in range(20):
        connection.request(produce(records(b"a"))[4:], 1)
    assert recorder.is_full
    recorder.end()
    recording = Recording.read(file)
    assert recording.ended == "max_bytes is reached"
    assert 0 < len(recording.exchanges) < 20
    with pytest.raises(ValueError, match="max_bytes=0: write 1 or more"):
        Recorder(file, max_bytes=0)


def test_a_file_that_fails_ends_the_recording_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder("/dev/full")
    recorder.begin([PLACE])
    assert recorder.failure is not None
    assert "No space left" in str(recorder.failure)
    assert recorder.failure.filename == "/dev/full"
    assert [message.split()[0] for message in caplog.messages] == ["recording.failed"]
    recorder.connected(1, PLACE, None).request(produce(records(b"a"))[4:], 1)
    recorder.end()
    with pytest.raises(FileNotFoundError):
        Recorder(tmp_path / "none" / "it.jsonl")


@pytest.mark.parametrize("user", ["alice", "A"])
def test_sasls_bytes_after_a_handshake_of_version_0_are_not_recorded_and_kafkas_requests_after_them_are(
    tmp_path: Path, user: str
) -> None:
    file = tmp_path / "it.jsonl"
    recorder = Recorder(file)
    recorder.begin([PLACE])
    connection = recorder.connected(1, PLACE, None)
    handshake = connection.request(request(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")[4:], 1)
    connection.answer(handshake, answer(ApiKey.SASL_HANDSHAKE, 0, mechanisms=["PLAIN"]), 1)
    proof = connection.request(b"\0" + user.encode() + b"\0" + SECRET, 1)
    connection.answer(proof, b"\0\0\0\4" + SECRET[:4], 1)
    connection.request(produce(records(b"a"))[4:], 1)
    recorder.end()
    (conversation,) = Recording.read(file).conversations
    assert [exchange.api_key for exchange in conversation.exchanges] == [ApiKey.SASL_HANDSHAKE, -1, ApiKey.PRODUCE]
    _, bare, sent = conversation.exchanges
    assert bare.wire[4:] == bytes(len(user) + 2 + len(SECRET))
    assert bare.answer == b"\0\0\0\4\0\0\0\0"
    assert sent.wire == produce(records(b"a"))
