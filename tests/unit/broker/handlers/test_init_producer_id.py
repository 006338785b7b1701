"""InitProducerId: new ids, also for a producer that has one already."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.protocol.api import ApiKey

from .harness import Harness, OpenHarness


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(harness: Harness, version: int) -> None:
    ids = [
        harness.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout=1) for _ in range(2)
    ]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in ids] == [(0, 0, 0), (0, 1, 0)]


@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_id_keeps_its_producer_id(harness: Harness, version: int) -> None:
    node_id = harness.coordinator_id("tx")
    fields = {"transactional_id": "tx", "transaction_timeout": 1_000}
    found = [harness.call(ApiKey.INIT_PRODUCER_ID, version, node_id=node_id, **fields) for _ in range(2)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in found] == [(0, 0, 0), (0, 0, 1)]
    other = node_id % 3 + 1
    assert harness.call(ApiKey.INIT_PRODUCER_ID, version, node_id=other, **fields).error_code == 16
    too_long = fields | {"transaction_timeout": 900_001}
    assert harness.call(ApiKey.INIT_PRODUCER_ID, version, node_id=node_id, **too_long).error_code == 50
    if version >= 3:
        fenced = fields | {"producer_id": 0, "producer_epoch": 7}
        code = harness.call(ApiKey.INIT_PRODUCER_ID, version, node_id=node_id, **fenced).error_code
        assert code == (90 if version >= 4 else 47)


async def test_a_producer_that_names_its_id_gets_a_new_one(harness: Harness) -> None:
    """As Kafka does without a transactional id."""
    harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None)
    again = harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=0, producer_epoch=3)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 1, 0)
    assert harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=0).error_code == 42


async def test_an_id_that_cannot_be_reserved_on_disk_is_a_storage_error(
    open_harness: OpenHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = open_harness(data_dir=tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None).error_code == 56
    monkeypatch.undo()
    assert harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None).error_code == 0
