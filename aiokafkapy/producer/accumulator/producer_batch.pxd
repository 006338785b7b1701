# Types of producer_batch.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.delivery cimport Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result cimport ProduceRequestResult, Teller, new_result
from aiokafkapy.producer.identity.sequenced_batch cimport SequencedBatch, increment_sequence
from aiokafkapy.record.arrow_rows cimport ArrowRows as KernelRows
from aiokafkapy.record.builder cimport RecordBatchBuilder as KernelBuilder
from aiokafkapy.states cimport StateChanges

cdef int NO_LEADER_EPOCH, NO_SEQUENCE
cdef StateChanges _changes


cdef class BatchAccount:
    cdef public Teller teller

    cpdef settled(self, ProducerBatch batch, Py_ssize_t delivered, Py_ssize_t failed)
    cpdef withdrawn(self, Py_ssize_t count)
    cpdef replace(self, ProducerBatch batch, object successors, Py_ssize_t failed)


@cython.final
cdef class ProducerBatch(SequencedBatch):
    # The fields that each append touches come first: with thousands of batches, no cache holds them all.
    cdef readonly KernelBuilder builder
    cdef readonly ProduceRequestResult produce_result
    cdef readonly bint is_writable
    cdef readonly object topic_partition
    cdef readonly double created
    cdef readonly bint is_split_batch
    cdef BatchAccount _incomplete
    cdef readonly object state
    cdef readonly Py_ssize_t limit
    cdef public Py_ssize_t wanted
    cdef public Py_ssize_t memory
    cdef public Py_ssize_t reserved_memory
    cdef readonly int compression
    cdef readonly object compression_level
    cdef public bint is_being_compressed
    cdef object _compressed
    cdef readonly set withdrawn
    cdef readonly Py_ssize_t attempts
    cdef readonly bint in_retry
    cdef readonly double last_attempt
    cdef readonly double retry_at
    cdef readonly double drained_at
    cdef readonly int current_leader_epoch
    cdef readonly Py_ssize_t attempts_when_leader_last_changed
    cdef public bint is_in_doubt
    cdef public object phases

    @cython.locals(size=Py_ssize_t, index=Py_ssize_t, delivery=Delivery)
    cpdef Delivery try_append(self, long long timestamp_ms, object key, object value, object headers)
    @cython.locals(builder=KernelBuilder, position=Py_ssize_t, first=Py_ssize_t)
    cpdef Py_ssize_t append_run(self, long long timestamp_ms, object values, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(before=Py_ssize_t)
    cpdef Py_ssize_t append_rows(self, KernelRows rows, Py_ssize_t stop, long long most_bytes) except -1
    @cython.locals(capacity=Py_ssize_t, grown=Py_ssize_t)
    cpdef Py_ssize_t settle_memory(self)
    cpdef close(self)
    cpdef compress(self)
    cpdef seal(self)
    @cython.locals(withdrawn=set, result=ProduceRequestResult)
    cpdef leave_out_withdrawn(self)
    @cython.locals(builder=KernelBuilder, runs=list, index=Py_ssize_t)
    cpdef tuple copy_without(self, object left_out)
    @cython.locals(batch=ProducerBatch, account=BatchAccount)
    cpdef pass_on(self, object successors, list moves, Py_ssize_t failed=*)
    cpdef tuple buffers(self)
    cpdef drained(self, double now)
    @cython.locals(account=BatchAccount, teller=Teller)
    cpdef bint complete(self, long long base_offset, long long log_append_time_ms=*) except -1
    cpdef bint is_backing_off(self, double now) except -1
    cpdef maybe_update_leader_epoch(self, int leader_epoch)
    cdef _open(
        self, object topic_partition, KernelBuilder builder, double created, long long order, int compression,
        object compression_level, BatchAccount incomplete, bint is_split_batch,
    )
    cdef bint _finish(self, object outcome) except -1
    @cython.locals(account=BatchAccount, teller=Teller)
    cdef bint _fail(self, object outcome, object error) except -1


@cython.locals(batch=ProducerBatch)
cpdef ProducerBatch new_batch(
    object topic_partition, KernelBuilder builder, double created, long long order, int compression,
    object compression_level, BatchAccount incomplete,
)
cdef Py_ssize_t _size_of(object data) except -2
