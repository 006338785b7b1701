# Types of in_flight_requests.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.nodes.client_request cimport ClientRequest, ClientResponse, answered


@cython.final
cdef class InFlightRequest:
    cdef readonly ClientRequest request
    cdef readonly int version
    cdef readonly int correlation_id
    cdef readonly object future
    cdef readonly double sent_at
    cdef readonly double deadline
    cdef readonly bint is_internal
    cdef public bint is_written

    cpdef ClientResponse completed(self, object body, double now)


@cython.final
cdef class InFlightRequests:
    cdef Py_ssize_t _max_in_flight
    cdef dict _requests

    @cython.locals(requests=list)
    cpdef add(self, InFlightRequest request)
    @cython.locals(requests=list, oldest=InFlightRequest)
    cpdef InFlightRequest complete_next(self, object node_id)
    @cython.locals(requests=list)
    cpdef InFlightRequest oldest(self, object node_id)
    @cython.locals(requests=list)
    cpdef InFlightRequest complete_last_sent(self, object node_id)
    @cython.locals(requests=list, newest=InFlightRequest)
    cpdef bint can_send_more(self, object node_id) except -1
    @cython.locals(requests=list, request=InFlightRequest)
    cpdef InFlightRequest mark_written(self, object node_id)
    cpdef bint is_empty(self, object node_id) except -1


@cython.locals(entry=InFlightRequest)
cpdef InFlightRequest written_now(
    ClientRequest request, int version, int correlation_id, object future, double now, double deadline, bint is_internal
)
