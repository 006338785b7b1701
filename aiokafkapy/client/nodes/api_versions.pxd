# Types of api_versions.py for its compiled form. See there for what they mean.

cimport cython


@cython.final
cdef class NodeApiVersions:
    cdef readonly object ranges
    cdef readonly object supported_features
    cdef readonly object finalized_features
    cdef dict _usable

    cpdef latest_usable_version(self, object api_key, object min_version=*, object max_version=*)


@cython.final
cdef class ApiVersions:
    cdef dict _nodes

    cpdef NodeApiVersions get(self, int node_id)
