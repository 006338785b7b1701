# Types of batch_queues.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.partition_queue cimport PartitionQueue, TopicInfo
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch


@cython.final
cdef class BatchQueues:
    cdef object _settings
    cdef object _settings_by_topic
    cdef bint _is_adaptive
    cdef double _availability_timeout
    cdef dict _node_latencies
    cdef dict _topics
    cdef dict _active
    cdef Py_ssize_t _count
    cdef object _view
    cdef public object cluster
    cdef readonly double delivery_timeout
    cdef readonly bint has_priorities
    cdef public double next_expiry_time
    cdef public object gathering
    cdef readonly dict gaps

    cdef bint has_batches(self) except -1
    cdef Py_ssize_t count(self) except -1
    @cython.locals(queue=PartitionQueue, info=TopicInfo)
    cpdef dict by_leader(self, object cluster)
    @cython.locals(info=TopicInfo)
    cpdef TopicInfo topic(self, str topic)
    cpdef PartitionQueue queue(self, object topic_partition)
    @cython.locals(queue=PartitionQueue)
    cpdef PartitionQueue sticky_queue(self, TopicInfo info, object cluster)
    cpdef PartitionQueue switch_partition(self, TopicInfo info, object cluster)
    cdef bint is_dead_end(self, TopicInfo info, PartitionQueue queue, object cluster) except -1
    cpdef update_node_latency_stats(self, object node_id, double now, bint can_drain)
    cpdef add_open(self, PartitionQueue queue, ProducerBatch batch)
    @cython.locals(queue=PartitionQueue)
    cpdef put_back(self, ProducerBatch batch)
    @cython.locals(batch=ProducerBatch, queues=dict)
    cpdef ProducerBatch take_first(self, PartitionQueue queue)
    @cython.locals(queue=PartitionQueue, next_expiry=double, batch=ProducerBatch)
    cpdef list take_expired(self, double now)
    @cython.locals(queue=PartitionQueue)
    cpdef remove(self, ProducerBatch batch)
    @cython.locals(queues=dict, known=Py_ssize_t)
    cdef _activate(self, PartitionQueue queue, ProducerBatch batch)
    @cython.locals(queues=dict)
    cdef _deactivate(self, PartitionQueue queue)
