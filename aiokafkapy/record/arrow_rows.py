"""Chooses the form of the kernel that reads rows out of columns: compiled, or its Python twin.

Owns the choice only, as `builder` does for the byte kernel; both forms have the same names and give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _form

if TYPE_CHECKING:
    from ._arrow_kernel_py import PLANNED_ROWS, SLICE_BYTES, ArrowRows, order_of
elif _form.compiled:
    from ._arrow_kernel import PLANNED_ROWS, SLICE_BYTES, ArrowRows, order_of
else:
    from ._arrow_kernel_py import PLANNED_ROWS, SLICE_BYTES, ArrowRows, order_of

__all__ = ["PLANNED_ROWS", "SLICE_BYTES", "ArrowRows", "order_of"]
