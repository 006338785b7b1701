# Types of produce_requests.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.client.nodes.client_request cimport ClientRequest, ClientResponse
from aiokafkapy.client.nodes.sender_client cimport SenderClient
from aiokafkapy.cluster.cluster cimport Cluster
from aiokafkapy.producer.sender.in_flight_batches cimport InFlightBatches
from aiokafkapy.producer.metrics cimport SenderMetrics
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch
from aiokafkapy.producer.accumulator.ready_batches cimport ReadyCheckResult
from aiokafkapy.producer.accumulator.record_accumulator cimport RecordAccumulator
from aiokafkapy.protocol.produce_request cimport encode_lone_produce_request, encode_produce_request
from aiokafkapy.protocol.produce_response cimport PartitionProduceResponse, ProduceResponse, decode_produce_response

cdef Py_ssize_t BATCH_HEADER_SIZE
cdef double _NEVER


@cython.final
cdef class ProduceRequests:
    cdef SenderClient _client
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
    cdef object _pipelining
    cdef readonly dict in_flight

    @cython.locals(cluster=Cluster, delay=double, nodes=list, batches=list, result=ReadyCheckResult, drained=dict)
    cpdef double send_ready(self, double now) except? -1
    @cython.locals(
        now=double, batches=list, count=Py_ssize_t, index=Py_ssize_t, body=ProduceResponse,
        answer=PartitionProduceResponse,
    )
    cpdef handle_response(self, ProduceRequest sent, ClientResponse response)
    @cython.locals(delay=double)
    cdef double _choose_nodes(self, Cluster cluster, set ready_nodes, list nodes, double now) except? -1
    @cython.locals(batch=ProducerBatch, records=Py_ssize_t, uncompressed=Py_ssize_t)
    cdef _send(self, Cluster cluster, object node_id, list batches, double now)
    @cython.locals(request=ProduceRequest, batch=ProducerBatch)
    cdef ProduceRequest _new_request(self, Cluster cluster, object node_id, list batches)
    cdef _learn(self, object pipelining, ProduceRequest sent, ClientResponse response, ProduceResponse body, double now)
    cdef _handle_by_partition(self, ProduceRequest sent, ProduceResponse body, double now)


cdef class ProduceRequest(ClientRequest):
    cdef ProduceRequests requests
    cdef readonly list batches
    cdef object topic
    cdef bytes topic_id
    cdef list topics
    cdef object transactional_id
    cdef int acks
    cdef int timeout_ms
    cdef int depth
    cdef long long size

    @cython.locals(batch=ProducerBatch)
    cpdef object frame(self, int version, int correlation_id, str client_id)
    @cython.locals(batch=ProducerBatch, answer=PartitionProduceResponse, index=Py_ssize_t)
    cdef bint all_is_well(self, list answers) except -1
    cdef list by_topic(self)


@cython.locals(batch=ProducerBatch, found=dict)
cdef list _by_topic(Cluster cluster, list batches)
cdef tuple _number_and_bytes(ProducerBatch batch)
