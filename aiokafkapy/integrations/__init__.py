"""The producer in web frameworks, beside databases and registries, and in monitoring; importing this package imports
none of its modules, and each needs the extra of its name.

An application's requests, rows, models, settings and scrapes come in; records go out by the producer's public calls,
and so do a producer's numbers.

- ``fastapi`` (also for Starlette), ``aiohttp`` and ``litestar`` tie the producer's life cycle to the application's:
  started before the first request, drained after the last. Their common parts are in ``service`` and ``undelivered``.
- ``asgi`` and ``request_headers`` carry a request's id, trace and deadline into its records; they need no extra.
- ``outbox`` publishes the records that a service wrote in its own database transaction.
- ``schema_registry`` writes and reads records whose schema a registry has.
- ``prometheus`` and ``opentelemetry`` export the metrics that ``measurements`` lists.
- ``settings`` reads options from the environment, ``.env`` files and directories of secrets.
"""
