# C interface of record_metadata.pyx, for the other compiled modules.

cpdef object record_metadata(
    object topic, object partition, long long offset, long long timestamp_ms, long long key_size, long long value_size
)
