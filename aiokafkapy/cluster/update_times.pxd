# Types of update_times.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class UpdateTimes:
    cdef public bint need_full_update
    cdef public bint need_partial_update
    cdef public double expires_at
    cdef public double allowed_at

    cpdef bint is_due(self, double now) except -1
