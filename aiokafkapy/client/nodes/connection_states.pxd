# Types of connection_states.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class ClusterConnectionStates:
    cdef object _reconnect_backoff
    cdef object _setup_timeout
    cdef dict _states
    cdef set _connecting

    @cython.locals(state=NodeConnectionState)
    cpdef bint can_connect(self, object node_id, double now) except -1
    @cython.locals(state=NodeConnectionState)
    cpdef bint is_ready(self, object node_id, double now) except -1
    @cython.locals(state=NodeConnectionState)
    cpdef double usable_at(self, object node_id) except? -1


@cython.final
cdef class NodeConnectionState:
    cdef readonly object host
    cdef readonly int port
    cdef public object peer_name
    cdef public object state
    cdef public double last_attempt
    cdef public double retry_at
    cdef public Py_ssize_t failed_attempts
    cdef public double setup_timeout
    cdef public double setup_deadline
    cdef public Py_ssize_t failed_setups
    cdef public tuple addresses
    cdef Py_ssize_t _address_index
    cdef public bint was_closed_unanswered
    cdef public bint is_listener_known
    cdef public bint was_closed_at_request
    cdef public bint is_known_without_sasl
    cdef public double throttled_until
    cdef public object authentication_error
    cdef public object last_error
