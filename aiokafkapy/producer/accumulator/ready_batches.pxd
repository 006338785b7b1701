# Types of ready_batches.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.batch_queues cimport BatchQueues
from aiokafkapy.producer.accumulator.batch_sealer cimport BatchSealer
from aiokafkapy.producer.accumulator.partition_queue cimport PartitionQueue
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch
from aiokafkapy.producer.identity.transaction_manager cimport TransactionManager

cdef int NO_LEADER, NO_SEQUENCE
cdef double _NEVER, _TIME_OF_BATCH, _LONGEST_LINGER, _RECHECK
cdef Py_ssize_t _SPLIT_AT_ONCE


@cython.final
cdef class ReadyCheckResult:
    cdef readonly set ready_nodes
    cdef readonly double next_ready_check_delay
    cdef readonly object unknown_leader_topics


@cython.final
cdef class ReadyBatches:
    cdef BatchQueues _queues
    cdef BatchSealer _sealer
    cdef TransactionManager _transaction_manager
    cdef bint _is_linger_adaptive
    cdef double _linger
    cdef double _gathered_for
    cdef double _next_look
    cdef bint _is_hurried
    cdef Py_ssize_t _split_bytes
    cdef public object auto_linger
    cdef public object appender
    cdef public object timer

    @cython.locals(
        queue=PartitionQueue, batch=ProducerBatch, leader=int, queues=dict, next_ready=double, lingers_until=double,
        linger=double, lingers=bint, is_ready=bint, result=ReadyCheckResult,
    )
    cpdef ReadyCheckResult ready(self, object cluster, double now, dict in_flight, bint is_hurried)
    cpdef dict drain(self, object cluster, object node_ids, Py_ssize_t max_request_size, double now)
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch, last=ProducerBatch)
    cdef _note_ready(self, dict queues, double now, bint takes_all)
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch, chosen=list, size=Py_ssize_t)
    cdef list _drain_node(self, dict queues, Py_ssize_t max_request_size, double now)
    cdef bint _make_fit(self, PartitionQueue queue, ProducerBatch batch) except -1
    @cython.locals(linger=double)
    cdef double _gathering_time(self, double now) except -1
    cdef double _own_linger_ends(self, PartitionQueue queue, ProducerBatch batch) except? -1
    cdef bint _must_stay(self, PartitionQueue queue, ProducerBatch batch) except -1
