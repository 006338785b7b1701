"""Record batches (message format 2): encoded, decoded, compressed, checked.

Bytes in, values out: no asyncio, no clock, no log, no broker, no topic. The loops over bytes live in the byte kernel,
compiled (`_kernel.pyx`) with a Python twin (`_kernel_py.py`); `builder` chooses between them.
"""
