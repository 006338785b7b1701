"""Plays a recorded conversation again: the other end of a recording, for a client that must do the same once more.

``comparison`` says whether two requests are the same, ``script`` finds the recorded request and its response, both
pure; ``replay_broker`` has the sockets.

A ``recording.Recording`` and requests come in; the recorded answers, and each ``ReplayMismatch``, go out.
"""

from .replay_broker import ReplayBroker
from .script import ReplayMismatchError

__all__ = ["ReplayBroker", "ReplayMismatchError"]
