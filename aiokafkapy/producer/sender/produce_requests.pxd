# Types of produce_requests.py for its compiled form. See there for what they mean.

cimport cython

from aiokafkapy.client.nodes.client_request cimport ClientRequest, ClientResponse, ready_made
from aiokafkapy.cluster.cluster cimport Cluster
from aiokafkapy.producer.sender.in_flight_batches cimport InFlightBatches
from aiokafkapy.producer.metrics cimport SenderMetrics
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch
from aiokafkapy.producer.accumulator.ready_batches cimport ReadyCheckResult
from aiokafkapy.producer.accumulator.record_accumulator cimport RecordAccumulator
from aiokafkapy.protocol.produce cimport (
    PartitionProduceResponse, encode_lone_produce_request, encode_produce_request
)


@cython.final
cdef class ProduceRequests:
    cdef object _client
    cdef object _metadata
    cdef RecordAccumulator _accumulator
    cdef InFlightBatches _in_flight_batches
    cdef SenderMetrics _metrics
    cdef object _clock
    cdef object _compress
    cdef object _wakeup
    cdef int _acks
    cdef int _request_timeout_ms
    cdef Py_ssize_t _max_request_size
    cdef object _min_version
    cdef object _transaction
    cdef readonly dict in_flight

    @cython.locals(cluster=Cluster, delay=double, nodes=list, batches=list, result=ReadyCheckResult, drained=dict)
    cpdef double send_ready(self, double now) except? -1
    @cython.locals(now=double, batches=list, count=Py_ssize_t, index=Py_ssize_t)
    cpdef handle_response(self, SentBatches sent, ClientResponse response)
    @cython.locals(cluster=Cluster, delay=double)
    cdef double _choose_nodes(self, object ready_nodes, list nodes, double now) except? -1
    @cython.locals(cluster=Cluster, batch=ProducerBatch, of_topic=list, topics=list, records=Py_ssize_t, uncompressed=Py_ssize_t)
    cdef _send(self, int node_id, list batches, double now)
    cdef _post(self, ClientRequest request, double now)
    cdef _handle_by_partition(self, SentBatches sent, object body, double now)


@cython.final
cdef class SentBatches:
    cdef ProduceRequests _requests
    cdef readonly list batches
    cdef readonly list topics
    cdef object _transactional_id
    cdef int _acks
    cdef int _timeout_ms

    @cython.locals(batches=list, batch=ProducerBatch)
    cpdef encode(self, int version, int correlation_id, object client_id)
    @cython.locals(batches=list, batch=ProducerBatch, answer=PartitionProduceResponse, index=Py_ssize_t)
    cpdef bint all_is_well(self, list answers) except -1


@cython.locals(batch=ProducerBatch, found=dict)
cdef list _by_topic(list batches)
cdef tuple _number_and_bytes(ProducerBatch batch)
