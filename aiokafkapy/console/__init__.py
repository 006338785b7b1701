"""The console: a page in the browser that shows a cluster live, and, of a dev broker, switches its faults.

``Console`` is the door: ``Console.of_broker(dev_broker)`` or ``Console.of_cluster("host:9092")``. The shown data comes
from a ``Source`` (``broker_source``, ``cluster_source``) as data of ``model``; ``watch`` samples it once a second,
``app`` has the routes, ``guard`` decides which requests are answered, ``server`` serves, and ``static`` is the page.

HTTP requests of the page come in; the page, its data as JSON, and a stream of events go out.

Needs ``pip install 'aiokafkapy[console]'``. Among the lower packages only the dev broker imports it, when it is asked
for a console.
"""

from __future__ import annotations

from .console import Console

__all__ = ["Console"]
