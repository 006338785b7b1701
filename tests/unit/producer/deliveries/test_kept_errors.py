"""Kept errors, and the copies that are raised."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from aiokafkapy.errors import KafkaError, RecordTooLargeError, SerializationError
from aiokafkapy.producer.deliveries.kept_errors import fresh_error, kept_error


def refuse() -> NoReturn:
    raise LookupError("no such order")


def raised() -> SerializationError:
    """An error like one of a user's serializer."""
    try:
        try:
            refuse()
        except LookupError as error:
            raise SerializationError("the value cannot be serialized", topic="orders") from error
    except SerializationError as error:
        return error


def test_neither_it_nor_its_causes_have_frames() -> None:
    error = raised()
    kept = kept_error(error)
    assert type(kept) is SerializationError
    assert (str(kept), kept.topic) == (str(error), "orders")
    assert (kept.__traceback__, kept.__context__) == (None, None)
    assert isinstance(kept.__cause__, LookupError)
    assert (kept.__cause__.__traceback__, kept.__cause__.__context__) == (None, None)
    assert error.__traceback__ is not None
    assert error.__cause__ is not None
    assert error.__cause__.__traceback__ is not None


def test_a_note_says_where_an_error_of_somebody_elses_was_raised() -> None:
    cause: Any = kept_error(raised()).__cause__
    assert cause.__notes__ == [f"raised in {__file__}, line {refuse.__code__.co_firstlineno + 1}, in refuse"]
    assert not hasattr(raised().__cause__, "__notes__")


def test_a_copy_for_a_reader_has_the_same_cause() -> None:
    kept = kept_error(raised())
    copies = [fresh_error(kept), fresh_error(kept)]
    assert {id(copy.__cause__) for copy in copies} == {id(kept.__cause__)}
    with pytest.raises(SerializationError):
        raise copies[0]
    assert copies[1].__traceback__ is None
    assert kept.__traceback__ is None


def test_an_error_that_is_its_own_cause_ends() -> None:
    error = KafkaError("a")
    error.__cause__ = error
    assert str(kept_error(error)) == "a"


class TakesTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class CopiesNothing(Exception):
    def __copy__(self) -> None:
        return None


class RefusesNotes(Exception):
    def add_note(self, note: str) -> NoReturn:
        raise RuntimeError(note)


class RefusesToBeReduced(Exception):
    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError(protocol)


@pytest.mark.parametrize(
    "hostile", [TakesTwo(1, 2), CopiesNothing("no"), RefusesNotes("no"), RefusesToBeReduced("no")], ids=repr
)
def test_an_error_that_cannot_be_copied_is_kept_as_it_is(hostile: Exception) -> None:
    with pytest.raises(type(hostile)) as caught:
        raise hostile
    assert kept_error(caught.value) is hostile
    error = RecordTooLargeError("too large", size=2, limit=1)
    error.__cause__ = hostile
    kept = kept_error(error)
    assert kept is not error
    assert kept.__cause__ is hostile
