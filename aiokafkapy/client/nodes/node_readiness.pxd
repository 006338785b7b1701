# Types of node_readiness.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.nodes.api_versions cimport ApiVersions
from aiokafkapy.client.nodes.connection_states cimport ClusterConnectionStates
from aiokafkapy.client.nodes.in_flight_requests cimport InFlightRequests


cdef class WritableConnection:
    cdef public bint is_writable


@cython.final
cdef class NodeReadiness:
    cdef readonly ClusterConnectionStates states
    cdef readonly InFlightRequests in_flight
    cdef readonly ApiVersions api_versions
    cdef readonly dict connections
    cdef dict _round_trips

    @cython.locals(connection=WritableConnection)
    cpdef bint can_send_request(self, object node_id, double now) except -1
