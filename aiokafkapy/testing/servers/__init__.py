"""Programs that serve a port of this machine for tests, and what their processes, ports and files need.

Comes in: a program's command, and how long it may take to start. Goes out: a port at which it answers, until its test
ends.
"""
