"""Decides whether a request equals a recorded one: compares the messages without the fields that differ from run to
run.

Owns the choice of these fields. Pure, and knows no recording: bytes of requests come in, plain values and texts go out.

Left out are: correlation and client ids, versions of software, the rest of a time-out, proofs of identity, the
checksums and times of batches, the epochs of fetch sessions, the offsets that a group commits (which vary), the data
that members of a group exchange, and the member ids that clients choose themselves (KIP-848). Lists of topics and
partitions are sorted. Batches are compared by producer, sequence, codec and records; if payloads were hashed, by the
sizes of keys and values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...client.tap.hidden_fields import has_hidden_value, is_hidden_field
from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import RequestHeader, decode_request
from ...record.batch import RecordBatch, iter_batches

__all__ = ["comparable", "difference"]

_NEVER_COMPARED: Final = frozenset({"client_software_version", "timeout", "reason", "session_epoch"})
_NOT_COMPARED: Final[Mapping[int, frozenset[str]]] = {
    ApiKey.OFFSET_COMMIT: frozenset({"committed_offset", "committed_leader_epoch", "committed_metadata"}),
    ApiKey.JOIN_GROUP: frozenset({"metadata"}),
    ApiKey.SYNC_GROUP: frozenset({"assignment"}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: frozenset({"member_id"}),
    ApiKey.PUSH_TELEMETRY: frozenset({"metrics", "compression_type"}),
}
_MOST_SHOWN: Final = 60
_MOST_DECOMPRESSED: Final = 32 * 1024 * 1024
"""The most bytes of a decompressed batch: a recording may be a stranger's. A larger batch is compared as it is."""


def comparable(
    header: RequestHeader, frame: bytes, *, is_hashed: bool = False, is_hidden: bool = False
) -> dict[str, Any]:
    """The values of a request, given without its size, that are the same in each run; dicts, lists and values.

    ``is_hashed``: payloads count by their sizes. ``is_hidden``: bytes that cannot be decoded do not count.
    """
    try:
        _, body = decode_request(frame)
    except Exception:  # no schema, or not a request
        # Bytes after the API, the version and the correlation id.
        return {"bytes": None if is_hidden or header.api_key < 0 else frame[8:]}
    return _message(body, _NEVER_COMPARED | _NOT_COMPARED.get(header.api_key, frozenset()), is_hashed=is_hashed)


def difference(recorded: object, came: object, place: str = "") -> str:
    """The differences of two requests, in words; empty if they are the same."""
    if isinstance(recorded, dict) and isinstance(came, dict):
        for name in recorded:
            found = difference(recorded[name], came.get(name), f"{place}.{name}" if place else name)
            if found:
                return found
        return ""
    if isinstance(recorded, list) and isinstance(came, list):
        if len(recorded) != len(came):
            return f"{place} has {len(came)} entries, and {len(recorded)} in the recording"
        for number, (mine, other) in enumerate(zip(recorded, came, strict=True)):
            if found := difference(mine, other, f"{place}[{number}]"):
                return found
        return ""
    return "" if recorded == came else f"{place} is {_shown(came)}, and {_shown(recorded)} in the recording"


# internals


def _message(message: Any, left_out: frozenset[str], *, is_hashed: bool) -> dict[str, object]:
    found = {}
    for field in dataclasses.fields(message):
        if field.name not in left_out and not is_hidden_field(field.name):
            found[field.name] = _value(getattr(message, field.name), field.name, left_out, is_hashed=is_hashed)
    if has_hidden_value(message):
        found.pop("value", None)
    return found


def _value(value: object, name: str, left_out: frozenset[str], *, is_hashed: bool) -> object:
    if name == "records" and isinstance(value, bytes | bytearray | memoryview):
        return _batches(bytes(value), is_hashed=is_hashed)
    if dataclasses.is_dataclass(value):
        return _message(value, left_out, is_hashed=is_hashed)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, tuple | list):
        # In any order: clients keep topics and partitions in sets.
        return sorted((_value(each, name, left_out, is_hashed=is_hashed) for each in value), key=repr)
    return value


def _batches(data: bytes, *, is_hashed: bool) -> object:
    try:
        return [_batch(batch, is_hashed=is_hashed) for batch in iter_batches(data)]
    except KafkaError:
        return len(data) if is_hashed else data


def _batch(batch: RecordBatch, *, is_hashed: bool) -> dict[str, object]:
    found = batch.records(max_decompressed_size=_MOST_DECOMPRESSED)
    records = [_record(each.key, each.value, each.headers, is_hashed=is_hashed) for each in found]
    return {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "compression": batch.compression.codec_name,
        "records": records,
    }


def _record(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], *, is_hashed: bool
) -> dict[str, object]:
    def shown(part: bytes | None) -> bytes | str | None:
        return part if part is None or not is_hashed else f"{len(part)} bytes"

    return {
        "key": shown(key),
        "value": shown(value),
        "headers": [[name, shown(part)] for name, part in headers],
    }


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
