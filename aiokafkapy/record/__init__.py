"""Record batches (message format 2): encoded, decoded, compressed, checked.

Records, or columns of a table, come in and the bytes of batches go out, and the other way round. Knows no asyncio, no
clock, no log, no broker and no topic. The loops over bytes are kernels: ``builder``, ``arrow_rows`` and
``record_columns``, each a ``.pyx`` with a twin of the same name in plain Python. Kafka's counterpart is
``org.apache.kafka.common.record``.
"""
