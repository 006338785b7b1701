# C interface of shortcuts.pyx, for the other compiled modules.

cpdef object running_loop()
cpdef long long now_ms()
cpdef object record_metadata(
    object topic, object partition, long long offset, long long timestamp_ms, long long key_size, long long value_size
)
