# Types of waiting.py for its compiled form. They are documented there.


cdef class Waiting:
    cpdef object running_loop(self)
    cpdef object loop_here(self)
    cpdef object new_waiter(self, object loop)
    cpdef object wake(self, object waiter)
    cpdef object wake_all(self, list waiters)
    cpdef object no_outcome_error(self)


cdef Waiting _installed

cpdef Waiting waiting()
