"""State machines as tables."""

from enum import Enum, auto

import pytest

from aiokafkapy.errors import IllegalTransitionError
from aiokafkapy.states import StateTable


class Door(Enum):
    OPEN = auto()
    SHUT = auto()
    WALLED_UP = auto()


TABLE = StateTable(
    "door", Door.OPEN, {Door.OPEN: {Door.SHUT}, Door.SHUT: {Door.OPEN, Door.WALLED_UP}, Door.WALLED_UP: ()}
)


def test_a_legal_change_returns_the_new_state() -> None:
    assert TABLE.transition(Door.OPEN, Door.SHUT) is Door.SHUT


def test_an_illegal_change_names_the_allowed_ones() -> None:
    with pytest.raises(IllegalTransitionError, match=r"door: OPEN → WALLED_UP is not allowed \(after OPEN: SHUT\)"):
        TABLE.transition(Door.OPEN, Door.WALLED_UP)
    with pytest.raises(IllegalTransitionError, match="it is final"):
        TABLE.transition(Door.WALLED_UP, Door.OPEN)


def test_a_state_without_successors_is_final() -> None:
    assert TABLE.is_final(Door.WALLED_UP)
    assert not TABLE.is_final(Door.OPEN)
    assert TABLE.can_follow(Door.SHUT, Door.OPEN)
    assert not TABLE.can_follow(Door.OPEN, Door.OPEN)


def test_the_diagram_has_every_change() -> None:
    diagram = TABLE.diagram()
    assert "[*] --> OPEN" in diagram
    assert "SHUT --> WALLED_UP" in diagram
    assert "WALLED_UP --> [*]" in diagram
