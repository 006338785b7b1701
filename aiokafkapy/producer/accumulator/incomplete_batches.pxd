# Types of incomplete_batches.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.producer_batch cimport BatchAccount, ProducerBatch


@cython.final
cdef class IncompleteBatches(BatchAccount):
    cdef dict _batches
    cdef bint _is_by_age
    cdef readonly long long delivered
    cdef readonly long long failed

    cpdef add(self, ProducerBatch batch)
