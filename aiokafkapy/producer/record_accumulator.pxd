# Types of record_accumulator.py for its compiled form. See there for what they mean.

cimport cython

from aiokafkapy.producer.delivery cimport Delivery
from aiokafkapy.producer.partition_queue cimport PartitionQueue, TopicInfo
from aiokafkapy.producer.producer_batch cimport ProducerBatch
from aiokafkapy.record._kernel cimport RecordBatchBuilder as KernelBuilder


@cython.final
cdef class RecordAccumulator:
    cdef object __weakref__
    cdef Py_ssize_t _batch_size
    cdef Py_ssize_t _max_record_size
    cdef double _linger
    cdef double _delivery_timeout
    cdef object _backoff
    cdef object _compression
    cdef object _compression_level
    cdef bint _is_adaptive
    cdef double _availability_timeout
    cdef object _transaction_manager
    cdef object _pool
    cdef object _incomplete
    cdef public object wakeup
    cdef public object on_unseen_failure
    cdef dict _topics
    cdef dict _active
    cdef object _cluster
    cdef dict _node_latencies
    cdef object _tickets
    cdef readonly Py_ssize_t waiting
    cdef bint _is_granting
    cdef list _compressions
    cdef Py_ssize_t _compressing
    cdef ProducerBatch _last_batch
    cdef bint _is_closed
    cdef Py_ssize_t _flushes
    cdef double _now
    cdef readonly double next_expiry_time
    cdef readonly long long accepted

    cpdef Delivery append(
        self, str topic, int partition, long long timestamp_ms, object key, object value, object headers,
        double now, object cluster=*,
    )
    @cython.locals(info=TopicInfo, queue=PartitionQueue, batch=ProducerBatch, size_before=Py_ssize_t, delivery=Delivery)
    cdef Delivery _append(
        self, str topic, int partition, long long timestamp_ms, object key, object value, object headers,
        double now, object cluster,
    )
    cdef int _appended(self, TopicInfo info, ProducerBatch batch, int partition, Py_ssize_t size_before) except -1
    @cython.locals(batch=ProducerBatch, delivery=Delivery)
    cdef Delivery _append_slowly(
        self, TopicInfo info, PartitionQueue queue, int partition, tuple record, double now, object cluster
    )
    @cython.locals(batch=ProducerBatch, builder=KernelBuilder)
    cdef Delivery _append_to_new_batch(
        self, TopicInfo info, PartitionQueue queue, int partition, tuple record, double now
    )
    cdef Delivery _append_and_settle(self, TopicInfo info, ProducerBatch batch, int partition, tuple record)
    cdef _settle_memory(self, ProducerBatch batch)
    cdef PartitionQueue _sticky_queue(self, TopicInfo info, object cluster)
    cdef PartitionQueue _switch_partition(self, TopicInfo info, object cluster)
    @cython.locals(batch=ProducerBatch, first=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, position=Py_ssize_t)
    cpdef Py_ssize_t append_many(
        self, object deliveries, str topic, int partition, long long timestamp_ms, object values, object keys,
        Py_ssize_t start, Py_ssize_t stop, double now, object cluster=*,
    ) except -1

