"""The file of records that a service had not delivered, and keeping records for it."""

from __future__ import annotations

import asyncio
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import BytesWithHeaders, ProducerConfig, ProducerRecord
from aiokafkapy.errors import ConfigurationError, KafkaTimeoutError, PurgedError, RecordTooLargeError
from aiokafkapy.integrations import undelivered
from aiokafkapy.integrations.undelivered import UndeliveredFile, UndeliveredRecords, checked_path
from aiokafkapy.producer.undelivered_line import PENDING

ERROR = KafkaTimeoutError("time is up")


def records(path: Path, **options: Any) -> UndeliveredRecords:
    return UndeliveredRecords(path, ProducerConfig(bootstrap_servers="h:1", **options))


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def written(path: Path, *sent: ProducerRecord, error: BaseException = ERROR, **options: Any) -> list[Any]:
    keeper = records(path, **options)
    told = [keeper.track(record)[1] for record in sent]
    keeper.begin_closing()
    for outcome in told:
        outcome(None, error)
    await keeper.write()
    return lines_of(path)


async def test_a_record_comes_out_of_the_file_as_it_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "undelivered.jsonl"
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    headers = [("a", b"1"), ("b", None), ("c", b"\xff")]
    await written(
        path,
        ProducerRecord("t", b"\xff\x00", "ü".encode(), 2, 1234, headers),
        ProducerRecord("t", None, None, None, moment),
    )
    with UndeliveredFile(path) as file:
        first, second = file.pending()
    assert (first.topic, first.value, first.key, first.partition) == ("t", b"\xff\x00", "ü".encode(), 2)
    assert (first.timestamp_ms, list(first.headers)) == (1234, headers)
    assert (second.value, second.key, second.partition) == (None, None, None)
    assert second.timestamp_ms == moment.timestamp() * 1000


async def test_arguments_are_those_that_the_producer_takes(tmp_path: Path) -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    path = tmp_path / "undelivered.jsonl"
    moment = datetime(2026, 1, 2, microsecond=1_000, tzinfo=UTC)
    headers: Any = {"a": bytearray(b"1")}
    await written(path, ProducerRecord("t", memoryview(b"v"), None, Two(), moment, headers))  # type: ignore[arg-type]
    with UndeliveredFile(path) as file:
        (record,) = file.pending()
    assert (record.value, record.partition, list(record.headers)) == (b"v", 2, [("a", b"1")])
    assert record.timestamp_ms == round(moment.timestamp() * 1000)


async def test_a_line_says_why_and_whether_the_record_may_be_there(tmp_path: Path) -> None:
    unknown = KafkaTimeoutError("time is up")
    unknown.outcome_unknown = True
    (line,) = await written(tmp_path / "a", ProducerRecord("t", b"v"), error=unknown)
    assert (line["sent"], line["error"], line["outcome_unknown"]) == (False, "KafkaTimeoutError: time is up", True)
    (line,) = await written(tmp_path / "b", ProducerRecord("t", b"v"), error=RecordTooLargeError("1 byte"))
    assert line["outcome_unknown"] is False
    assert line["timestamp_ms"] > 1_700_000_000_000, "of the call"


