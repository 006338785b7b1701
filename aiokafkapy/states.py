"""State machines as tables: the states that may follow each state, checked in one place.

Knows nothing of the states' meaning. Each state machine (connection, batch, group, socket server) exports one
``StateTable`` beside its enum and changes its state only through ``transition``; the documented diagrams are generated
by ``diagram``. The pattern is that of h11's ``_state.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from .errors import IllegalTransitionError

__all__ = ["StateChanges", "StateTable"]

S = TypeVar("S", bound=Enum)


class StateTable(Generic[S]):
    """The legal changes of one state machine; ``initial`` is the state in which every instance starts."""

    __slots__ = ("changes", "initial", "name", "successors")

    def __init__(self, name: str, initial: S, successors: Mapping[S, Iterable[S]]) -> None:
        self.name = name
        self.initial = initial
        self.successors: dict[S, frozenset[S]] = {state: frozenset(after) for state, after in successors.items()}
        self.changes = StateChanges(self)

    def transition(self, old: S, new: S) -> S:
        """Return ``new``; raises IllegalTransitionError when ``new`` may not follow ``old``."""
        self.changes.check(old, new)
        return new

    def can_follow(self, old: S, new: S) -> bool:
        """True when ``new`` may follow ``old``."""
        return new in self.successors.get(old, ())

    def is_final(self, state: S) -> bool:
        """True when nothing follows ``state``."""
        return not self.successors.get(state)

    def diagram(self) -> str:
        """The table as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial.name}"]
        for state, after in self.successors.items():
            lines += [f"    {state.name} --> {new.name}" for new in sorted(after, key=lambda s: s.name)]
            if not after:
                lines.append(f"    {state.name} --> [*]")
        return "\n".join(lines)

    def illegal(self, old: S, new: S) -> IllegalTransitionError:
        """The error of a change that is not allowed."""
        allowed = ", ".join(sorted([state.name for state in self.successors.get(old, ())])) or "nothing: it is final"
        return IllegalTransitionError(
            f"{self.name}: {old.name} → {new.name} is not allowed (after {old.name}: {allowed})"
        )


class StateChanges:
    """The check of a table, for the hot path: unlike a generic class, this one can be compiled.

    States are compared by identity, since hashing an enum member is a Python call.
    """

    __slots__ = ("_olds", "_successors", "_table")

    def __init__(self, table: StateTable[Any]) -> None:
        self._table = table
        self._olds: list[object] = list(table.successors)
        self._successors: list[list[object]] = [list(after) for after in table.successors.values()]

    def check(self, old: object, new: object) -> None:
        """Raise IllegalTransitionError when ``new`` may not follow ``old``."""
        for place, state in enumerate(self._olds):
            if state is old:
                for candidate in self._successors[place]:
                    if candidate is new:
                        return
        raise self._table.illegal(cast("Enum", old), cast("Enum", new))
