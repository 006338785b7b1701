"""Record batches (message format 2): encoded, decoded, compressed, checked.

Knows no asyncio, no clock, no log, no broker and no topic. The loops over bytes are kernels: ``builder``,
``arrow_rows`` and ``record_columns``, each a ``.pyx`` with a twin of the same name in plain Python.
"""
