"""The producer in web frameworks and beside databases; each module needs the extra of its name.

``fastapi`` (also for Starlette) and ``aiohttp`` tie the producer's life cycle to the application's: started before the
first request, drained after the last. ``outbox`` publishes the records that a service wrote in its own database
transaction. Importing this package imports none of them.
"""
