"""Logs in memory and on files, and topics on files, that a test opens again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.storage.log import PartitionLog
from aiokafkapy.broker.storage.log_storage import FileStorage, MemoryStorage, OpenFiles
from aiokafkapy.broker.storage.topic_config import TopicConfig
from aiokafkapy.broker.storage.topics import TopicRegistry

from .logs import OpenLog, OpenRegistry


@pytest.fixture(params=["memory", "files"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLog]:
    """Opens a log with these topic options; a second call opens the same files again."""
    files = OpenFiles()

    def open_log(**options: str) -> PartitionLog:
        config = TopicConfig(BrokerConfig(), {name.replace("_", "."): value for name, value in options.items()})
        is_memory = request.param == "memory"
        return PartitionLog("t", 0, config, MemoryStorage() if is_memory else FileStorage(tmp_path / "0", files))

    yield open_log
    files.close()


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., PartitionLog]]:
    files = OpenFiles()

    def reopen(newest_epoch: int = 100, **options: str) -> PartitionLog:
        config = TopicConfig(BrokerConfig(), {name.replace("_", "."): value for name, value in options.items()})
        return PartitionLog("t", 0, config, FileStorage(tmp_path / "0", files), newest_epoch=newest_epoch)

    yield reopen
    files.close()


@pytest.fixture
def open_registry(tmp_path: Path) -> Iterator[OpenRegistry]:
    """Opens the same folder each time; with ``nodes`` nodes."""
    opened: list[TopicRegistry] = []

    def open_registry(nodes: int = 3, *, in_memory: bool = False, **config: object) -> TopicRegistry:
        data_dir = None if in_memory else tmp_path
        registry = TopicRegistry(BrokerConfig.of(**config), range(1, nodes + 1), data_dir=data_dir)
        opened.append(registry)
        return registry

    yield open_registry
    for registry in opened:
        registry.close()
