# Types of delivery.py for its compiled form. See there for what they mean.

cimport cython

from aiokafkapy.producer.deliveries.shortcuts cimport record_metadata, running_loop
from aiokafkapy.producer.deliveries.waiter cimport new_waiter, wake

cdef int PENDING, SUCCEEDED, FAILED, MOVED


@cython.final
cdef class ProduceRequestResult:
    # First what each delivery asks for, see ProducerBatch.
    cdef public int status
    cdef object _topic
    cdef object _partition
    cdef public long long base_offset
    cdef public long long log_append_time_ms
    cdef readonly object topic_partition
    cdef public Py_ssize_t record_count
    cdef object _errors
    cdef list _starts
    cdef list _moves
    cdef list _waiters
    cdef list _waiting_deliveries
    cdef list _callbacks
    cdef Py_ssize_t _prune_at
    cdef list _counters
    cdef object __weakref__

    cpdef succeed(self, long long base_offset, long long log_append_time_ms, object teller=*)
    cpdef object metadata(self, long long index, long long timestamp_ms, long long key_size, long long value_size)
    cpdef object error(self, long long index)
    cpdef add_waiter(self, Delivery delivery, object waiter)
    cdef tuple _take_waiters(self)
    cdef _prune(self)
    @cython.locals(delivery=Delivery)
    cpdef move(self, object moves)
    cdef object _error_of(self, long long index)
    cdef _settle(self, int status, object teller)
    @cython.locals(delivery=Delivery)
    cdef _tell(self, int status, object teller)


# Not tracked by the cyclic collector: delivery.py's docstring says why that is safe.
@cython.final
cdef class Delivery:
    cdef ProduceRequestResult _result
    cdef long long _index
    cdef long long _timestamp_ms
    cdef int _key_size
    cdef int _value_size

    cpdef bint done(self) except -1
    @cython.locals(result=ProduceRequestResult)
    cdef _follow(self)


@cython.locals(delivery=Delivery)
cpdef Delivery new_delivery(
    ProduceRequestResult result, long long index, long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size
)
cpdef object waiter_for(Delivery delivery)
cpdef tuple place_of(Delivery delivery)
cdef object _loop_here()
cdef _call_soon(object loop, object fn, Delivery delivery, object context)
