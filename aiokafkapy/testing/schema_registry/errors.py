"""The refusals of a schema registry, with Confluent's codes and texts."""

from __future__ import annotations

__all__ = ["RegistryRefusal", "invalid_schema"]


class RegistryRefusal(Exception):
    """An answer that is an error: HTTP's status, the registry's code, and its text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """HTTP's status: the first three digits of the code."""
        return self.code if self.code < 1_000 else self.code // 100


def invalid_schema(kind: str, text: str, reason: object) -> RegistryRefusal:
    """Refusal 42201, with Confluent's text."""
    shown = text if len(text) <= 500 else f"{text[:500]}..."
    return RegistryRefusal(42201, f"Invalid schema {shown} with refs [] of type {kind}, details: {reason}")
