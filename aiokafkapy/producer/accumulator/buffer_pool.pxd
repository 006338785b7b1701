# Types of buffer_pool.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class BufferPool:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t reserve
    cdef readonly long long record_limit
    cdef readonly Py_ssize_t held
    cdef readonly Py_ssize_t kept_bytes
    cdef readonly long long kept_records

    cpdef bint try_acquire(self, Py_ssize_t size) except -1
    cpdef bint try_acquire_reserved(self, Py_ssize_t size) except -1
    cpdef charge(self, Py_ssize_t size)
    cpdef release(self, Py_ssize_t size)
    cpdef lend(self)
    cpdef take_back(self)
