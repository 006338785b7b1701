"""A coordinator without groups."""

from __future__ import annotations

import pytest

from .callers import Groups


@pytest.fixture
def groups() -> Groups:
    return Groups()
