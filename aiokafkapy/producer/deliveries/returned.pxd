# C interface of returned.pyx, for the other compiled modules.

cdef extern from *:
    """
    #define AIOKAFKAPY_SET_SEND(type, send) (((PyTypeObject *)(type))->tp_as_async->am_send = (sendfunc)(send))
    """
    # Cython has no name for this slot: it is set when the module of a type with ``__await__`` is made.
    void set_send "AIOKAFKAPY_SET_SEND"(object type, void *send)

cdef enum Sent:
    # The interpreter's PySendResult
    FAILED = -1
    RETURNED = 0
    YIELDED = 1

cpdef object returned(object value)
cpdef object outcome_after(object waiter, object outcome)

ctypedef object (*OutcomeAfter)(object waiter, object outcome)

# The waiter's, which knows an event loop; this module does not.
cdef void set_outcome_after(OutcomeAfter function) noexcept