async def test_only_records_that_failed_at_the_end_are_written_and_in_the_order_of_sending(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = records(path)
    told = [keeper.track(ProducerRecord("t", str(number).encode()))[1] for number in range(7)]
    told[0](None, ERROR)  # before the end: its caller was told, and was there to do something
    keeper.begin_closing()
    told[5](None, ERROR)
    told[1](None, asyncio.CancelledError())
    told[6](None, PurgedError("given up by purge()"))
    told[2](None, None)
    told[3](None, ERROR)
    writing = asyncio.ensure_future(keeper.write())
    await asyncio.sleep(0)
    told[4](None, ERROR)  # while the writing waits for this outcome
    assert await writing == 3
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == ["3", "4", "5"]


async def test_a_buffer_that_is_changed_later_is_in_the_file_as_it_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = records(path)
    key, value, header = bytearray(b"k0"), bytearray(b"v0"), bytearray(b"h0")
    view = memoryview(value)
    sent = ProducerRecord("t", view, key, headers=[("h", header)])  # type: ignore[list-item]
    _, outcome = keeper.track(sent)
    key[:], value[:], header[:] = b"k1", b"v1", b"h1"
    view.release()
    keeper.begin_closing()
    outcome(None, ERROR)
    assert await keeper.write() == 1
    (line,) = lines_of(path)
    assert (line["key"], line["value"], line["headers"]) == ("k0", "v0", [["h", "h0"]])


async def test_a_serializer_has_a_changed_buffer_as_it_was_sent_and_of_its_type(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = records(path, value_serializer=lambda data: data.upper() if isinstance(data, bytearray) else b"other")
    value = bytearray(b"v0")
    record, outcome = keeper.track(ProducerRecord("t", value))
    assert record.value is value, "it goes on as it is"
    value[:] = b"v1"
    keeper.begin_closing()
    outcome(None, ERROR)
    await keeper.write()
    assert lines_of(path)[0]["value"] == "V0"


async def test_invalid_headers_are_refused_by_the_producer(tmp_path: Path) -> None:
    wrong: Any = 5
    sent = ProducerRecord("t", wrong, wrong, headers=wrong)
    record, _ = records(tmp_path / "file").track(sent)
    assert record is sent


async def test_the_file_is_written_though_the_writing_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = records(path)
    told = [keeper.track(ProducerRecord("t", value))[1] for value in (b"told", b"not told")]
    keeper.begin_closing()
    told[0](None, ERROR)
    writing = asyncio.ensure_future(keeper.write())
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    assert [(line["value"], line["outcome_unknown"]) for line in lines_of(path)] == [
        ("told", False),
        ("not told", True),
    ]


async def test_without_a_thread_the_file_is_written_here(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor()
    executor.shutdown()  # as at the interpreter's end
    asyncio.get_running_loop().set_default_executor(executor)
    (line,) = await written(tmp_path / "file", ProducerRecord("t", b"v"))
    assert line["value"] == "v"


async def test_without_a_record_there_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert await written(path) == []
    assert not path.exists()


async def test_the_file_is_added_to_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(0o644)
    await written(path, ProducerRecord("t", b"1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b'{"sent": false, "topic": "torn')
    with pytest.raises(json.JSONDecodeError):
        await written(path, ProducerRecord("t", b"2"))
    with UndeliveredFile(path) as resumed:
        found = list(resumed.pending())
    assert [(each.value, each.problem is None) for each in found] == [(b"1", True), (None, False), (b"2", True)]
    assert "the line is not a record" in (found[1].problem or "")


async def test_serializers_make_the_bytes_and_one_that_fails_harms_no_other(tmp_path: Path) -> None:
    async def serializer(data: Any) -> bytes:
        if data == "bad":
            raise ValueError("bad")
        return f"<{data}>".encode()

    class WithTopic:
        wants_topic = True

        def __call__(self, topic: str, data: Any) -> bytes:
            return f"{topic}:{data}".encode()

    sent = [ProducerRecord("t", value, 5) for value in ("a", "bad", "b")]
    lines = await written(tmp_path / "file", *sent, value_serializer=serializer, key_serializer=WithTopic())
    assert [(line["key"], line["value"]) for line in lines] == [("t:5", "<a>"), ("t:5", "<b>")]


async def test_headers_of_serializers_stand_behind_the_records_own(tmp_path: Path) -> None:
    def serializer(data: bytes) -> bytes:
        return BytesWithHeaders(data, {"id": b"\x01"})  # as a schema registry's with schema_id_in="headers"

    sent = ProducerRecord("t", b"v", b"k", headers={"mine": b"1"})
    (line,) = await written(tmp_path / "file", sent, key_serializer=serializer, value_serializer=serializer)
    assert line["headers"] == [["mine", "1"], ["id", "\x01"], ["id", "\x01"]]


async def test_a_marked_record_is_not_pending_and_the_file_stays_json(tmp_path: Path) -> None:
    path = tmp_path / "file"
    await written(path, *(ProducerRecord("t", str(number).encode()) for number in range(3)))
    with UndeliveredFile(path) as file:
        second = list(file.pending())[1]
        file.mark(second.position)
        file.sync()
    with UndeliveredFile(path) as file:
        assert [(each.line, each.value) for each in file.pending()] == [(1, b"0"), (3, b"2")]
    assert [json.loads(line)["sent"] for line in path.read_text().splitlines()] == [False, True, False]


@pytest.mark.parametrize("line", ["no", "{}", '{"sent": false, "topic": "t"}', '{"sent": false, "key": {"base64": 5}}'])
def test_a_line_that_is_not_a_record_has_its_problem(tmp_path: Path, line: str) -> None:
    path = tmp_path / "file"
    path.write_text(line + "\n\n")
    with UndeliveredFile(path) as file:
        (record,) = file.pending()
    assert record.problem


def test_a_line_that_nests_too_deep_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(PENDING + b'"headers": ' + b"[" * 100_000 + b"\n" + PENDING + b'"topic": "t"}\n')
    with UndeliveredFile(path) as file:
        first, second = file.pending()
    assert "RecursionError" in (first.problem or "")
    assert second.line == 2


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    assert checked_path(tmp_path / "new") == tmp_path / "new"
    with pytest.raises(ConfigurationError, match="is a directory"):
        checked_path(tmp_path)
    with pytest.raises(ConfigurationError, match="in no directory that exists"):
        checked_path(tmp_path / "missing" / "file")


async def test_bytes_with_headers_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = records(path)
    _, outcome = keeper.track(ProducerRecord("t", BytesWithHeaders(b"v", [("schema", b"1")])))
    keeper.begin_closing()
    outcome(None, ERROR)
    assert await keeper.write() == 1
    assert lines_of(path)[0]["headers"] == [["schema", "1"]]


async def test_a_cancelled_writing_that_fails_is_a_cancellation_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = records(tmp_path / "file")
    keeper.track(ProducerRecord("t", b"v"))
    keeper.begin_closing()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(undelivered, "_add", fail)
    writing = asyncio.create_task(keeper.write())
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await writing
    assert isinstance(caught.value.__cause__, OSError)
