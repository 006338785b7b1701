"""``raise_all``: the errors of many records as one ExceptionGroup, so that ``except*`` deals with each kind (PEP 654).

Owns the choice of the outcomes that are errors, and the group's message. It knows no producer. Java has no
counterpart: there each record's future, or callback, tells its error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from ...errors import KafkaError
from .delivery import Delivery

__all__ = ["raise_all"]

MOST_NAMED: Final = 5
"""Kinds of errors that the group's message names."""


@runtime_checkable
class TableOutcome(Protocol):
    """The part of ``TableMetadata`` that is needed here."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def failed(self) -> Mapping[int, BaseException]:
        """Row number → error."""


Outcomes: TypeAlias = Iterable[object] | TableOutcome
"""Deliveries and errors, or whatever else ``gather`` has returned."""


def raise_all(outcomes: Outcomes) -> None:
    """Raise an ExceptionGroup of all errors among ``outcomes``; return if there are no errors.

    They are the results of ``send_many`` and ``send_arrow`` with ``return_exceptions=True``, those of
    ``asyncio.gather``, or deliveries that are done. Each error has a note with its place among them, counted from 0,
    its kind (retriable, abortable, fatal, or with an unknown outcome), and its remedy.

    Raises ``asyncio.InvalidStateError`` for a delivery without an outcome, and a BaseExceptionGroup if an error is a
    CancelledError, for example.
    """
    if isinstance(outcomes, TableOutcome):
        count, what, errors = outcomes.rows, "rows", list(outcomes.failed.items())
    else:
        found = list(_errors(outcomes))
        count, what, errors = len(found), "records", [(place, error) for place, error in enumerate(found) if error]
    if not errors:
        return
    for place, error in errors:
        note = f"{what[:-1]} {place}{_verdict(error)}"
        if note not in getattr(error, "__notes__", ()):  # an error that is looked at twice gets one note
            error.add_note(note)
    kinds = Counter(type(error).__name__ for _, error in errors).most_common()
    named = ", ".join(f"{number} {name}" for name, number in kinds[:MOST_NAMED])
    more = "" if len(kinds) <= MOST_NAMED else ", …"
    raise BaseExceptionGroup(f"{len(errors)} of {count} {what} failed: {named}{more}", [error for _, error in errors])


def _errors(outcomes: Iterable[object]) -> Iterator[BaseException | None]:
    for outcome in outcomes:
        error = outcome.exception() if isinstance(outcome, Delivery) else outcome
        yield error if isinstance(error, BaseException) else None


def _verdict(error: BaseException) -> str:
    if not isinstance(error, KafkaError):
        return ""
    found = {
        "outcome unknown": error.outcome_unknown,
        "retriable": error.retriable,
        "abortable": error.abortable,
        "fatal": error.fatal,
    }
    verdict = ", ".join(name for name, is_so in found.items() if is_so) or "not retriable"
    return f" ({verdict}): {error.remedy}"
