"""A batch's outcome comes in, each record's part of it comes out, and awaiting tasks go on, each on its own loop.

``delivery``, ``delivery_list`` and ``produce_request_result`` are pure; ``waiting`` is the port through which tasks
wait for them, and ``asyncio_waiting`` is behind it. Kafka's counterparts are ``ProduceRequestResult`` and
``FutureRecordMetadata``.
"""
