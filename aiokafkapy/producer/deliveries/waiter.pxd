# C interface of waiter.pyx, for the other compiled modules.

cpdef object new_waiter(object loop)
cpdef object wake(object waiter)
cpdef object wake_all(list waiters)
