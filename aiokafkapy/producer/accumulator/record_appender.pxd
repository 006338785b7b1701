# Types of record_appender.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.batch_queues cimport BatchQueues
from aiokafkapy.producer.accumulator.batch_sealer cimport BatchSealer
from aiokafkapy.producer.accumulator.buffer_pool cimport BufferPool
from aiokafkapy.producer.deliveries.delivery cimport Delivery
from aiokafkapy.producer.accumulator.incomplete_batches cimport IncompleteBatches as CompiledAccount
from aiokafkapy.producer.accumulator.partition_queue cimport PartitionQueue, TopicInfo
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch, new_batch
from aiokafkapy.producer.accumulator.serialized_record cimport SerializedRecord, serialized_record
from aiokafkapy.record.arrow_rows cimport ArrowRows as KernelRows
from aiokafkapy.record.builder cimport RecordBatchBuilder as KernelBuilder, record_size_upper_bound

cdef long long RECORDS_PER_ORDER
cdef double _UNTIL_FLUSH


@cython.final
cdef class RecordAppender:
    cdef BatchQueues _queues
    cdef BufferPool _pool
    cdef BatchSealer _sealer
    cdef CompiledAccount _incomplete
    cdef Py_ssize_t _max_record_size
    cdef long long _credit_step
    cdef object _line
    cdef readonly Py_ssize_t waiting
    cdef bint _is_in_bulk
    cdef public object wakeup
    cdef public object on_refusal
    cdef public object on_over_limit
    cdef ProducerBatch _last_batch
    cdef TopicInfo _last_info
    cdef long long _credit
    cdef long long _granted
    cdef readonly bint is_closed

    @cython.locals(
        info=TopicInfo, queue=PartitionQueue, batch=ProducerBatch, builder=KernelBuilder, size=Py_ssize_t,
        delivery=Delivery,
    )
    cpdef Delivery append(
        self, str topic, int partition, long long timestamp_ms, object key, object value, object headers,
        double now, object cluster=*,
    )
    @cython.locals(
        position=Py_ssize_t, partition=int,
    )
    cpdef Py_ssize_t append_many(
        self, object deliveries, str topic, long long timestamp_ms, list values, Py_ssize_t start, Py_ssize_t stop,
        double now, object cluster=*,
    ) except -1
    @cython.locals(
        info=TopicInfo, queue=PartitionQueue, batch=ProducerBatch, last=ProducerBatch, partition=int, lane=int,
        end=Py_ssize_t, encoded=Py_ssize_t,
    )
    cpdef bint append_rows(
        self, KernelRows rows, object places, str topic, int first_lane, int last_lane,
        long long most_bytes, double now, object cluster=*,
    ) except -1
    @cython.locals(queue=PartitionQueue)
    cpdef close_open_batches(self)
    cpdef list grant(self, double now)
    cdef Py_ssize_t _pending(self) except? -1
    @cython.locals(credit="long long")
    cdef bint _renew_credit(self) except -1
    cdef _set_waiting(self, Py_ssize_t count)
    cdef Delivery _append_record(self, object record, double now, object cluster)
    @cython.locals(waiting=Py_ssize_t)
    cdef Delivery _append_with_priority(self, object record, double now, object cluster)
    cdef ProducerBatch _last(self)
    @cython.locals(info=TopicInfo, batch=ProducerBatch, first=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t _append_run(
        self, object deliveries, str topic, long long timestamp_ms, list values, Py_ssize_t start, Py_ssize_t stop
    ) except -1
    cpdef forget(self, ProducerBatch batch)
    @cython.locals(wanted=Py_ssize_t, first=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t)
    cdef bint _append_rows(
        self, TopicInfo info, ProducerBatch batch, int partition, KernelRows rows, object places,
        Py_ssize_t stop, long long most_bytes,
    ) except -1
    @cython.locals(batch=ProducerBatch, delivery=Delivery, size=Py_ssize_t)
    cdef Delivery _append_slowly(
        self, TopicInfo info, PartitionQueue queue, SerializedRecord record, double now, object cluster
    )
    @cython.locals(batch=ProducerBatch, builder=KernelBuilder, wanted=Py_ssize_t, memory=Py_ssize_t)
    cdef Delivery _append_to_new_batch(
        self, TopicInfo info, PartitionQueue queue, SerializedRecord record, double now
    )
    @cython.locals(size=Py_ssize_t)
    cdef Delivery _append_and_settle(self, TopicInfo info, ProducerBatch batch, SerializedRecord record)
    cdef _close_open_batch(self, PartitionQueue queue, ProducerBatch batch)
    @cython.locals(info=TopicInfo)
    cpdef check_record(self, object record, double now)
    cdef _check_open(self)
    cdef _check_size(self, Py_ssize_t size, object record)
    cdef _check_topic_limit(self, TopicInfo info, object record, Py_ssize_t most_size, double now)
