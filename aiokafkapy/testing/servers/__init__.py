"""Programs that serve a port of this machine for tests, with their processes, ports and files.

A program's command and its time to start come in; a port at which it answers until its test ends goes out.
"""
