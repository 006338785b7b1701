"""The running loop and the time, compiled: the twin of ``shortcuts.py``.

Rule: ``running_loop()`` is asyncio's own answer, always. Asyncio's entry for each thread (an object of its own for each
run of a loop, in Python 3.11; the loop itself, later) is compared with the entry found the last time; only when it
differs is asyncio asked. Without such an entry asyncio is asked each time. Python 3.11 also gives a version of
the thread's mapping, which saves the look-up.
"""

import os
from asyncio import _get_running_loop
from time import time

cimport cython
from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject *PyThreadState_GetDict()
    PyObject *PyDict_GetItem(PyObject *mapping, object key)
    bint PyCFunction_Check(object value)

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030C0000
    #define AIOKAFKAPY_VERSION_OF(mapping) (((PyDictObject *)(mapping))->ma_version_tag)
    #else
    #define AIOKAFKAPY_VERSION_OF(mapping) ((uint64_t)0)
    #endif
    #ifdef Py_GIL_DISABLED
    #define AIOKAFKAPY_HAS_GIL 0
    #else
    #define AIOKAFKAPY_HAS_GIL 1
    #endif
    """
    bint HAS_GIL "AIOKAFKAPY_HAS_GIL"
    unsigned long long version_of "AIOKAFKAPY_VERSION_OF"(PyObject *mapping)

cdef extern from *:
    """
    #include <time.h>
    #ifdef CLOCK_REALTIME
    #define AIOKAFKAPY_HAS_TIME(when) (clock_gettime(CLOCK_REALTIME, (when)) == 0)
    #else
    #define AIOKAFKAPY_HAS_TIME(when) (timespec_get((when), TIME_UTC) == TIME_UTC)
    #endif
    """
    struct timespec:
        long long tv_sec
        long tv_nsec
    bint has_time "AIOKAFKAPY_HAS_TIME"(timespec *when)

cdef str KEPT_AS = "__asyncio_running_event_loop__"

# The entry found last, and its loop; and the version of the mapping then, which no other mapping ever has.
cdef object last_found = None
cdef object last_loop = None
cdef unsigned long long last_version = 0

# None when another clock already replaced the system's at import (freezegun's, say): then the present clock is called.
cdef object SYSTEM_TIME = time if PyCFunction_Check(time) else None


cpdef object running_loop():
    """The event loop that runs in this thread, or None."""
    global last_found, last_loop, last_version
    if not HAS_GIL:  # no lock guards the last entry; asyncio keeps the loop in the thread's own state there
        return _get_running_loop()
    cdef PyObject *mapping = PyThreadState_GetDict()
    cdef PyObject *found = NULL
    if mapping != NULL:
        if last_version != 0 and version_of(mapping) == last_version:
            return last_loop
        found = PyDict_GetItem(mapping, KEPT_AS)
    if found == NULL:
        return _get_running_loop()
    if found != <PyObject *>last_found:
        loop = _get_running_loop()
        # Kept until the end: letting go of them may run anything, and so another thread that comes here.
        kept_found, kept_loop = last_found, last_loop
        last_found = <object>found
        last_loop = loop
        last_version = version_of(mapping)
        return loop
    last_version = version_of(mapping)
    return last_loop


cpdef long long now_ms() except? -1:
    """Milliseconds since the epoch, from the system's clock unless ``time`` here was replaced (a simulation's)."""
    cdef timespec when
    if time is not SYSTEM_TIME or not has_time(&when):
        return <long long>(<double>time() * 1000)
    # Unsigned, for C divides as Python does then.
    return when.tv_sec * 1000 + <unsigned long>when.tv_nsec // 1_000_000


def forget():
    """Ask asyncio the next time: a forked child has the memory of a loop, but runs none."""
    global last_found, last_loop, last_version
    last_version = 0
    last_found = last_loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
