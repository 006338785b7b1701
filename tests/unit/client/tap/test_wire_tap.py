from __future__ import annotations

import asyncio
import json
import logging
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.client.config import environment_variables
from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.client.nodes.in_flight_requests import InFlightRequest
from aiokafkapy.client.tap.watch import ClientWatch
from aiokafkapy.client.tap.wire_tap import MOST_CHARACTERS, MOST_DECODED, MOST_ITEMS, WireTap, described
from aiokafkapy.observability.observer import Observers
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.record.compression import Compression
from tests.unit.client.captures import packets, streams
from tests.unit.client.fakes import ClientUnderTest, FakeCluster
from tests.unit.client.tap.secret_batches import batch

Lines = list[dict[str, Any]]


def request(tap: WireTap, api_key: int, version: int, **fields: Any) -> InFlightRequest:
    entry = InFlightRequest(ClientRequest(1, api_key), version, 7, None, 0.0, 30.0)
    frame = encode_request(build_request(api_key, version, **fields), 7, "me")
    tap.request(entry, [frame[:6], memoryview(frame)[6:]])
    return entry


def produce(tap: WireTap) -> None:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": b"secret payload"}]}]
    request(tap, ApiKey.PRODUCE, 9, acks=-1, timeout=1_000, topic_data=data)


def test_a_request_and_its_answer_are_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    with WireTap(path) as tap:
        entry = request(tap, ApiKey.METADATA, 12, topics=[{"name": "orders"}])
        body = build_response(ApiKey.METADATA, 12, cluster_id="ours", controller_id=3)
        tap.response(entry, encode_response(body, 7)[4:])
    asked, answered = (json.loads(line) for line in path.read_text().splitlines())
    time = asked.pop("time")
    assert 1_700_000_000 < time <= answered.pop("time")
    assert asked.pop("body")["topics"][0]["name"] == "orders"
    assert answered.pop("body")["cluster_id"] == "ours"
    common = {"node": 1, "api": "METADATA", "version": 12, "correlation_id": 7}
    assert asked == {**common, "direction": "request", "size": asked["size"]}
    assert answered == {**common, "direction": "response", "size": answered["size"]}
    assert asked["size"] > 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_payloads_are_hidden_unless_they_are_asked_for() -> None:
    lines: Lines = []
    produce(WireTap(lines.append))
    produce(WireTap(lines.append, payloads=True))
    hidden, shown = (line["body"]["topic_data"][0]["partition_data"][0]["records"] for line in lines)
    assert hidden == "<14 bytes>"
    assert shown == "base64:c2VjcmV0IHBheWxvYWQ="


