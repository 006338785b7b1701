# Types of record_accumulator.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.batch_queues cimport BatchQueues
from aiokafkapy.producer.accumulator.batch_sealer cimport BatchSealer
from aiokafkapy.producer.accumulator.buffer_pool cimport BufferPool
from aiokafkapy.producer.accumulator.incomplete_batches cimport IncompleteBatches
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch
from aiokafkapy.producer.accumulator.ready_batches cimport ReadyBatches
from aiokafkapy.producer.accumulator.record_appender cimport RecordAppender
from aiokafkapy.producer.identity.transaction_manager cimport TransactionManager


@cython.final
cdef class RecordAccumulator:
    cdef object __weakref__
    cdef TransactionManager _transaction_manager
    cdef object _backoff
    cdef Py_ssize_t _flushes
    cdef BufferPool _pool
    cdef IncompleteBatches _incomplete
    cdef BatchSealer _sealer
    cdef BatchQueues _queues
    cdef ReadyBatches _ready_batches
    cdef readonly RecordAppender appender
    cdef public object on_room
    cdef public object on_abort

    cpdef ready(self, object cluster, double now, dict in_flight)
    cpdef dict drain(self, object cluster, object node_ids, Py_ssize_t max_request_size, double now)
    cpdef bint has_queued(self) except -1
    cpdef mute_partition(self, object topic_partition)
    cpdef unmute_partition(self, object topic_partition)
    cpdef update_node_latency_stats(self, object node_id, double now, bint can_drain)
    cpdef list take_compressions(self)
    cpdef double next_expiry_time(self) except -1
    cpdef list expired_batches(self, double now)
    @cython.locals(memory=Py_ssize_t)
    cpdef deallocate(self, ProducerBatch batch)
    cdef _tell_of_room(self)
    cdef bint _is_hurried(self) except -1
