"""The version of this package, which clients tell brokers (KIP-511). ``pyproject.toml`` has the same."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
