# Types of partition_queue.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch


@cython.final
cdef class PartitionQueue:
    cdef readonly object topic_partition
    cdef readonly list batches
    cdef public ProducerBatch open_batch
    cdef public long long next_order
    cdef readonly Py_ssize_t last_size
    cdef public bint is_muted
    cdef public object cluster
    cdef public int leader
    cdef public int leader_epoch
    cdef readonly double linger
    cdef readonly bint has_priority
    cdef public Py_ssize_t max_message_bytes

    @cython.locals(batch=ProducerBatch)
    cpdef ProducerBatch pop_first(self)
    cpdef update_leader(self, object cluster)
    cdef int leader_in(self, object cluster) except? -2


@cython.final
cdef class TopicInfo:
    cdef readonly str topic
    cdef readonly Py_ssize_t batch_size
    cdef readonly Py_ssize_t own_batch_size
    cdef Py_ssize_t _bulk_batch_size
    cdef Py_ssize_t _bulk_calls
    cdef readonly Py_ssize_t max_message_bytes
    cdef readonly double limit_until
    cdef readonly int compression
    cdef readonly object compression_level
    cdef readonly double linger
    cdef readonly bint has_priority
    cdef readonly list queues
    cdef readonly object partitioner
    cdef public PartitionQueue sticky_queue
    cdef public long long produced_bytes

    cpdef PartitionQueue queue(self, int partition)
    @cython.locals(queue=PartitionQueue)
    cdef Py_ssize_t _queue_size(self, Py_ssize_t partition) except -1
