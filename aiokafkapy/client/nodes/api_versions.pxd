# Types of api_versions.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class NodeApiVersions:
    cdef readonly object ranges
    cdef readonly object supported_features
    cdef readonly object finalized_features
    cdef dict _usable
    cdef object _last_api_key
    cdef object _last_min
    cdef object _last_max
    cdef int _last_version

    cpdef int latest_usable_version(self, object api_key, object min_version=*, object max_version=*) except -1


@cython.final
cdef class ApiVersions:
    cdef dict _nodes

    cpdef NodeApiVersions get(self, object node_id)


cpdef double throttle_seconds(object api_key, int version, object body) except? -1
