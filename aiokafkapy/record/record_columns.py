"""Chooses the form of the kernel that reads batches into columns: compiled, or its Python twin.

Owns the choice only, as `builder` does for the byte kernel; both forms have the same names and give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _form

if TYPE_CHECKING:
    from ._columns_kernel_py import OFFSET_MAX, RecordColumns
elif _form.compiled:
    from ._columns_kernel import OFFSET_MAX, RecordColumns
else:
    from ._columns_kernel_py import OFFSET_MAX, RecordColumns

__all__ = ["OFFSET_MAX", "RecordColumns"]
