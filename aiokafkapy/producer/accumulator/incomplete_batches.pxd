# Types of incomplete_batches.py for its compiled form. See there for what they mean.

cimport cython


@cython.final
cdef class IncompleteBatches:
    cdef dict _batches
    cdef readonly long long delivered
    cdef readonly long long failed
    cdef public object teller

    cpdef add(self, object batch)
    cpdef settled(self, object batch, Py_ssize_t delivered, Py_ssize_t failed)
