"""A table comes in, its rows go out to the accumulator as runs, and one result comes back.

Imported only when a table is sent, as it needs pyarrow. Java has no counterpart.
"""