@pytest.mark.parametrize("payloads", [False, True])
def test_proofs_of_identity_are_never_shown(payloads: bool) -> None:
    lines: Lines = []
    tap = WireTap(lines.append, payloads=payloads)
    request(tap, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0user\0hunter2")
    entries = [{"name": "ssl.keystore.password", "value": "hunter2"}, {"name": "retention.ms", "value": "77"}]
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": entries}]
    request(tap, ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=1_000)
    text = json.dumps(lines)
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert lines[0]["body"]["auth_bytes"] == "<hidden>"
    assert '"77"' in text


def test_long_lists_and_texts_are_cut() -> None:
    shown = described(tuple(range(MOST_ITEMS + 7)))
    assert len(shown) == MOST_ITEMS + 1
    assert shown[-1] == "… 7 more"
    assert len(described("x" * 10_000)) == MOST_CHARACTERS + 1
    assert len(described(b"x" * 10_000, payloads=True)) < MOST_CHARACTERS + 20


def test_a_record_that_cannot_be_decoded_is_noted_and_harms_nothing() -> None:
    lines: Lines = []
    tap = WireTap(lines.append)
    entry = InFlightRequest(ClientRequest(1, ApiKey.METADATA), 12, 7, None, 0.0, 30.0)
    tap.response(entry, b"\0\0\0\7\0\xff")
    tap.response(entry, bytes(MOST_DECODED))
    assert all("undecoded" in line["body"] for line in lines)
    assert f"{MOST_DECODED + 4} bytes" in lines[1]["body"]["undecoded"]
    assert not tap.is_closed


def test_a_full_file_says_so_and_ends_the_tap(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "wire.jsonl"
    tap = WireTap(path, max_bytes=500)
    with caplog.at_level(logging.WARNING, "aiokafkapy"):
        for _ in range(50):
            produce(tap)
    assert tap.is_closed
    assert path.stat().st_size < 600
    assert json.loads(path.read_text().splitlines()[-1]) == {"ended": "max_bytes is reached"}
    assert caplog.text.count("tap.ended") == 1


def test_a_function_that_raises_ends_the_tap_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def fail(line: dict[str, Any]) -> None:
        calls.append(line)
        raise RuntimeError("no more")

    tap = WireTap(fail)
    for _ in range(3):
        produce(tap)
    assert len(calls) == 1
    assert "tap.ended" in caplog.text
    assert "no more" in caplog.text


def test_an_error_without_a_text_ends_the_tap_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class WithoutText(BaseException):
        def __str__(self) -> str:
            raise LookupError

    def fail(line: dict[str, Any]) -> None:
        raise WithoutText

    tap = WireTap(fail)
    produce(tap)
    assert tap.is_closed
    assert "WithoutText: its text cannot be made" in caplog.text


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        WireTap(tmp_path / "nowhere" / "wire.jsonl")
    with pytest.raises(ValueError, match="max_bytes=0"):
        WireTap(tmp_path / "wire.jsonl", max_bytes=0)


def test_the_environment_may_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("AIOKAFKAPY_TAP", raising=False)
    assert WireTap.from_environment() is None
    path = tmp_path / "wire.jsonl"
    monkeypatch.setenv("AIOKAFKAPY_TAP", str(path))
    monkeypatch.setenv("AIOKAFKAPY_TAP_PAYLOADS", "1")
    tap = WireTap.from_environment()
    assert tap is not None
    with tap:
        produce(tap)
    assert "base64:" in path.read_text()
    assert not {"tap", "tap_payloads"} & set(environment_variables("AIOKAFKAPY_"))  # they are no options
    monkeypatch.setenv("AIOKAFKAPY_TAP", str(tmp_path / "nowhere" / "wire.jsonl"))
    assert WireTap.from_environment() is None
    assert "tap.ended" in caplog.text


def test_a_capture_is_a_file_whose_name_says_so_or_by_the_format(tmp_path: Path) -> None:
    for name, format_ in (("wire.pcapng", None), ("wire.pcap", None), ("wire", "pcapng")):
        path = tmp_path / name
        with WireTap(path, format=format_) as tap:  # type: ignore[arg-type]
            entry = request(tap, ApiKey.METADATA, 12, topics=[{"name": "orders"}])
            answer = encode_response(build_response(ApiKey.METADATA, 12, cluster_id="ours", controller_id=3), 7)
            tap.response(entry, answer[4:])
            produce(tap)
        asked, answered = streams(path.read_bytes()).values()
        assert b"orders" in asked
        assert b"payload" not in asked
        assert answered == answer
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = tmp_path / "lines.pcapng"
    with WireTap(lines, format="json") as tap:
        produce(tap)
    assert json.loads(lines.read_text())["api"] == "PRODUCE"
    for wrong in ({"format": "pcap"}, {"format": "pcapng"}):
        with pytest.raises(ValueError, match="format="):
            WireTap(print, **wrong)  # type: ignore[arg-type]


def test_a_capture_may_have_payloads(tmp_path: Path) -> None:
    path = tmp_path / "wire.pcapng"
    with WireTap(path, payloads=True) as tap:
        produce(tap)
        request(tap, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0user\0hunter2")
    (frames, _) = streams(path.read_bytes()).values()
    assert b"secret payload" in frames
    assert b"hunter2" not in frames


def test_clients_that_write_to_one_capture_have_connections_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "wire.pcapng"
    taps = [WireTap(path) for _ in range(2)]
    entry = InFlightRequest(ClientRequest(1, ApiKey.METADATA), 12, 7, None, 0.0, 30.0)
    frame = encode_request(build_request(ApiKey.METADATA, 12, topics=None), 7, "me")
    for number in range(4):
        taps[number % 2].request(entry, [frame], number % 2)
    for tap in taps:
        tap.close()
    sent = [data for data in streams(path.read_bytes()).values() if data]
    assert sent == [frame + frame] * 2


def test_a_full_capture_ends_with_a_whole_frame(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "wire.pcapng"
    tap = WireTap(path, max_bytes=1_000)
    for _ in range(50):
        produce(tap)
    assert tap.is_closed
    assert 500 < path.stat().st_size < 1_200
    assert len(packets(path.read_bytes())) > 4
    assert caplog.text.count("max_bytes is reached") == 1


async def test_without_a_target_frames_are_iterated_over_until_it_is_closed() -> None:
    tap = WireTap()
    produce(tap)
    seen: list[str] = []

    async def watch() -> None:
        async for frame in tap:
            seen.append(frame["api"])  # noqa: PERF401 - it is looked at meanwhile

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    assert seen == ["PRODUCE"]
    request(tap, ApiKey.METADATA, 12, topics=None)
    produce(tap)
    tap.close()
    produce(tap)
    await watching
    assert seen == ["PRODUCE", "METADATA", "PRODUCE"]
    with pytest.raises(TypeError, match="writes to a target"):
        aiter(WireTap(print))


async def test_frames_that_nobody_takes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.client.tap.wire_tap.MOST_WAITING", 3)
    tap = WireTap()
    for _ in range(5):
        produce(tap)
    assert tap.missed == 2
    waiting = asyncio.create_task(anext(tap))
    assert (await waiting)["api"] == "PRODUCE"
    produce(tap)
    assert tap.missed == 2
    tap.close()
    assert len([frame async for frame in tap]) == 3


async def test_a_caller_that_waits_for_a_frame_may_be_cancelled() -> None:
    tap = WireTap()
    waiting = asyncio.create_task(anext(tap))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    produce(tap)
    assert (await anext(tap))["api"] == "PRODUCE"


TSHARK = shutil.which("tshark")


@pytest.mark.skipif(TSHARK is None, reason="NO TSHARK: Debian's tshark")
def test_wireshark_reads_a_capture(tmp_path: Path) -> None:
    """The capture has versions that Wireshark 4.0 knows; it reads none of SASL_AUTHENTICATE, hidden or not."""
    assert TSHARK is not None
    path = tmp_path / "wire.pcapng"
    with WireTap(path) as tap:
        entry = request(tap, ApiKey.METADATA, 8, topics=[{"name": "orders"}])
        tap.response(entry, encode_response(build_response(ApiKey.METADATA, 8, cluster_id="ours"), 7)[4:])
        for records in (batch(), batch(Compression.GZIP), batch(value=bytes(200_000))):
            data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
            request(tap, ApiKey.PRODUCE, 8, acks=-1, timeout=1_000, topic_data=data)
    names = ["_ws.malformed", "tcp.analysis.flags", "kafka.api_key", "kafka.topic_name", "kafka.batch_size"]
    columns = [part for name in names for part in ("-e", name)]
    command = [TSHARK, "-r", str(path), "-Y", "kafka", "-T", "fields", *columns]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["", "", "3", "orders", ""],
        ["", "", "3", "", ""],
        *[["", "", "0", "orders", "2"]] * 3,
    ]


async def test_a_client_s_taps_come_and_go_and_end_with_it(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster
) -> None:
    first: Lines = []
    second: Lines = []
    under_test = make_client()
    watch = ClientWatch(Observers([], float))
    under_test.client.use_watch(watch)
    taps = [WireTap(lines.append) for lines in (first, second)]
    for tap in taps:
        watch.add_tap(tap)
    await under_test.started()
    taps[0].close()
    seen = len(first)
    await under_test.connected(2)
    assert len(first) == seen == 4
    assert len(second) > seen
    assert [line["direction"] for line in second] == ["request", "response"] * (len(second) // 2)
    under_test.client.abort()
    assert taps[1].is_closed
