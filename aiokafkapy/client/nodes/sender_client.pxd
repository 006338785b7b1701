# Types of sender_client.py for its compiled form. They are documented there.

from aiokafkapy.client.nodes.client_request cimport ClientRequest


cdef class SenderClient:
    cdef public object wakeup

    cpdef bint ready(self, object node, double now) except -1
    cpdef post(self, ClientRequest request, double now)
