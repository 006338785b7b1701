# Types of tls_transport.py for its compiled form. They are documented there.

cimport cython

cdef object _SHAKING_HANDS
cdef object _OPEN
cdef object _CLOSED
cdef Py_ssize_t _RECORD
cdef Py_ssize_t _PIECE


@cython.final
cdef class TlsTransport:
    cdef object _state
    cdef bint _is_connected
    cdef object _connection
    cdef object _on_done
    cdef double _handshake_timeout
    cdef object _timer
    cdef object _transport
    cdef object _error
    cdef object _incoming
    cdef object _outgoing
    cdef object _tls
    cdef object _feed
    cdef object _take
    cdef object _read
    cdef object _encrypt
    cdef object _backlog
    cdef bint _is_paused
    cdef bint _is_told_to_pause
    cdef bint _is_closing

    cpdef write(self, data)
    @cython.locals(size=Py_ssize_t)
    cpdef writelines(self, buffers)
    cpdef abort(self)
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t)
    cpdef data_received(self, data)
    cdef _shake_hands(self)
    cdef _fail(self, error)
    cdef _end_handshake(self, new)
    cdef _change(self, new)
    cdef _receive(self, data, Py_ssize_t size)
    @cython.locals(wanted=Py_ssize_t, left=Py_ssize_t)
    cdef _decrypt(self, Py_ssize_t size)
    @cython.locals(must_pause=bint)
    cdef _write(self)
    cdef _end(self)
    cdef _flush(self)


@cython.locals(size=Py_ssize_t, small=list, pieces=list)
cdef list _pieces(buffers)
