# Types of sender.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.accumulator.record_accumulator cimport RecordAccumulator
from aiokafkapy.producer.identity.transaction_manager cimport TransactionManager
from aiokafkapy.producer.metrics cimport SenderMetrics
from aiokafkapy.producer.sender.in_flight_batches cimport InFlightBatches
from aiokafkapy.producer.sender.produce_requests cimport ProduceRequests

cdef double NEVER


# Not final: a test of a crash gives it a ``run_once`` of its own.
cdef class Sender:
    cdef RecordAccumulator _accumulator
    cdef TransactionManager _transaction_manager
    cdef SenderMetrics _metrics
    cdef object _loop
    cdef object _time
    cdef object _on_crash
    cdef readonly InFlightBatches in_flight_batches
    cdef ProduceRequests _requests
    cdef object _producer_id_requests
    cdef bint _is_stopped
    cdef bint _is_woken
    cdef double _woken_at
    cdef object _wakeup_callback
    cdef object _last_pass
    cdef object _bug
    cdef object _context
    cdef object _timer
    cdef double _timer_at
    cdef double _due
    cdef object _executor
    cdef set _compressions
    cdef dict __dict__  # see above

    cpdef wakeup(self)
    @cython.locals(now=double)
    cpdef _on_wakeup(self)
    cpdef _on_timer(self)
    @cython.locals(delay=double)
    cdef _pass(self, double now)
    cdef _end(self)
    cdef _wake_at(self, double due)
    @cython.locals(delay=double)
    cpdef double run_once(self, double now) except? -1
    cpdef double send_producer_data(self, double now) except? -1
