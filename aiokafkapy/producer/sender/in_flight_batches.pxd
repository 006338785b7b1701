# Types of in_flight_batches.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.metrics cimport SenderMetrics
from aiokafkapy.producer.accumulator.producer_batch cimport ProducerBatch
from aiokafkapy.producer.accumulator.record_accumulator cimport RecordAccumulator
from aiokafkapy.producer.identity.transaction_manager cimport TransactionManager
from aiokafkapy.protocol.produce_response cimport PartitionProduceResponse

cdef int NO_ERROR
cdef double _NEVER


@cython.final
cdef class InFlightBatches:
    cdef object _metadata
    cdef RecordAccumulator _accumulator
    cdef TransactionManager _transaction_manager
    cdef SenderMetrics _metrics
    cdef object _log
    cdef double _delivery_timeout
    cdef bint _guarantee_message_order
    cdef bint _is_gapless
    cdef object _limits
    cdef list _requests
    cdef double _next_expiry
    cdef readonly dict last_errors
    cdef public object watch
    cdef public object on_refused
    cdef public object on_codec_refused

    @cython.locals(batch=ProducerBatch)
    cpdef add(self, list batches)
    cpdef over(self, list batches)
    @cython.locals(batch=ProducerBatch)
    cpdef handle_answers(self, list batches, object answers, double now, bint was_sent=*)
    cpdef handle_answer(self, ProducerBatch batch, PartitionProduceResponse answer, double now, bint was_sent)
    @cython.locals(batch=ProducerBatch)
    cpdef expire(self, double now)
    @cython.locals(earliest=double)
    cpdef double time_to_expiry(self, double now) except -1
    @cython.locals(batch=ProducerBatch)
    cdef _expire_on_the_wire(self, double now)
    cdef _act_on(self, ProducerBatch batch, PartitionProduceResponse answer, double now, bint was_sent)
    cdef _complete(self, ProducerBatch batch, PartitionProduceResponse answer, double now)
