"""The kernel that reads rows out of columns, compiled: the twin of ``arrow_rows.py``, byte for byte.

Owns the conversion of a table's buffers into records of a ``RecordBatchBuilder``: the lane of each row (by murmur2 of
its key, or its partition), the order of the rows by lane, and their encoding. It knows no pyarrow, no clock and no
topic names: rows, lanes and topics are numbers. Java has no counterpart.

Rules:

- The public names are documented in the twin; every change is made there too.
- Within a lane rows keep their order. Lane 0 is for refused rows, which are never encoded.
- No offset, index or length in a buffer is trusted before it has been checked against the buffer's size.
- The loops over rows create no objects and release the GIL; it is acquired to add a block to a batch, and held for
  short runs, where releasing it costs more than the encoding.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from aiokafkapy.record.builder cimport (
    BYTES_AHEAD, LINE, RecordBatchBuilder, Stencil, cut_stencil, hash_bytes, prefetch, size_body, size_field,
    varint_size, write_body, write_field, write_in_run, zigzag_of,
)

from array import array

from aiokafkapy.errors import IllegalStateError, SerializationError
from aiokafkapy.record.columns import NULL_TOPIC as _NULL_TOPIC

__all__ = ["PLANNED_ROWS", "SLICE_BYTES", "ArrowRows", "order_of"]

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

cdef enum:
    NULLS, SMALL, LARGE, FIXED, VIEWS  # Layout

cdef enum:
    NULL_TOPIC = -1
    # Rows in one step of a plan: about a millisecond on the event loop.
    STEP_ROWS = 32768
    STEP_BYTES = 1048576
    # Shorter runs are encoded with the GIL held: releasing it costs as much as some rows.
    LONG_RUN = 32
    RECORD_COST = 8
    # Rows in the order of lanes are scattered over the table: prefetch so many rows ahead.
    ROWS_AHEAD = 8

PLANNED_ROWS = 262144
SLICE_BYTES = 1024 * 1024

cdef int64_t MAX_BATCH_SIZE = 0x7FFFFFFF
cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t INT64_MIN = -0x7FFFFFFFFFFFFFFF - 1


@cython.final
cdef class ArrowRows:
    """Encodes the rows of some columns into batches: ``plan()`` some rows, then ``append_run()`` until all are in."""

    def __cinit__(self, object columns, bint hashes_keys):
        self._held = []
        self._columns = columns
        self._count = columns.row_count
        self._value = self._strings(columns.value)
        self._has_key = columns.key is not None
        if self._has_key:
            self._key = self._strings(columns.key)
        self._hashes_keys = hashes_keys and self._has_key
        self._has_partition = columns.partition is not None
        if self._has_partition:
            self._partition = self._numbers(columns.partition)
        self._has_timestamp = columns.timestamp is not None
        if self._has_timestamp:
            self._timestamp = self._numbers(columns.timestamp)
        self._has_topics = columns.topics is not None
        if self._has_topics:
            self._topics = self._numbers(columns.topics)
        self._has_headers = columns.headers is not None
        if self._has_headers:
            headers = columns.headers
            self._header_lists = self._list_offsets(headers)
            self._header_names = self._strings(headers.names)
            self._header_values = self._strings(headers.values)
            self._header_entries = self._numbers(headers.entries._replace(width=0))
            self._entry_count = headers.entries.length
            if not _length_of(headers.names) == _length_of(headers.values) == self._entry_count:
                raise ValueError("a table's headers have names and values of different numbers")
        self._multiplier = columns.multiplier
        self._divisor = columns.divisor
        self.now_ms = self.encoded_bytes = 0
        self.start = self.planned = self.position = self.refused = 0
        self._only_lane = 0

    def __dealloc__(self):
        PyMem_Free(self._lanes)
        PyMem_Free(self._order)
        PyMem_Free(self._lane_ends)
        PyMem_Free(self._routes)
        _free(&self._value)
        _free(&self._key)
        _free(&self._header_names)
        _free(&self._header_values)

    # planning

    cpdef bint plan(self, Py_ssize_t start, Py_ssize_t stop, list routes, long long most_sticky_bytes) except -1:
        """Choose a lane for each of the rows from ``start`` on; False if ``plan_on()`` must complete it."""
        cdef Py_ssize_t topic
        cdef Py_ssize_t lane_count = 1
        cdef Py_ssize_t topics = len(routes)
        stop = max(start, min(stop, self._count))
        self.start = start
        self._reserve_routes(topics)
        for topic in range(topics):
            route = routes[topic]
            self._routes[topic].first_lane = route.first_lane
            self._routes[topic].partition_count = route.partition_count
            self._routes[topic].sticky_partition = route.sticky_partition
            self._routes[topic].sticky_bytes = 0
            lane_count = max(lane_count, self._routes[topic].first_lane + self._routes[topic].partition_count + 1)
        self._stop = stop
        self._lane_count = lane_count
        self._most_sticky_bytes = most_sticky_bytes
        self.planned = 0
        if self._hashes_keys or self._has_partition or self._has_topics:
            self._reserve(stop - start)
            self._reserve_lanes(lane_count)
            return self.plan_on()
        self.planned = stop - start
        self._end_plan(self._routes[0].first_lane if self._routes[0].partition_count > 0 else 0)
        return True

    cpdef bint plan_on(self) except -1:
        """The next step of a plan; True when it is complete."""
        cdef int32_t only_lane
        if self.start + self.planned < self._stop:
            with nogil:
                self._choose_lanes()
            if self.start + self.planned < self._stop:
                return False
        if not self.planned:
            self._end_plan(0)
            return True
        with nogil:
            only_lane = self._lanes[0] if self._sort() else -1
        self._end_plan(only_lane)
        return True

    cdef void _end_plan(self, int32_t only_lane) noexcept:
        self._only_lane = only_lane
        if only_lane < 0:
            self.refused = self._lane_ends[0]
        else:
            self.refused = 0 if only_lane else self.planned
        self.position = self.refused

    @property
    def sticky_bytes(self):
        """An estimate, by topic, of the plan's bytes for the sticky partition."""
        cdef Py_ssize_t topic
        return [self._routes[topic].sticky_bytes for topic in range(self._topic_count)]

    def refusals(self):
        """The topic number (or NULL_TOPIC) and the partition (-1 for none) of each refused row, in order."""
        cdef Py_ssize_t position, row
        cdef bytes topics = PyBytes_FromStringAndSize(NULL, self.refused * sizeof(int32_t))
        cdef bytes partitions = PyBytes_FromStringAndSize(NULL, self.refused * sizeof(int64_t))
        cdef int32_t *topic = <int32_t *><const unsigned char *>topics
        cdef int64_t *partition = <int64_t *><const unsigned char *>partitions
        for position in range(self.refused):
            row = self.row_at(position)
            topic[position] = 0
            if self._has_topics:
                topic[position] = NULL_TOPIC if is_null(&self._topics, row) else <int32_t>number_of(&self._topics, row)
            partition[position] = -1
            if self._has_partition and not is_null(&self._partition, row):
                partition[position] = number_of(&self._partition, row)
        return array("i", topics), array("q", partitions)

    def lanes(self):
        """The lane of each planned row; None if all are in the same lane."""
        cdef Py_ssize_t index
        cdef int32_t most = 0
        cdef bytes packed
        cdef unsigned char *out
        if self._only_lane >= 0:
            return None
        for index in range(self.planned):
            most = max(most, self._lanes[index])
        if most >= 65536:
            found = array("i")
            found.frombytes(PyBytes_FromStringAndSize(<char *>self._lanes, self.planned * sizeof(int32_t)))
            return found
        packed = PyBytes_FromStringAndSize(NULL, self.planned * (1 if most < 256 else 2))
        out = <unsigned char *><const unsigned char *>packed
        if most < 256:
            for index in range(self.planned):
                out[index] = <unsigned char>self._lanes[index]
        else:
            for index in range(self.planned):
                (<unsigned short *>out)[index] = <unsigned short>self._lanes[index]
        found = array("B" if most < 256 else "H")
        found.frombytes(packed)
        return found

    cpdef Py_ssize_t row_at(self, Py_ssize_t position) noexcept:
        """The row at a position of the order."""
        return self.start + (position if self._only_lane >= 0 else self._order[position])

    cpdef Py_ssize_t lane_at(self, Py_ssize_t position) noexcept:
        """The lane of the row at a position of the order."""
        return self._only_lane if self._only_lane >= 0 else self._lanes[self._order[position]]

    cpdef Py_ssize_t end_of_lane(self, Py_ssize_t position) noexcept:
        """The first position after ``position`` with a row of another lane."""
        return self.planned if self._only_lane >= 0 else self._lane_ends[self._lanes[self._order[position]]]

    # rows as objects, for the slow path

    cpdef tuple record(self, Py_ssize_t row):
        """A row as timestamp, key, value and headers. Raises SerializationError for an invalid row."""
        cdef int64_t timestamp_ms
        if not self._timestamp_of(row, &timestamp_ms):
            raise SerializationError("its timestamp is out of range: expected milliseconds in 64 bits")
        key = _object_of(&self._key, row, "key") if self._has_key else None
        value = _object_of(&self._value, row, "value")
        return timestamp_ms, key, value, self._headers_of(row) if self._has_headers else None

    def topic_of(self, Py_ssize_t row):
        """The number of a row's topic, or NULL_TOPIC."""
        if not self._has_topics:
            return 0
        return _NULL_TOPIC if is_null(&self._topics, row) else number_of(&self._topics, row)

    def partition_of(self, Py_ssize_t row):
        """The value of a row's partition column, or None."""
        if not self._has_partition or is_null(&self._partition, row):
            return None
        return number_of(&self._partition, row)

    # encoding

    cpdef Py_ssize_t append_run(self, RecordBatchBuilder builder, Py_ssize_t stop, long long most_bytes) except -1:
        """Encode rows from ``position`` on, at most to ``stop``."""
        cdef Py_ssize_t needed, added
        if builder._is_closed:
            raise IllegalStateError("the batch is closed and takes no more records")
        while True:
            if stop - self.position > LONG_RUN:
                with nogil:
                    needed = self._encode(builder, stop, most_bytes)
            else:
                needed = self._encode(builder, stop, most_bytes)
            if needed <= 0:
                return 0
            added = builder._next_block_size(needed, needed * (stop - self.position))
            if builder.capacity + added > builder.allowance:
                return builder.capacity + added
            builder._open_block(added)
            # Encode the row that needed the block: its head fills the rest of the previous block.
            self._encode(builder, self.position + 1, most_bytes)
            builder._fill_block_before(needed)

    # internals

    cdef Strings _strings(self, object column) except *:
        """The addresses of a column's buffers, which are kept alive. Raises ValueError if they are too short."""
        cdef Strings strings
        cdef Py_ssize_t rows = column.offset + column.length
        cdef Py_ssize_t index
        memset(&strings, 0, sizeof(strings))
        strings.layout = column.layout
        strings.offset = column.offset
        strings.length = column.length
        strings.width = column.width
        strings.validity = self._address(column.validity, (rows + 7) // 8, NULL)
        if column.indices is not None:
            strings.has_indices = True
            strings.indices = self._numbers(column.indices)
        if not column.length:
            return strings
        if strings.layout == SMALL or strings.layout == LARGE:
            strings.offsets = self._address(column.offsets or b"", (rows + 1) * (4 if strings.layout == SMALL else 8), NULL)
            strings.data = self._address(column.data, 0, &strings.data_size)
        elif strings.layout == FIXED:
            strings.data = self._address(column.data or b"", rows * strings.width, &strings.data_size)
        elif strings.layout == VIEWS:
            strings.offsets = self._address(column.offsets or b"", rows * 16, NULL)
            strings.buffer_count = len(column.buffers)
            strings.buffers = <const unsigned char **>PyMem_Malloc((strings.buffer_count + 1) * sizeof(void *))
            strings.buffer_sizes = <Py_ssize_t *>PyMem_Malloc((strings.buffer_count + 1) * sizeof(Py_ssize_t))
            if strings.buffers == NULL or strings.buffer_sizes == NULL:
                _free(&strings)
                raise MemoryError("no memory for the addresses of a column's buffers")
            for index in range(strings.buffer_count):
                strings.buffers[index] = self._address(column.buffers[index], 0, &strings.buffer_sizes[index])
        return strings

    cdef Numbers _numbers(self, object column) except *:
        cdef Numbers numbers
        cdef Py_ssize_t rows = column.offset + column.length
        memset(&numbers, 0, sizeof(numbers))
        numbers.offset = column.offset
        numbers.width = column.width
        numbers.validity = self._address(column.validity, (rows + 7) // 8, NULL)
        if column.length and column.width:
            numbers.data = self._address(column.data or b"", rows * column.width, NULL)
        return numbers

    cdef Numbers _list_offsets(self, object headers) except *:
        """The offsets of a column of lists, one more than there are lists, with its validity bits."""
        cdef Numbers numbers
        cdef Py_ssize_t rows = headers.offset + headers.length
        memset(&numbers, 0, sizeof(numbers))
        numbers.offset = headers.offset
        numbers.width = 4 if headers.layout == SMALL else 8
        numbers.validity = self._address(headers.validity, (rows + 7) // 8, NULL)
        if headers.length:
            numbers.data = self._address(headers.offsets or b"", (rows + 1) * numbers.width, NULL)
        return numbers

    cdef const unsigned char *_address(self, object buffer, Py_ssize_t least, Py_ssize_t *size) except? NULL:
        if buffer is None:
            return NULL
        view = memoryview(buffer)
        cdef Py_buffer *found = PyMemoryView_GET_BUFFER(view)
        if found.len < least:
            raise ValueError(f"a table's buffer has {found.len} bytes where its rows need {least}")
        self._held.append(view)
        if size != NULL:
            size[0] = found.len
        return <const unsigned char *>found.buf

    def _reserve(self, Py_ssize_t rows):
        if rows <= self._allocated:
            return
        PyMem_Free(self._lanes)
        PyMem_Free(self._order)
        self._allocated = 0
        self._lanes = <int32_t *>PyMem_Malloc(rows * sizeof(int32_t))
        self._order = <int32_t *>PyMem_Malloc(rows * sizeof(int32_t))
        if self._lanes == NULL or self._order == NULL:
            raise MemoryError(f"no memory for the order of {rows} rows")
        self._allocated = rows

    def _reserve_routes(self, Py_ssize_t topics):
        PyMem_Free(self._routes)
        self._topic_count = 0
        self._routes = <TopicRoute *>PyMem_Malloc(max(1, topics) * sizeof(TopicRoute))
        if self._routes == NULL:
            raise MemoryError(f"no memory for the routes of {topics} topics")
        self._topic_count = topics

    def _reserve_lanes(self, Py_ssize_t lanes):
        if lanes > self._lanes_allocated:
            PyMem_Free(self._lane_ends)
            self._lanes_allocated = 0
            self._lane_ends = <int32_t *>PyMem_Malloc(lanes * sizeof(int32_t))
            if self._lane_ends == NULL:
                raise MemoryError(f"no memory for {lanes} lanes")
            self._lanes_allocated = lanes
        memset(self._lane_ends, 0, lanes * sizeof(int32_t))

    cdef void _choose_lanes(self) noexcept nogil:
        """Write the lanes of the next rows, and count the rows of each; fewer rows if the plan must end here."""
        cdef Py_ssize_t row = self.start + self.planned
        cdef Py_ssize_t stop = min(self._stop, row + STEP_ROWS)
        cdef int64_t topic = 0
        cdef int64_t hashed = 0
        cdef int32_t lane
        while row < stop and hashed < STEP_BYTES:
            lane = 0
            if self._has_topics:
                topic = NULL_TOPIC if is_null(&self._topics, row) else number_of(&self._topics, row)
            if 0 <= topic < self._topic_count and self._routes[topic].partition_count > 0:
                lane = self._lane_of(row, &self._routes[topic], &hashed)
                if self._routes[topic].sticky_bytes >= self._most_sticky_bytes:
                    self._stop = stop = row + 1
            self._lanes[row - self.start] = lane
            self._lane_ends[lane] += 1
            row += 1
        self.planned = row - self.start

    cdef int32_t _lane_of(self, Py_ssize_t row, TopicRoute *route, int64_t *hashed) noexcept nogil:
        cdef int64_t partition
        cdef Piece piece
        if self._has_partition and not is_null(&self._partition, row):
            partition = number_of(&self._partition, row)
            return route.first_lane + 1 + <int32_t>partition if 0 <= partition < route.partition_count else 0
        if self._hashes_keys and get_string(&self._key, row, &piece) and piece.size >= 0:
            hashed[0] += piece.size
            return route.first_lane + 1 + <int32_t>(
                (<uint32_t>hash_bytes(piece.data, piece.size) & 0x7FFFFFFF) % <uint32_t>route.partition_count
            )
        route.sticky_bytes += RECORD_COST
        if get_string(&self._value, row, &piece) and piece.size > 0:
            route.sticky_bytes += piece.size
        return route.first_lane + 1 + route.sticky_partition

    cdef bint _sort(self) noexcept nogil:
        """Put the rows into the order of their lanes, by counting. True when they are all in one: then nothing is done.

        ``_lane_ends`` has the number of rows of each lane, and after the call the position after its last row.
        """
        cdef Py_ssize_t index
        cdef int32_t place = 0
        cdef int32_t count
        if self._lane_ends[self._lanes[0]] == self.planned:
            return True
        for index in range(self._lane_count):
            count = self._lane_ends[index]
            self._lane_ends[index] = place
            place += count
        for index in range(self.planned):
            # Each lane's start ends up as its end.
            self._order[self._lane_ends[self._lanes[index]]] = <int32_t>index
            self._lane_ends[self._lanes[index]] += 1
        return False

    cdef bint _timestamp_of(self, Py_ssize_t row, int64_t *timestamp_ms) noexcept nogil:
        """False when it does not fit into 64 bits."""
        cdef int64_t number
        if not self._has_timestamp or is_null(&self._timestamp, row):
            timestamp_ms[0] = self.now_ms
            return True
        number = number_of(&self._timestamp, row)
        if self._divisor != 1:
            timestamp_ms[0] = number // self._divisor - (number < 0 and number % self._divisor != 0)
            return True
        if self._multiplier != 1 and not INT64_MIN // self._multiplier <= number <= INT64_MAX // self._multiplier:
            return False
        timestamp_ms[0] = number * self._multiplier
        return True

    cdef bint _size_headers(self, Py_ssize_t row, Py_ssize_t *first, Py_ssize_t *count, Py_ssize_t *size) noexcept nogil:
        """Position, number and size in bytes of a row's headers; False if they are not valid."""
        cdef int64_t start, stop, entry
        cdef Piece piece
        first[0] = count[0] = size[0] = 0
        if is_null(&self._header_lists, row):
            return True
        start = number_of(&self._header_lists, row)
        stop = number_of(&self._header_lists, row + 1)
        if not 0 <= start <= stop <= self._entry_count:
            return False
        for entry in range(start, stop):
            if is_null(&self._header_entries, entry):
                return False
            if not get_string(&self._header_names, entry, &piece) or piece.size < 0:
                return False
            size[0] += size_field(piece.size)
            if not get_string(&self._header_values, entry, &piece):
                return False
            size[0] += size_field(piece.size)
        first[0] = start
        count[0] = stop - start
        return True

    cdef unsigned char *_write_headers(self, unsigned char *out, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
        cdef Py_ssize_t entry
        cdef Piece piece
        for entry in range(first, first + count):
            get_string(&self._header_names, entry, &piece)
            out = write_field(out, piece.data, piece.size)
            get_string(&self._header_values, entry, &piece)
            out = write_field(out, piece.data, piece.size)
        return out

    cdef Py_ssize_t _encode(self, RecordBatchBuilder builder, Py_ssize_t stop, int64_t most_bytes) noexcept nogil:
        """Encode rows until one needs another block, and return its size; 0 at the end, -1 before an invalid row."""
        if builder.count and self._only_lane >= 0 and not (self._has_key or self._has_headers or self._has_timestamp):
            return self._encode_values(builder, stop, most_bytes)
        cdef Py_ssize_t row
        cdef Py_ssize_t found = 0
        cdef Piece key, value
        cdef int64_t timestamp_ms, body_size, record_size
        cdef uint64_t timestamp_delta, offset_delta
        cdef Py_ssize_t first_header = 0
        cdef Py_ssize_t header_count = 0
        cdef Py_ssize_t headers_size = 0
        cdef const unsigned char *ahead
        # Fields that change with each row are kept in locals: the compiler cannot keep fields in registers.
        cdef Py_ssize_t position = self.position
        cdef int64_t encoded = 0
        cdef int64_t most = most_bytes - self.encoded_bytes
        cdef Py_ssize_t count = builder.count
        cdef int64_t room = min(builder.limit, MAX_BATCH_SIZE) - builder.size
        cdef unsigned char *out = builder._next
        cdef bint is_ordered = self._only_lane < 0
        cdef bint is_plain = not self._has_timestamp
        key.data = NULL
        key.size = -1
        timestamp_ms = self.now_ms
        while position < stop and encoded < most:
            if is_ordered:
                row = self.start + self._order[position]
                if position + ROWS_AHEAD < self.planned:
                    ahead = address_of(&self._value, self.start + self._order[position + ROWS_AHEAD])
                    # Inline: a compiler drops a function that only prefetches, as having no effect.
                    prefetch(ahead, 0)
                    prefetch(ahead + LINE, 0)
                    prefetch(ahead + 2 * LINE, 0)
            else:
                row = self.start + position
            if (
                (not is_plain and not self._timestamp_of(row, &timestamp_ms))
                or not get_string(&self._value, row, &value)
                or (self._has_key and not get_string(&self._key, row, &key))
                or (self._has_headers and not self._size_headers(row, &first_header, &header_count, &headers_size))
            ):
                found = -1
                break
            if not count:
                timestamp_delta = 0
            else:
                # Unsigned, so that it wraps around as Java's long does.
                timestamp_delta = zigzag_of(<int64_t>(<uint64_t>timestamp_ms - <uint64_t>builder.base_timestamp))
            offset_delta = zigzag_of(count)
            body_size = size_body(timestamp_delta, offset_delta, key.size, value.size, header_count, headers_size)
            record_size = body_size + varint_size(zigzag_of(body_size))
            if encoded + record_size > room and (count or builder.size + record_size > MAX_BATCH_SIZE):
                break
            if builder._stop - out < record_size:
                found = record_size
                break
            out = write_body(
                out, body_size, timestamp_delta, offset_delta,
                key.data, key.size, value.data, value.size, header_count,
            )
            if header_count:
                out = self._write_headers(out, first_header, header_count)
            if not count:
                builder.base_timestamp = builder.max_timestamp = timestamp_ms
            elif timestamp_ms > builder.max_timestamp:
                builder.max_timestamp = timestamp_ms
            count += 1
            position += 1
            encoded += record_size
        builder._next = out
        builder.count = count
        builder.size += encoded
        builder.records_size += encoded
        self.position = position
        self.encoded_bytes += encoded
        return found

    cdef Py_ssize_t _encode_values(self, RecordBatchBuilder builder, Py_ssize_t stop, int64_t most_bytes) noexcept nogil:
        """As ``_encode``, for rows in their own order that have a value only, after a batch's first record."""
        cdef Strings values = self._value
        cdef Piece value
        cdef Stencil stencil
        cdef Py_ssize_t found = 0
        cdef Py_ssize_t position = self.position
        cdef Py_ssize_t count = builder.count
        cdef Py_ssize_t start = self.start
        cdef Py_ssize_t turn
        cdef int64_t behind
        cdef bint is_small = values.layout == SMALL
        # Each value begins at the end of the one before, so one number is enough for the next.
        cdef bint is_in_pieces = (is_small or values.layout == LARGE) and not values.has_indices and not values.validity
        cdef unsigned char *first = builder._next
        cdef unsigned char *out = first
        # The room in the batch, and the space in its block.
        cdef int64_t room = min(builder.limit, MAX_BATCH_SIZE) - builder.size
        cdef Py_ssize_t space = builder._stop - first
        cdef unsigned char *end = first + min(space, room)
        # No record begins after it.
        cdef unsigned char *last = first + min(room, most_bytes - self.encoded_bytes)
        cdef unsigned char *last_of_turn
        # Unsigned, so that it wraps around as Java's long does.
        cdef uint64_t timestamp_delta = zigzag_of(<int64_t>(<uint64_t>self.now_ms - <uint64_t>builder.base_timestamp))
        stencil.value_size = stencil.stop = 0  # of no record
        while position < stop and out < last:
            if not get_string(&values, start + position, &value):
                found = -1
                break
            if value.size != stencil.value_size or count >= stencil.stop:
                cut_stencil(&stencil, timestamp_delta, count, value.size)
            if end - out < stencil.record_size:
                if (out - first) + stencil.record_size <= room:
                    found = stencil.record_size
                break
            # The records that follow with this stencil need fewer questions.
            last_of_turn = min(last - 1, end - stencil.record_size)
            turn = min(stop, position + (stencil.stop - count)) if is_in_pieces else 0
            while True:
                prefetch(value.data + BYTES_AHEAD, 0)
                prefetch(value.data + BYTES_AHEAD + LINE, 0)
                out = write_in_run(&stencil, out, count, value.data)
                count += 1
                position += 1
                if position >= turn or out > last_of_turn:
                    break
                value.data += value.size
                behind = offset_at(&values, is_small, start + position + 1)
                if behind > values.data_size or behind - (value.data - values.data) != value.size:
                    break
        if out != first:
            builder.max_timestamp = max(builder.max_timestamp, self.now_ms)
        builder._next = out
        builder.count = count
        builder.size += out - first
        builder.records_size += out - first
        self.position = position
        self.encoded_bytes += out - first
        return found

    def _headers_of(self, Py_ssize_t row):
        cdef Py_ssize_t entry
        cdef int64_t start, stop
        if is_null(&self._header_lists, row):
            return None
        start = number_of(&self._header_lists, row)
        stop = number_of(&self._header_lists, row + 1)
        if not 0 <= start <= stop <= self._entry_count:
            raise SerializationError(f"its headers are {start} to {stop} of {self._entry_count}")
        headers = []
        for entry in range(start, stop):
            if is_null(&self._header_entries, entry):
                raise SerializationError(f"header {entry - start} is null: expected a key and a value")
            name = _object_of(&self._header_names, entry, "header key")
            if name is None:
                raise SerializationError(f"the key of header {entry - start} is null: expected a string")
            try:
                text = name.decode()
            except UnicodeDecodeError:
                raise SerializationError(f"the key of header {entry - start} is not UTF-8") from None
            headers.append((text, _object_of(&self._header_values, entry, "header value")))
        return headers


def order_of(lanes):
    """The row at each position of the order by lane, and the position of each row."""
    cdef Py_ssize_t count = len(lanes)
    cdef Py_ssize_t index, place
    cdef bytes order = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
    cdef bytes places = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
    cdef int32_t *row_at = <int32_t *><const unsigned char *>order
    cdef int32_t *place_of = <int32_t *><const unsigned char *>places
    cdef bytes numbers = array("i", lanes).tobytes()
    cdef const int32_t *lane_of = <const int32_t *><const unsigned char *>numbers
    cdef list ends = [0] * (max(lanes, default=0) + 2)
    for index in range(count):
        ends[lane_of[index] + 1] += 1
    for index in range(1, len(ends)):
        ends[index] += ends[index - 1]
    for index in range(count):
        place = ends[lane_of[index]]
        ends[lane_of[index]] = place + 1
        row_at[place] = <int32_t>index
        place_of[index] = <int32_t>place
    return array("i", order), array("i", places)


cdef inline bint has_bit(const unsigned char *bits, Py_ssize_t place) noexcept nogil:
    return bits[place >> 3] >> (place & 7) & 1


cdef inline bint is_null(const Numbers *column, Py_ssize_t row) noexcept nogil:
    return column.validity != NULL and not has_bit(column.validity, column.offset + row)


cdef inline int64_t number_of(const Numbers *column, Py_ssize_t row) noexcept nogil:
    if column.width == 4:
        return (<const int32_t *>column.data)[column.offset + row]
    return (<const int64_t *>column.data)[column.offset + row]


cdef inline bint get_string(const Strings *column, Py_ssize_t row, Piece *piece) noexcept nogil:
    """The byte string of a row, or size -1 for null; False if it is out of its column's buffers."""
    cdef Py_ssize_t place
    cdef int64_t start, stop
    piece.data = NULL
    piece.size = -1
    if column.has_indices:
        if is_null(&column.indices, row):
            return True
        row = number_of(&column.indices, row)
        if not 0 <= row < column.length:
            return False
    place = column.offset + row
    if column.validity != NULL and not has_bit(column.validity, place):
        return True
    if column.layout == SMALL:
        start = (<const int32_t *>column.offsets)[place]
        stop = (<const int32_t *>column.offsets)[place + 1]
    elif column.layout == LARGE:
        start = (<const int64_t *>column.offsets)[place]
        stop = (<const int64_t *>column.offsets)[place + 1]
    elif column.layout == FIXED:
        piece.data = column.data + place * column.width
        piece.size = column.width
        return True
    elif column.layout == VIEWS:
        return get_view(column, place, piece)
    else:
        return True
    if not 0 <= start <= stop <= column.data_size:
        return False
    piece.data = column.data + start
    piece.size = stop - start
    return True


cdef inline int64_t offset_at(const Strings *column, bint is_small, Py_ssize_t row) noexcept nogil:
    """The offset in ``data`` at which a row's bytes begin, and those of the row before end."""
    cdef Py_ssize_t place = column.offset + row
    return (<const int32_t *>column.offsets)[place] if is_small else (<const int64_t *>column.offsets)[place]


cdef inline const unsigned char *address_of(const Strings *column, Py_ssize_t row) noexcept nogil:
    """The probable address of a row's bytes, for prefetching; NULL if it cannot be computed without reading them."""
    cdef Py_ssize_t place = column.offset + row
    if column.has_indices:
        return NULL
    if column.layout == SMALL:
        return column.data + (<const int32_t *>column.offsets)[place]
    if column.layout == LARGE:
        return column.data + (<const int64_t *>column.offsets)[place]
    if column.layout == FIXED:
        return column.data + place * column.width
    return NULL


cdef inline bint get_view(const Strings *column, Py_ssize_t place, Piece *piece) noexcept nogil:
    cdef const int32_t *view = <const int32_t *>(column.offsets + 16 * place)
    cdef int32_t size = view[0]
    if size < 0:
        return False
    if size <= 12:
        piece.data = <const unsigned char *>(view + 1)
    else:
        if not 0 <= view[2] < column.buffer_count:
            return False
        if view[3] < 0 or <int64_t>view[3] + size > column.buffer_sizes[view[2]]:
            return False
        piece.data = column.buffers[view[2]] + view[3]
    piece.size = size
    return True


cdef object _object_of(const Strings *column, Py_ssize_t row, str name):
    cdef Piece piece
    if not get_string(column, row, &piece):
        raise SerializationError(f"its {name} does not lie within the buffers of its column")
    if piece.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>piece.data, piece.size)


cdef void _free(Strings *strings) noexcept:
    PyMem_Free(strings.buffers)
    PyMem_Free(strings.buffer_sizes)
    strings.buffers = NULL
    strings.buffer_sizes = NULL


def _length_of(column):
    return column.length if column.indices is None else column.indices.length
