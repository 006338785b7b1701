"""``DeliveryList``: the outcomes of the records of one bulk call.

Owns the alignment of a bulk call's records with the batches they went into, a span for each batch. It knows no batches,
only their results; deliveries and metadata are made when they are asked for. Java has no counterpart.

Rules: nothing is made for each record, neither when it is accepted nor when its batch is settled, until it is looked
at; and nothing that the cyclic garbage collector would count is kept for each batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, overload

from ..records import RecordMetadata
from .delivery import Delivery, new_delivery, place_of
from .produce_request_result import ProduceRequestResult, SettlementCounter

__all__ = ["DeliveryList"]

_NO_KEY: Final = -1  # the size of a missing key or value


class DeliveryList(Sequence[Delivery]):
    """The outcomes of one bulk call without keys, in the order of its input, without an object for each record.

    ``await`` it for all of them: it never raises a record's error, see ``results()``. A ``Delivery`` is made for each
    record that is asked for by its position.
    """

    __slots__ = ("_firsts", "_length", "_results", "_starts", "_timestamp_ms", "_values")

    def __init__(self, values: Sequence[Any], timestamp_ms: int = -1) -> None:
        # Kept for their sizes, which RecordMetadata tells; so the sizes will do.
        self._values = values
        self._timestamp_ms = timestamp_ms
        self._length = 0
        # Spans, in step: the result, the index there of the first record, and its position here
        self._results: list[ProduceRequestResult] = []
        self._firsts = array("q")
        self._starts = array("q")

    def add_span(self, result: ProduceRequestResult, first_index: int, count: int) -> None:
        """The next ``count`` records are those of ``result`` from ``first_index`` on."""
        if count <= 0:
            return
        start = self._length
        self._length += count
        if (
            self._results
            and self._results[-1] is result
            and self._firsts[-1] + start - self._starts[-1] == first_index  # it follows the records before
        ):
            return
        self._results.append(result)
        self._firsts.append(first_index)
        self._starts.append(start)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Delivery: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Delivery]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._delivery(position) for position in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"record {index} of {self._length}")
        return self._delivery(position)

    def __iter__(self) -> Iterator[Delivery]:
        return (self._delivery(position) for position in range(self._length))

    def done(self) -> bool:
        """True when every record has its outcome."""
        return all(result.is_settled for result in self._results)

    def pending(self) -> Iterator[tuple[ProduceRequestResult, Sequence[int]]]:
        """The places of the records without an outcome: the results that they read, and their indexes there."""
        for start, result, first, count in self._spans():
            if not result.is_moved:
                if not result.is_settled:
                    yield result, range(first, first + count)
                continue
            for position in range(start, start + count):
                delivery = self._delivery(position)
                if not delivery.done():
                    where, index = place_of(delivery)
                    yield where, (index,)

    def __await__(self) -> Generator[Any, None, DeliveryList]:
        counter = SettlementCounter()
        for result in self._results:
            counter.watch(result)
        if not counter.is_settled:
            yield from counter.wait()
        return self

    def results(self) -> list[RecordMetadata | BaseException]:
        """Each record's metadata or error, in order of the input; every record must have its outcome."""
        found: list[RecordMetadata | BaseException] = []
        for start, result, first, count in self._spans():
            if result.has_succeeded:
                metadata = result.metadata
                timestamp = self._timestamp_ms
                for offset in range(count):
                    value_size = self._value_size(start + offset)
                    found.append(metadata(first + offset, timestamp, _NO_KEY, value_size))
            else:
                for position in range(start, start + count):
                    delivery = self._delivery(position)
                    found.append(delivery.exception() or delivery.result())
        return found

    def errors(self) -> Iterator[BaseException]:
        """The errors of the records that failed, in order; every record must have its outcome."""
        for start, result, _, count in self._spans():
            if not result.has_succeeded:
                for position in range(start, start + count):
                    error = self._delivery(position).exception()
                    if error is not None:
                        yield error

    def __repr__(self) -> str:
        return f"<DeliveryList of {self._length} {'done' if self.done() else 'pending'}>"

    # internals

    def _spans(self) -> Iterator[tuple[int, ProduceRequestResult, int, int]]:
        """Each span's position here, its result, the first index there, and how many records it has."""
        ends = [*self._starts[1:], self._length]
        for start, end, result, first in zip(self._starts, ends, self._results, self._firsts, strict=False):
            yield start, result, first, end - start

    def _delivery(self, position: int) -> Delivery:
        span = bisect_right(self._starts, position) - 1
        result, index = self._results[span], self._firsts[span] + position - self._starts[span]
        return new_delivery(result, index, self._timestamp_ms, _NO_KEY, self._value_size(position))

    def _value_size(self, position: int) -> int:
        value = self._values[position]
        return -1 if value is None else value if value.__class__ is int else len(value)
