"""``finish_serializing``: awaits the results of a waiting record's serializers.

It knows neither batches nor the network. Java has no counterpart: its serializers return bytes.
"""

from __future__ import annotations

import asyncio
from inspect import isawaitable

from ...errors import SerializationError
from ..arguments import check_data, plain_data
from ..serializers import awaited, discard, with_own_headers
from .pending_record import PendingRecord

__all__ = ["finish_serializing"]


async def finish_serializing(record: PendingRecord) -> None:
    """Await a record's async serializers, in the caller's task, then admit it when its turn comes.

    Raises SerializationError; if the time is over or the producer ends meanwhile, the record gets the error.
    """
    key, value = record.key, record.value
    try:
        async with asyncio.timeout_at(record.deadline):
            if isawaitable(key):
                record.key = await awaited("key", record.topic, key)
            if isawaitable(value):
                record.value = await awaited("value", record.topic, value)
        check_data(record.topic, record.key, record.value)
        record.headers = with_own_headers(record.topic, record.headers, record.key, record.value)
        record.key, record.value = plain_data(record.key), plain_data(record.value)
    except SerializationError as error:
        discard(record.key, record.value)  # a serializer's result may be awaitable again
        record.admission.refuse(record, error)
        raise
    except TimeoutError:
        record.admission.expire(record)
    except BaseException:
        record.cancel()
        raise
    else:
        record.admission.proceed(record, record.get_loop().time())
    finally:
        discard(key, value)
