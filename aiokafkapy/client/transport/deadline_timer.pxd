# Types of deadline_timer.py for its compiled form. See there for what they mean.

cimport cython


@cython.final
cdef class DeadlineTimer:
    cdef readonly double deadline
    cdef object _loop
    cdef object _on_deadline
    cdef object _handle
    cdef bint _is_cancelled

    cpdef arm(self, double deadline)
