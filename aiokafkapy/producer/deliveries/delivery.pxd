# Types of delivery.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.produce_request_result cimport ProduceRequestResult, call_soon, id
from aiokafkapy.producer.deliveries.returned cimport outcome_after, returned
from aiokafkapy.producer.deliveries.waiting cimport Waiting, waiting

cdef int PENDING, SUCCEEDED, FAILED, MOVED


# Not tracked by the cyclic collector: the docstring of produce_request_result.py says why that is safe.
@cython.final
cdef class Delivery:
    cdef ProduceRequestResult _result
    cdef long long _index
    cdef long long _timestamp_ms
    cdef int _key_size
    cdef int value_size

    cpdef bint done(self) except -1
    cpdef object result(self)
    cdef _metadata(self)
    cdef _follow(self)


@cython.locals(delivery=Delivery)
cpdef Delivery new_delivery(
    ProduceRequestResult result, long long index, long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size
)
@cython.locals(delivery=Delivery, port=Waiting, result=ProduceRequestResult)
cpdef object waiter_for(Delivery delivery)
cpdef tuple place_of(Delivery delivery)
