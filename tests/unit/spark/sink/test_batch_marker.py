from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.spark.sink.batch_marker import BatchMarker, ExactlyOnceError, RowSum, TaskPlace

PLACE = TaskPlace("q", 4, 2)
BYTES = st.none() | st.binary(max_size=8)
ROWS = st.lists(st.tuples(BYTES, BYTES), max_size=30)


def table(rows: list[tuple[bytes | None, bytes | None]], kind: Any = None) -> Any:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    kind = kind or pa.binary()
    return pa.RecordBatch.from_arrays([pa.array(keys, kind), pa.array(values, kind)], ["key", "value"])


def found(*batches: Any) -> RowSum:
    rows = RowSum()
    for batch in batches:
        rows.add(batch)
    return rows


@given(rows=ROWS, other=ROWS, cuts=st.lists(st.integers(0, 30), max_size=4), order=st.randoms())
def test_the_same_rows_have_the_same_marker_in_any_order_and_any_batches(
    rows: list[Any], other: list[Any], cuts: list[int], order: Any
) -> None:
    marker = BatchMarker.of(PLACE, found(table(rows)))
    shuffled = list(rows)
    order.shuffle(shuffled)
    pieces = [
        table(shuffled).slice(a, b - a)
        for a, b in pairwise(sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)}))
    ]
    marker.check(PLACE, found(*pieces))
    assert BatchMarker.decode(marker.encode()) == marker

    def in_order(given: list[Any]) -> list[tuple[bytes, bytes]]:
        return sorted((key or b"", value or b"") for key, value in given)

    if in_order(rows) != in_order(other):
        with pytest.raises(
            ExactlyOnceError, match=f"micro-batch 4 of query q, Spark partition 2: {len(rows)} rows are"
        ):
            marker.check(PLACE, found(table(other)))


def test_texts_count_as_their_bytes_and_keys_may_be_missing() -> None:
    rows: list[tuple[Any, Any]] = [("ä", "1"), (None, "2")]
    encoded: list[tuple[Any, Any]] = [("ä".encode(), b"1"), (None, b"2")]
    expected = found(table(encoded))
    assert expected.rows == 2
    for kind in (pa.string(), pa.large_string()):
        assert found(table(rows, kind)).checksum == expected.checksum
    assert found(table(encoded, pa.large_binary())).checksum == expected.checksum
    alone = table([(None, b"1"), (None, b"2")])
    assert found(alone.select(["value"])).checksum == found(alone).checksum


def test_a_value_in_the_keys_place_is_another_row() -> None:
    assert found(table([(b"1", b"2")])).checksum != found(table([(b"2", b"1")])).checksum


@pytest.mark.parametrize(("batch_id", "covered"), [(3, False), (4, True), (5, True)])
def test_a_marker_covers_its_micro_batch_and_those_before(batch_id: int, covered: bool) -> None:
    marker = BatchMarker(batch_id, 1, 1)
    assert marker.covers(PLACE) is covered
    if batch_id != 4:
        marker.check(PLACE, RowSum())  # nothing is known of their rows


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"batch": 1, "rows": 2, "checksum": "x"}', b"\xff"])
def test_a_record_that_is_not_a_marker_is_shown(value: bytes) -> None:
    with pytest.raises(ExactlyOnceError, match="nothing else may write to that topic"):
        BatchMarker.decode(value)


def test_names_of_a_place() -> None:
    assert PLACE.key == b"q/2"
    assert PLACE.transactional_id("shop") == "shop-q-2"
    assert PLACE._replace(batch_id=5).key == PLACE.key
