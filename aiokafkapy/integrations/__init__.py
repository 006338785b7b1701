"""The producer in other people's frameworks; each module needs the extra of its name.

`fastapi` (and Starlette) and `aiohttp` give the producer the life of the application: started before the first request,
drained after the last. Importing this package imports none of them.
"""
