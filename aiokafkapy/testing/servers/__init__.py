"""Programs that serve a port of this machine for tests, and what their processes, ports and files need."""
