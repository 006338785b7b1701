# Types of traffic_counts.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.observability.window cimport Window


@cython.final
cdef class TrafficCounts:
    cdef readonly long long requests
    cdef readonly long long responses
    cdef readonly long long bytes_out
    cdef readonly long long bytes_in
    cdef readonly Window sent
    cdef readonly Window received

    cpdef record_request(self, Py_ssize_t size, double now)
    cpdef record_response(self, Py_ssize_t size, double now)
