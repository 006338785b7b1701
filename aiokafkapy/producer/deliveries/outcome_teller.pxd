# Types of outcome_teller.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.produce_request_result cimport Teller


cdef class OutcomeTeller(Teller):
    cdef object _loop
    cdef object _jobs
    cdef Py_ssize_t _left
    cdef double _window_ends
    cdef list _told_all

    @cython.locals(now=double)
    cpdef bint may_tell_now(self, Py_ssize_t count, Py_ssize_t cost=*) except -1
    cpdef tell_later(self, object job, Py_ssize_t cost=*)
