from __future__ import annotations

import asyncio
import sys

import pytest

from aiokafkapy.event_loops import new_event_loop


def test_a_loop_is_uvloops_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_without_uvloop_it_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, asyncio.BaseEventLoop)
