"""A fork is told to each producer that is alive, and to no other."""

from __future__ import annotations

import gc
import os
import sys
import weakref

import pytest

from aiokafkapy.producer import forks


class Watched:
    def __init__(self) -> None:
        self.told = 0

    def on_fork(self) -> object:
        self.told += 1
        return "inherited"


def test_a_child_tells_those_that_are_watched_and_keeps_their_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    monkeypatch.setattr(forks, "_inherited", kept)
    monkeypatch.setattr(forks, "_watched", weakref.WeakKeyDictionary())
    watched, forgotten = Watched(), Watched()
    forks.watch(watched, Watched.on_fork)
    forks.watch(forgotten, Watched.on_fork)
    forks.forget(forgotten)
    forks._after_fork_in_child()
    assert (watched.told, forgotten.told) == (1, 0)
    assert kept == ["inherited"]
    forks._after_fork_in_child()  # of the child
    assert watched.told == 2


def test_watching_keeps_no_producer_alive() -> None:
    watched = Watched()
    reference = weakref.ref(watched)
    forks.watch(watched, Watched.on_fork)
    del watched
    gc.collect()
    assert reference() is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_real_fork_tells_the_child_only() -> None:
    watched = Watched()
    forks.watch(watched, Watched.on_fork)
    child = os.fork()
    if child == 0:
        os._exit(watched.told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert watched.told == 0
    forks.forget(watched)
