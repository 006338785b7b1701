"""State machines as tables: which state may follow which, checked in one place.

Knows nothing of the states' meaning. Each state machine (connection, batch, group, socket server) exports one
``StateTable`` beside its enum and changes its state only through ``transition``; the documented diagrams are generated
by ``diagram``. The pattern is that of h11's ``_state.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, TypeVar

from .errors import IllegalTransitionError

__all__ = ["StateTable"]

S = TypeVar("S", bound=Enum)


class StateTable(Generic[S]):
    """The legal changes of one state machine; ``initial`` is where every instance starts."""

    __slots__ = ("_allowed", "initial", "name", "successors")

    def __init__(self, name: str, initial: S, successors: Mapping[S, Iterable[S]]) -> None:
        self.name = name
        self.initial = initial
        self.successors: dict[S, frozenset[S]] = {state: frozenset(after) for state, after in successors.items()}
        # Searched by identity: hashing an enum member is a Python call, and batches change state on the hot path.
        self._allowed = [(state, tuple(after)) for state, after in self.successors.items()]

    def transition(self, old: S, new: S) -> S:
        """Return ``new``; raises IllegalTransitionError when ``new`` may not follow ``old``."""
        for state, after in self._allowed:
            if state is old:
                for candidate in after:
                    if candidate is new:
                        return new
        raise self._illegal(old, new)

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

    def _illegal(self, old: S, new: S) -> IllegalTransitionError:
        allowed = ", ".join(sorted([state.name for state in self.successors.get(old, ())])) or "nothing: it is final"
        return IllegalTransitionError(
            f"{self.name}: {old.name} → {new.name} is not allowed (after {old.name}: {allowed})"
        )
