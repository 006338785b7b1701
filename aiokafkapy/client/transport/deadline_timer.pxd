# Types of deadline_timer.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class DeadlineTimer:
    cdef readonly double deadline
    cdef object _loop
    cdef object _on_deadline
    cdef object _handle
    cdef bint _is_cancelled

    cpdef arm(self, double deadline)
