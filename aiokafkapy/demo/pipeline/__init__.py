"""The demo's second half: a Spark job that reads the flights' topic with our source and writes with our sink.

A topic of flights comes in; topics and Parquet files with the results, pictures, a page and a report of checks go out.

- ``results``: the four results, as Spark computes them: delays by carrier, by hour, by route, and rolling by airport
- ``expected``: the same by pandas, from the data file
- ``job``: the Spark program: batch and stream, to Kafka and Parquet, and back
- ``comparison``: the results read back against those of pandas, to the row
- ``pictures``, ``page``: a PNG for each result, and the HTML page with all of it
- ``runner``: starts the job in a separate process and follows it

Only ``job`` and ``results`` need PySpark.
"""

from __future__ import annotations

__all__: list[str] = []
