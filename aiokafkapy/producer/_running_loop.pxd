# C interface of _running_loop.pyx, for the other compiled modules.

cpdef object running_loop()
