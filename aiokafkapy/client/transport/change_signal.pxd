# Types of change_signal.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class ChangeSignal:
    cdef object _loop
    cdef set _waiters

    cpdef notify(self)
