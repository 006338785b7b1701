# Types of cluster.py for its compiled form. See there for what they mean.

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
    cdef object _topic_names

    cpdef node_by_id(self, int node_id)
    @cython.locals(topic=TopicMetadata)
    cpdef partition(self, object topic_partition)
    @cython.locals(found=TopicMetadata)
    cpdef Py_ssize_t partition_count(self, object topic) except -1
    @cython.locals(found=TopicMetadata)
    cpdef topic_id(self, object topic)


@cython.final
cdef class TopicMetadata:
    cdef readonly str name
    cdef readonly object topic_id
    cdef readonly bint is_internal
    cdef readonly tuple partitions
    cdef readonly tuple available
    cdef readonly dict leader_epochs
    cdef readonly int wire_version
    cdef readonly bytes wire

    cpdef partition(self, Py_ssize_t number)
