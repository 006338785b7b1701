"""The root of the error tree, the fields of every error of aiokafkapy, and the bases that more than one module
needs.
"""

from __future__ import annotations

import copy
from typing import ClassVar, Self

__all__ = [
    "AuthenticationFailedError",
    "BrokerError",
    "InvalidMetadataError",
    "KafkaConnectionError",
    "KafkaError",
    "RetriableBrokerError",
]


class Remedy:
    """``KafkaError.remedy``, for a class and for an instance alike."""

    __slots__ = ()

    def __get__(self, error: object, kind: type[BaseException]) -> str:
        from .remedies import remedy_of

        return remedy_of(kind)


class KafkaError(Exception):
    """Root of all errors raised by aiokafkapy.

    ``retriable``: the same call may work later; a SerializationError takes the flag from its cause. ``abortable``:
    another transaction may work, after this one is aborted. ``fatal``: the producer can only be closed; an instance may
    differ from its class. ``outcome_unknown``: the record may or may not be on the broker (it was sent, and no answer
    said which). ``remedy``: the remedy, in a line.

    ``invalid_metadata``: the client's view of the cluster was stale. ``topic``, ``partition``: the place, when
    known.
    """

    code: ClassVar[int | None] = None
    retriable: bool = False
    abortable: ClassVar[bool] = False
    fatal: bool = False
    invalid_metadata: ClassVar[bool] = False
    remedy: ClassVar[Remedy] = Remedy()

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message or self.summary())
        self.topic = topic
        self.partition = partition
        self.outcome_unknown = outcome_unknown

    @classmethod
    def summary(cls) -> str:
        """The error's own sentence: the first line of its docstring."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    def fresh(self) -> Self:
        """A copy without a traceback, with the same cause, so that many waiters can each raise their own."""
        twin = copy.copy(self)
        notes = getattr(self, "__notes__", None)
        if notes is not None:
            twin.__notes__ = [*notes]  # or a note added to one would be added to all
        twin.__cause__ = self.__cause__
        twin.__suppress_context__ = self.__suppress_context__
        return twin.with_traceback(None)


class BrokerError(KafkaError):
    """A broker answered with an error code."""


class RetriableBrokerError(BrokerError):
    """A broker's error that may pass by itself."""

    retriable = True


class InvalidMetadataError(RetriableBrokerError):
    """A retriable error which says that the client's metadata is stale, so it is fetched again first."""

    invalid_metadata = True


class KafkaConnectionError(KafkaError, ConnectionError):
    """No broker could be reached."""

    retriable = True


class AuthenticationFailedError(KafkaConnectionError):
    """The broker refused the credentials."""

    retriable = False
