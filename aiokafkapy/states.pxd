# Types of states.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class StateChanges:
    cdef object _table
    cdef list _olds
    cdef list _successors

    @cython.locals(place=Py_ssize_t, after=list)
    cpdef check(self, object old, object new)
