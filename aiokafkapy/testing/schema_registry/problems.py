"""The incompatibilities of two schemas, with the texts of Confluent's registry: shared by the rules of all formats."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Problem"]


class Problem(NamedTuple):
    """One broken rule, and its place. ``description`` may name the schemas: ``{new}`` and ``{old}``."""

    kind: str
    description: str
    info: str = ""

    def text(self, *, is_forward: bool) -> str:
        """As an element of ``messages``. Forward, the old schema reads data of the new one."""
        reader, writer = ("old", "new") if is_forward else ("new", "old")
        description = self.description.replace("{reader}", reader).replace("{writer}", writer)
        info = f", additionalInfo:'{self.info}'" if self.info else ""
        return f"{{errorType:'{self.kind}', description:\"{description}\"{info}}}"
