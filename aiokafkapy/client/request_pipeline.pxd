# Types of request_pipeline.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.nodes.api_versions cimport ApiVersions, NodeApiVersions
from aiokafkapy.client.nodes.client_request cimport ClientRequest, ClientResponse
from aiokafkapy.client.transport.connection cimport BrokerConnection
from aiokafkapy.client.transport.deadline_timer cimport DeadlineTimer
from aiokafkapy.client.transport.node_traffic cimport ClientTraffic
from aiokafkapy.client.nodes.in_flight_requests cimport InFlightRequest, InFlightRequests, written_now

cdef long long _MAX_CORRELATION_ID
cdef double _PROBE_AFTER_SILENCE


@cython.final
cdef class RequestPipeline:
    cdef InFlightRequests _in_flight
    cdef ApiVersions _api_versions
    cdef str _client_id
    cdef double _request_timeout
    cdef object _loop
    cdef DeadlineTimer _timer
    cdef object _log
    cdef object _on_completed
    cdef public long long last_correlation_id
    cdef public object watch
    cdef readonly ClientTraffic traffic
    cdef object _decoding
    cdef list _completed
    cdef bint _is_completing

    @cython.locals(versions=NodeApiVersions)
    cpdef int usable_version(self, ClientRequest request) except -1
    @cython.locals(entry=InFlightRequest, deadline=double, correlation_id=int)
    cpdef write(
        self, BrokerConnection connection, ClientRequest request, int version, double now, object timeout=*, object future=*,
        bint is_internal=*,
    )
    @cython.locals(size=Py_ssize_t)
    cdef _count(self, InFlightRequest entry, object frame, double now)
    cdef _encode(self, ClientRequest request, int version, int correlation_id)
    @cython.locals(request=ClientRequest)
    cpdef decode(self, InFlightRequest entry, bytes frame)
    @cython.locals(newest=InFlightRequest)
    cpdef handle_completed_send(self, object node_id, double now)
    cpdef complete(self, InFlightRequest entry, object body, double now)
    @cython.locals(entry=InFlightRequest, request=ClientRequest, response=ClientResponse)
    cpdef complete_responses(self)


@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _size(object buffers) except -1
