# Types of framing.py for its compiled form. See there for what they mean.

cimport cython

cdef Py_ssize_t _SIZE_BYTES


@cython.final
cdef class FrameDecoder:
    cdef readonly Py_ssize_t max_size
    cdef bytes _prefix
    cdef list _chunks
    cdef Py_ssize_t _missing

    @cython.locals(position=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
    cpdef list feed(self, bytes data)
    @cython.locals(chunk=bytes)
    cdef Py_ssize_t _continue_frame(self, bytes data, Py_ssize_t position, list frames) except -1
    @cython.locals(size=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t _checked_size(self, bytes data, Py_ssize_t position) except -1
