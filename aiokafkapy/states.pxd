# Types of states.py for its compiled form. See there for what they mean.

cimport cython


@cython.final
cdef class StateTable:
    cdef readonly str name
    cdef readonly object initial
    cdef readonly dict successors
    cdef list _allowed

    @cython.locals(after=tuple)
    cpdef transition(self, object old, object new)
