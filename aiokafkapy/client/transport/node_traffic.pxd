# Types of node_traffic.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.transport.traffic_counts cimport TrafficCounts
from aiokafkapy.observability.window cimport Window


@cython.final
cdef class NodeCounts:
    cdef readonly TrafficCounts traffic
    cdef readonly Window latency


@cython.final
cdef class NodeTraffic:
    cdef dict _nodes

    cpdef record_request(self, object node_id, Py_ssize_t size, double now)
    @cython.locals(node=NodeCounts)
    cpdef record_response(self, object node_id, Py_ssize_t size, double seconds, double now)
    @cython.locals(node=NodeCounts)
    cdef NodeCounts _node(self, object node_id, double now)


@cython.final
cdef class ClientTraffic:
    cdef readonly TrafficCounts counts
    cdef public NodeTraffic by_node

    cpdef record_request(self, object node_id, Py_ssize_t size, double now)
    cpdef record_response(self, object node_id, Py_ssize_t size, double seconds, double now)
