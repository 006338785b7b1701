# Types of produce_request_result.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.record_metadata cimport record_metadata
from aiokafkapy.producer.deliveries.waiting cimport waiting

cdef int PENDING, SUCCEEDED, FAILED, MOVED
cdef long long INVALID_OFFSET


cdef inline long long id(object value) noexcept:
    """As Python's, without an object for the number."""
    return <long long><void *>value


cdef class Teller:
    cpdef bint may_tell_now(self, Py_ssize_t count, Py_ssize_t cost=*) except -1
    cpdef tell_later(self, object job, Py_ssize_t cost=*)


# Not tracked by the cyclic collector: the docstring of produce_request_result.py says why that is safe.
@cython.final
cdef class ProduceRequestResult:
    # The fields that each delivery reads come first, see ProducerBatch.
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
    cdef public object timing
    cdef long long _loop_id
    cdef list _waiters
    cdef list _waiting_indexes
    cdef list _callbacks
    cdef Py_ssize_t _prune_at
    cdef list _counters
    cdef object __weakref__

    cpdef succeed(self, long long base_offset, long long log_append_time_ms, Teller teller=*)
    cpdef object metadata(self, long long index, long long timestamp_ms, long long key_size, long long value_size)
    cpdef object error(self, long long index)
    @cython.locals(result=ProduceRequestResult)
    cpdef tuple follow(self, long long index)
    @cython.locals(first="long long", index_there="long long")
    cpdef tuple locate(self, long long index)
    cpdef check_loop(self, object loop)
    @cython.locals(waiters=list)
    cpdef add_waiter(self, long long index, object waiter)
    cpdef add_callback(self, long long index, object delivery, object fn, object loop, object context)
    cdef _begin(self, object topic_partition)
    cdef object _indexes_of(self, object waiters)
    cdef _prune(self, list waiters)
    @cython.locals(result=ProduceRequestResult, index_there="long long")
    cpdef move(self, object moves)
    @cython.locals(waiters=list, all_indexes=list, callbacks=list, places=dict, result=ProduceRequestResult)
    cpdef move_all_but(self, object indexes, ProduceRequestResult told, ProduceRequestResult rest)
    cdef object _error_of(self, long long index)
    @cython.locals(callbacks=list, counters=list)
    cdef _settle(self, int status, Teller teller)
    @cython.locals(waiters=list)
    cdef _wake(self, int cost, Teller teller)


@cython.locals(result=ProduceRequestResult)
cpdef ProduceRequestResult new_result(object topic_partition)
cpdef call_soon(object loop, object fn, object delivery, object context)
