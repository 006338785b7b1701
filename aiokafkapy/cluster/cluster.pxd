# Types of cluster.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class Cluster:
    cdef dict _nodes_by_id
    cdef dict _topics
    cdef public tuple nodes
    cdef public object cluster_id
    cdef public object controller
    cdef public object invalid_topics
    cdef public object unauthorized_topics
    cdef public bint is_bootstrap
    cdef object _partitions_by_node

    cpdef node_by_id(self, object node_id)
    cpdef topic(self, object name)
    @cython.locals(topic=TopicMetadata)
    cpdef partition(self, object topic_partition)
    @cython.locals(found=TopicMetadata)
    cpdef Py_ssize_t partition_count(self, object topic) except -1
    @cython.locals(found=TopicMetadata)
    cpdef topic_id(self, object topic)


@cython.final
cdef class TopicMetadata:
    cdef readonly str name
    cdef readonly bytes topic_id
    cdef readonly bint is_internal
    cdef readonly dict leader_epochs
    cdef readonly int wire_version
    cdef readonly bytes wire
    cdef tuple _numbers
    cdef tuple _leaders
    cdef tuple _replicas
    cdef tuple _in_sync
    cdef tuple _offline
    cdef tuple _partitions
    cdef tuple _available

    cdef _take(
        self, str name, bytes topic_id, bint is_internal, tuple numbers, tuple leaders, tuple leader_epochs,
        tuple replicas, tuple in_sync, tuple offline
    )
    cpdef partition(self, Py_ssize_t number)
    cpdef int leader(self, Py_ssize_t number) except? -1
    cdef _made(self, Py_ssize_t row)
    cdef Py_ssize_t _row(self, Py_ssize_t number) except? -1


@cython.locals(found=TopicMetadata)
cpdef TopicMetadata topic_of_columns(object name, bytes topic_id, bint is_internal, object columns)
