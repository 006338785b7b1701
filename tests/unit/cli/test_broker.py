"""``aiokafkapy broker``: its steps before there is a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiokafkapy.cli import broker

resource = pytest.importorskip("resource", reason="a system without limits of descriptors")


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_broker_may_have_as_many_connections_as_the_system_lets_it(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hard = limits
    low = 512
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    monkeypatch.setattr(broker, "DESCRIPTORS", low + 100)
    broker.allow_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (low + 100, hard)
    monkeypatch.setattr(broker, "DESCRIPTORS", low)
    broker.allow_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (low + 100, hard)  # never lowered
