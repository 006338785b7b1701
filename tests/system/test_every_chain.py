"""The chains of ``tests.chains``, compared with the existing tests. Unit tests are run apart from the others."""

from __future__ import annotations

import pytest

from tests.chains import CHAINS, chain_of


def test_every_chain_has_tests(request: pytest.FixtureRequest) -> None:
    """A pattern that no test's id fits any more, as after a file was renamed, would let clusters be started anew."""
    collected = {chain_of(item.nodeid) for item in request.session.items}
    if "spark" not in collected or "one node" not in collected:
        pytest.skip("not all tests were collected")
    assert collected >= CHAINS.keys() - {"project"}
