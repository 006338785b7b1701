# Types of asyncio_waiting.py for its compiled form. They are documented there.

from aiokafkapy.producer.deliveries.shortcuts cimport running_loop
from aiokafkapy.producer.deliveries.waiter cimport new_waiter, wake, wake_all
from aiokafkapy.producer.deliveries.waiting cimport Waiting


cdef class AsyncioWaiting(Waiting):
    cpdef object running_loop(self)
    cpdef object loop_here(self)
    cpdef object new_waiter(self, object loop)
    cpdef object wake(self, object waiter)
    cpdef object wake_all(self, list waiters)
    cpdef object no_outcome_error(self)
