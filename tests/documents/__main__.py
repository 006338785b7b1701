"""``python -m tests.documents``: write the generated parts of the documentation anew."""

from __future__ import annotations

from .pages import write

write()
