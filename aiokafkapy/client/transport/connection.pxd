# Types of connection.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.nodes.node_readiness cimport WritableConnection
from aiokafkapy.protocol.framing cimport FrameDecoder


cdef class BrokerConnection(WritableConnection):
    cdef readonly object node_id
    cdef readonly str address
    cdef public bint is_closed
    cdef public double last_used
    cdef public double last_received
    cdef object _owner
    cdef FrameDecoder _decoder
    cdef object _transport
    cdef object _write_error

    cpdef write(self, object buffers)
    @cython.locals(frames=list)
    cpdef data_received(self, data)
