# Types of window.py for its compiled form. They are documented there.

cimport cython

cdef double _WINDOW


@cython.final
cdef class Window:
    cdef Py_ssize_t _count
    cdef Py_ssize_t _old_count
    cdef double _maximum
    cdef double _old_maximum
    cdef double _started
    cdef double _total
    cdef double _old_total

    cpdef record(self, double value, double now, Py_ssize_t count=*)
    cdef _rotate_if_due(self, double now)
    cdef _rotate(self, double now)
