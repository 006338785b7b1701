"""Record batches (message format 2): encoded, decoded, compressed, checked.

Bytes in, values out: no asyncio, no clock, no log, no broker, no topic. The loops over bytes are kernels:
`builder`, `arrow_rows` and `record_columns`, each a `.pyx` with a twin in plain Python of the same name.
"""
