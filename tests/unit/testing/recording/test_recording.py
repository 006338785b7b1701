from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.recording import Recording, RecordingError

from ..recordings import BROKER, SECOND, Tape, answer, encoded, heartbeat, produce, produced, records, request


def tape() -> Tape:
    """Two connections, three requests, one of which is not answered."""
    made = Tape().connected(1).request(request(ApiKey.API_VERSIONS, 0)).answer(answer(ApiKey.API_VERSIONS, 0))
    made.connected(2, SECOND).request(produce(records(b"a")), 2).request(heartbeat(2), 2)
    return made.answer(produced(0), 2, number=1).closed(2, reset=True).closed(1, by="client").ended()


def test_connections_have_their_requests_with_their_answers_and_ends() -> None:
    recording = tape().read()
    first, second = recording.conversations
    assert (first.address, second.address) == (("kafka.example", 9092), ("other.example", 9092))
    assert [exchange.api_key for exchange in second.exchanges] == [ApiKey.PRODUCE, ApiKey.HEARTBEAT]
    sent, beat = second.exchanges
    assert (sent.answer, sent.at, sent.delay) == (produced(0), 1.0, 0.5)
    assert (beat.answer, beat.delay) == (None, 0.0)
    assert (first.is_closed_by_cluster, second.is_closed_by_cluster, second.is_reset) == (False, True, True)
    assert recording.ended == "over"
    assert recording.bootstrap_servers == [("kafka.example", 9092)]
    assert recording.addresses == [("kafka.example", 9092), ("other.example", 9092)]
    assert [exchange.line for exchange in recording.exchanges] == [3, 6, 7]


def test_a_file_that_was_broken_off_between_lines_is_read_as_far_as_it_goes() -> None:
    made = tape()
    del made.lines[-4:]
    recording = made.read()
    assert recording.ended is None
    assert recording.conversations[1].exchanges[0].answer is None


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    file.write_bytes(tape().data)
    assert len(Recording.read(file).exchanges) == 3
    with pytest.raises(FileNotFoundError):
        Recording.read(tmp_path / "none")


def test_a_line_that_a_full_disk_has_cut_off_is_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "bug.jsonl"
    whole = tape().data
    lines = whole.splitlines(keepends=True)
    start = 0
    for number, line in enumerate(lines, 1):
        for end in (start + 1, start + len(line) - 1):
            caplog.clear()
            file.write_bytes(whole[:end])
            if number == 1:
                with pytest.raises(
                    RecordingError, match=r"bug\.jsonl, line 1: the file ends in the middle of this line"
                ):
                    Recording.read(file)
                continue
            recording = Recording.read(file)
            assert recording.ended is None
            assert len(recording.exchanges) == sum(b'"request", ' in kept for kept in lines[: number - 1])
            (told,) = caplog.messages
            assert told.startswith("recording.cut_off")
            for field in (str(file), f"line={number}", f"position={start}"):
                assert field in told
        start += len(line)


def test_bytes_that_answered_no_request_have_their_place() -> None:
    made = Tape().connected().answer(b"hello", number=None).request(heartbeat()).answer(b"again", number=None)
    assert made.read().conversations[0].unasked == [(0, b"hello"), (1, b"again")]


def change(line: int, **fields: object) -> Callable[[Tape], object]:
    return lambda made: made.lines[line - 1].update(fields)


@pytest.mark.parametrize(
    ("damage", "line", "reason"),
    [
        (change(2, event="nothing"), 2, "expected one of connected, request, answer, closed, ended"),
        (change(3, connection=9), 3, "connection 9 has not been connected"),
        (change(4, at=0.1), 4, "at is 0.1: the line before is of 0.25"),
        (change(5, connection=1), 5, "connection 1 was connected before"),
        (change(5, address="nowhere:0"), 5, "port 0"),
        (change(6, request=2), 6, "request is 2: the next of connection 2 is 1"),
        (change(6, version=8), 6, "version is 8, and 9 in wire"),
        (change(6, api_key=1), 6, "api_key is 1, and 0 in wire"),
        (change(6, correlation_id=4), 6, "correlation_id is 4, and 1 in wire"),
        (change(6, wire="AAAA"), 6, "wire has 3 bytes, and not as many as its first four say"),
        (change(6, wire=encoded(produce(b"x")[:-1])), 6, "not as many as its first four say"),
        (change(6, wire=encoded(b"\0\0\0\1x")), 6, "wire is not a request"),
        (change(6, wire="?"), 6, "wire is not base64"),
        (change(8, request=3), 8, "request 3 of connection 2 has not been sent"),
        (change(8, request=0), 8, "request is 0"),
        (change(8, connection=1), 8, "request 1 of connection 1 was answered before"),
        (change(10, connection=2), 10, "connection 2 was closed at"),
        (change(9, by="nobody"), 9, "expected one of client, cluster"),
        (change(10, event="ended", reason="early"), 11, "there is a line after the one that ended it"),
    ],
)
def test_damage_is_an_error_that_names_its_line(damage: Callable[[Tape], object], line: int, reason: str) -> None:
    made = tape()
    damage(made)
    with pytest.raises(RecordingError) as caught:
        made.read()
    assert caught.value.line == line
    assert str(caught.value).startswith(f"it.jsonl, line {line}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(("data", "reason"), [(b"", "line 1: the file is empty"), (b"\n", "line 1: it is not JSON")])
def test_an_empty_file_is_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(RecordingError) as caught:
        Recording.parse(data, "it.jsonl")
    assert reason in str(caught.value)


def test_a_broker_is_named_as_clients_reached_it() -> None:
    assert BROKER in tape().data.decode()
