"""A record's metadata, made in the shortest way possible, compiled: the twin of ``record_metadata.py``.

It is not tracked by the cyclic collector, for it holds a string and ints: a million of them kept cost it nothing.
"""

from cpython.ref cimport Py_INCREF

from ..records import RecordMetadata

cdef extern from *:
    """
    #define AIOKAFKAPY_NEW_TUPLE(type, items) ((PyObject *)PyObject_GC_NewVar(PyTupleObject, (PyTypeObject *)(type), items))
    #if PY_VERSION_HEX >= 0x030E0000
    #define AIOKAFKAPY_FORGET_HASH(tuple) (((PyTupleObject *)(tuple))->ob_hash = -1)
    #else
    #define AIOKAFKAPY_FORGET_HASH(tuple)
    #endif
    """
    object new_tuple "AIOKAFKAPY_NEW_TUPLE"(object type, Py_ssize_t items)
    void forget_hash "AIOKAFKAPY_FORGET_HASH"(object tuple) noexcept

cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object tuple, Py_ssize_t place, object stolen) noexcept

cdef object METADATA = RecordMetadata  # looking the name up costs 70 instructions each time


cpdef object record_metadata(
    object topic, object partition, long long offset, long long timestamp_ms, long long key_size, long long value_size
):
    """A ``RecordMetadata``, without its constructor, which makes another tuple first."""
    # The ints first: a tuple that lacks items must not meet an error.
    cdef object offset_object = offset, timestamp = timestamp_ms, key_object = key_size, value_object = value_size
    metadata = new_tuple(METADATA, 6)
    forget_hash(metadata)
    _put(metadata, 0, topic)
    _put(metadata, 1, partition)
    _put(metadata, 2, offset_object)
    _put(metadata, 3, timestamp)
    _put(metadata, 4, key_object)
    _put(metadata, 5, value_object)
    return metadata


cdef inline void _put(object metadata, Py_ssize_t place, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(metadata, place, item)
