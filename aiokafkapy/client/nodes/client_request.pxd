# Types of client_request.py for its compiled form. See there for what they mean.

cimport cython


@cython.final
cdef class ClientRequest:
    cdef readonly int node_id
    cdef readonly object api_key
    cdef readonly object build
    cdef readonly object timeout
    cdef readonly bint expects_response
    cdef readonly object min_version
    cdef readonly object max_version
    cdef readonly object encode
    cdef readonly object decode
    cdef readonly object callback


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


@cython.locals(request=ClientRequest)
cpdef ClientRequest ready_made(
    int node_id, object api_key, bint expects_response, object min_version, object max_version,
    object encode, object decode, object callback,
)
@cython.locals(response=ClientResponse)
cpdef ClientResponse answered(ClientRequest request, int version, object body, double latency)
