# Types of network_client.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.transport.change_signal cimport ChangeSignal
from aiokafkapy.client.nodes.client_request cimport ClientRequest
from aiokafkapy.client.transport.deadline_timer cimport DeadlineTimer
from aiokafkapy.client.nodes.connection_states cimport ClusterConnectionStates
from aiokafkapy.client.nodes.in_flight_requests cimport InFlightRequest, InFlightRequests
from aiokafkapy.client.metadata_updater cimport MetadataUpdater
from aiokafkapy.client.nodes.node_readiness cimport NodeReadiness
from aiokafkapy.client.nodes.sender_client cimport SenderClient
from aiokafkapy.client.nodes.api_versions cimport throttle_seconds
from aiokafkapy.client.request_pipeline cimport RequestPipeline
from aiokafkapy.client.transport.connection cimport BrokerConnection
from aiokafkapy.client.transport.node_traffic cimport ClientTraffic
from aiokafkapy.protocol.framing cimport decode_correlation_id


@cython.final
cdef class NetworkClient(SenderClient):
    cdef readonly NodeReadiness nodes
    cdef ClusterConnectionStates _states
    cdef InFlightRequests _in_flight
    cdef dict _connections
    cdef object _loop
    cdef object _time
    cdef object _metadata
    cdef double _request_timeout
    cdef double _max_idle
    cdef object _state
    cdef object _sockets
    cdef readonly object connection_counts
    cdef DeadlineTimer _timer
    cdef double _metadata_at
    cdef double _notify_at
    cdef ChangeSignal _changed
    cdef object _log
    cdef RequestPipeline _pipeline
    cdef object _handshake
    cdef object _authenticator
    cdef MetadataUpdater _updater
    cdef readonly object watch
    cdef readonly ClientTraffic traffic

    cpdef bint is_ready(self, object node, double now) except -1
    @cython.locals(version=int)
    cdef _post(self, ClientRequest request, double now, object future)
    @cython.locals(now=double, frame=bytes)
    cpdef on_frames(self, BrokerConnection connection, list frames)
    @cython.locals(entry=InFlightRequest, correlation_id=int)
    cdef _handle_completed_receive(self, BrokerConnection connection, bytes frame, double now)
    @cython.locals(seconds=double)
    cdef _maybe_throttle(self, InFlightRequest entry, object body, double now)
    cpdef _notify(self)
