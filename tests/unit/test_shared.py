"""The shared resources of a chain of tests: started once, ended together, and not tried again where it does not
start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.shared import SHARED, Shared


class Steps(list[str]):
    """Contexts that tell when they are entered and left."""

    @contextlib.contextmanager
    def context(self, name: str) -> Iterator[str]:
        self.append(f"start {name}")
        yield name
        self.append(f"end {name}")


def test_each_is_started_once_and_the_last_ends_first() -> None:
    shared, steps = Shared(), Steps()
    for name in ("node", "spark", "node"):
        assert shared.enter(name, lambda name=name: steps.context(name)) == name  # type: ignore[misc]
    assert steps == ["start node", "start spark"]
    shared.close()
    assert steps == ["start node", "start spark", "end spark", "end node"]
    shared.close()
    assert shared.enter("node", lambda: steps.context("node")) == "node"
    assert steps[-1] == "start node"
    shared.close()


def test_a_start_that_failed_is_not_tried_again_before_the_end() -> None:
    shared, tries = Shared(), []

    @contextlib.contextmanager
    def broken() -> Iterator[None]:
        tries.append(1)
        if tries:
            pytest.skip("no Java")
        yield

    for _ in range(3):
        with pytest.raises(pytest.skip.Exception, match="no Java"):
            shared.enter("node", broken)
    assert tries == [1]
    shared.close()
    with pytest.raises(pytest.skip.Exception):
        shared.enter("node", broken)
    assert tries == [1, 1]


def test_nothing_is_shared_outside_of_chains() -> None:
    """This test is in none: its process has ended the resources of earlier chains."""
    assert not SHARED.is_used
