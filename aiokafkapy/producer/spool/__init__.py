"""Records for which there is no room go to disk, and from there to the accumulator when brokers are back.

Records that ``SpoolingAdmission`` cannot admit come in; their deliveries go out once they are on disk, and later the
records themselves, in order. ``Spooling`` is the room's face. It is imported only with ``spool_dir``. Kafka has no
counterpart; Vector's disk buffer and Fluent Bit's filesystem buffer are the models.
"""
