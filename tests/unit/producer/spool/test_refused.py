"""The errors that are final, and the lines of refused records."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy import errors
from aiokafkapy.integrations.undelivered import UndeliveredFile
from aiokafkapy.producer.spool.format import SpooledRecord
from aiokafkapy.producer.spool.refused import is_for_good, may_be_of_another, refused_line


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.InvalidRecordError(), True),
        (errors.RecordTooLargeError("x", size=2, limit=1), True),
        (errors.TopicAuthorizationFailedError(), True),
        (errors.InvalidTopicError(), True),
        (errors.NotEnoughReplicasError(), False),
        (errors.UnknownTopicOrPartitionError(), False),
        (errors.DeliveryTimeoutError(), False),
        (errors.PurgedError(), False),
        (errors.SenderCrashedError(), False),
        (OSError(), False),
    ],
)
def test_only_an_error_that_would_come_again_is_for_good(error: Exception, expected: bool) -> None:
    assert is_for_good(error) is expected


def test_an_error_of_the_whole_topic_is_each_records_own() -> None:
    assert may_be_of_another(errors.InvalidTimestampError())
    assert not may_be_of_another(errors.TopicAuthorizationFailedError())


def test_the_lines_are_those_that_produce_resume_reads(tmp_path: Path) -> None:
    path = tmp_path / "refused.jsonl"
    first = SpooledRecord(1, "t", 3, 7, None, b"\xff", (("h", None), ("ü", b"x")), 99)
    second = SpooledRecord(2, "ü", None, 8, "ü".encode(), None, None, 99)
    path.write_bytes(b"".join(refused_line(one, errors.InvalidRecordError("no")) for one in (first, second)))
    with UndeliveredFile(path) as file:
        found = list(file.pending())
    assert [one.problem for one in found] == [None, None]
    assert [one[2:8] for one in found] == [
        ("t", 3, None, b"\xff", (("h", None), ("ü", b"x")), 7),
        ("ü", None, "ü".encode(), None, (), 8),
    ]
    assert b'"error": "InvalidRecordError: no"' in path.read_bytes()


def test_an_error_that_cannot_be_shown_still_has_a_line() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise LookupError("hostile")

    line = refused_line(SpooledRecord(1, "t", 3, 7, None, b"v", None, 99), Unprintable())
    assert b'"error": "Unprintable: its text cannot be made"' in line
