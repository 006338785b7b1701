# Types of framing.py for its compiled form. They are documented there.

cimport cython

cdef Py_ssize_t _INT32_BYTES
cdef long long _SIGN


@cython.final
cdef class FrameDecoder:
    cdef readonly Py_ssize_t max_size
    cdef bytes _prefix
    cdef list _chunks
    cdef Py_ssize_t _missing

    @cython.locals(position=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, raw="const char *")
    cpdef list feed(self, bytes data)
    @cython.locals(chunk=bytes)
    cdef Py_ssize_t _continue_frame(self, bytes data, Py_ssize_t position, list frames) except -1
    @cython.locals(size="long long")
    cdef Py_ssize_t _checked_size(self, bytes data, Py_ssize_t position) except -1


cpdef long long decode_correlation_id(bytes frame) except? -1
@cython.locals(value="long long", raw="const unsigned char *")
cpdef long long int32_at(bytes data, Py_ssize_t position) except? -1
