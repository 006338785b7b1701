"""The name of a version comes in, and an ``Emulation`` goes out: the older Kafka or other product that a dev broker is
to its clients. Kafka has no counterpart: its brokers are their own release only.

``by_name.emulation_of("2.8")`` is the release, ``emulation_of("redpanda")`` the product. Handlers ask them how to
answer; they know no handler. The versions that a handler serves are narrowed to theirs, so most of a release needs no
code. Nothing is read from disk before the first of them is wanted.
"""
