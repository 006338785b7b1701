# Types of batch_sealer.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.buffer_pool cimport BufferPool
from aiokafkapy.producer.accumulator.partition_queue cimport PartitionQueue
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch


@cython.final
cdef class BatchSealer:
    cdef BufferPool _pool
    cdef list _waiting
    cdef Py_ssize_t _compressing
    cdef Py_ssize_t _sealed_at_once
    cdef public object timer

    cpdef seal(self, ProducerBatch batch)
    cpdef bint must_wait(self, PartitionQueue queue, ProducerBatch batch) except -1
    @cython.locals(successor=ProducerBatch)
    cpdef exchange(self, ProducerBatch batch, object successors)
    cpdef hand_over(self, ProducerBatch batch)
    cpdef list take(self)
    cpdef bint is_quick(self, ProducerBatch batch) except -1
