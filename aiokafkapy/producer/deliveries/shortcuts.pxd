# C interface of shortcuts.pyx, for the other compiled modules.

cpdef object running_loop()
cpdef long long now_ms() except? -1
