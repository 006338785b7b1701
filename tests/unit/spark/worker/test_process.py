from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace

import pytest

from aiokafkapy.spark.worker import process


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to the collector."""
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(process, "_settled", 0)
    return done


def pretend(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    main = ModuleType("__main__")
    main.__spec__ = None if name is None else SimpleNamespace(name=name)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.parametrize("name", [None, "pytest", "pyspark_program"])
def test_a_process_of_the_users_own_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, frozen: list[str], name: str | None
) -> None:
    pretend(monkeypatch, name)
    process.settle_in()
    assert not process.is_worker()
    assert frozen == []


@pytest.mark.parametrize("name", ["pyspark.daemon", "aiokafkapy.spark.daemon"])
def test_a_worker_is_frozen_when_it_has_loaded_something(
    monkeypatch: pytest.MonkeyPatch, frozen: list[str], name: str
) -> None:
    pretend(monkeypatch, name)
    process.settle_in()
    process.settle_in()
    assert process.is_worker()
    assert frozen == ["collect", "freeze"]
    for number in range(process.WORTH_IT):
        monkeypatch.setitem(sys.modules, f"made_up_{number}", ModuleType("made_up"))
    process.settle_in()
    assert frozen == ["collect", "freeze"] * 2
