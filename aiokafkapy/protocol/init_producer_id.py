"""The InitProducerId request of a producer without transactions, and its response, versions 0 to 5, without kio.

Kafka's counterparts are ``InitProducerIdRequest`` and ``InitProducerIdResponse``. Version 2 is flexible, 3 may name the
id and the epoch so far (KIP-360). Invalid bytes raise MalformedFrameError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from ..common import Buffer
from .api import ApiKey
from .codec import read_response
from .cursor import Cursor, read_int16, read_int32, read_int64

__all__ = ["InitProducerIdRequest", "InitProducerIdResponse"]

_FIRST_FLEXIBLE: Final = 2
_FIRST_WITH_PRODUCER_ID: Final = 3
_NO_PRODUCER_ID: Final = Struct(">qh").pack(-1, -1)


class InitProducerIdRequest:
    """The request for a new id, in one version."""

    __slots__ = ("__version__", "transaction_timeout_ms")

    __api_key__: Final = ApiKey.INIT_PRODUCER_ID

    def __init__(self, version: int, transaction_timeout_ms: int) -> None:
        self.__version__ = version
        self.transaction_timeout_ms = transaction_timeout_ms

    def append_to(self, append: Callable[[Buffer], object]) -> None:
        """Give its bytes, in pieces and in order, to ``append``."""
        is_flexible = self.__version__ >= _FIRST_FLEXIBLE
        append(b"\0" if is_flexible else b"\xff\xff")  # no transactional id
        append(self.transaction_timeout_ms.to_bytes(4))
        if self.__version__ >= _FIRST_WITH_PRODUCER_ID:
            append(_NO_PRODUCER_ID)
        if is_flexible:
            append(b"\0")


class InitProducerIdResponse(NamedTuple):
    """The response of any version."""

    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int

    @classmethod
    def read(cls, version: int, frame: bytes) -> InitProducerIdResponse:
        """From a response's frame, without its size; raises MalformedFrameError."""
        read = partial(_read, version >= _FIRST_FLEXIBLE)
        response: InitProducerIdResponse = read_response(ApiKey.INIT_PRODUCER_ID, version, frame, read)[1]
        return response


def _read(is_flexible: bool, cursor: Cursor) -> InitProducerIdResponse:
    response = InitProducerIdResponse(read_int32(cursor), read_int16(cursor), read_int64(cursor), read_int16(cursor))
    if is_flexible:
        cursor.skip_tags()
    return response
