# Types of node_readiness.py for its compiled form. See there for what they mean.

from aiokafkapy.client.nodes.api_versions cimport ApiVersions
from aiokafkapy.client.nodes.connection_states cimport ClusterConnectionStates
from aiokafkapy.client.nodes.in_flight_requests cimport InFlightRequests


cdef class NodeReadiness:
    cdef readonly ClusterConnectionStates _states
    cdef readonly InFlightRequests _in_flight
    cdef readonly ApiVersions _api_versions
    cdef readonly dict _connections

    cpdef bint can_send_request(self, int node_id, double now) except -1
