# Types of client_request.py for its compiled form. They are documented there.

cimport cython


cdef class ClientRequest:
    cdef readonly object node_id
    cdef readonly object api_key
    cdef readonly object build
    cdef readonly object timeout
    cdef readonly bint expects_response
    cdef readonly object min_version
    cdef readonly object max_version
    cdef readonly object encode
    cdef readonly object decode
    cdef readonly object callback

    cpdef object frame(self, int version, int correlation_id, str client_id)
    cpdef object read(self, int version, bytes frame)
    cpdef hand_out(self, ClientResponse response)


@cython.final
cdef class ClientResponse:
    cdef readonly ClientRequest request
    cdef readonly int version
    cdef readonly object body
    cdef readonly bint disconnected
    cdef readonly bint timed_out
    cdef readonly object error
    cdef readonly double latency
    cdef readonly bint was_sent
    cdef readonly double completed_at


@cython.locals(response=ClientResponse)
cpdef ClientResponse answered(ClientRequest request, int version, object body, double latency, double now)
