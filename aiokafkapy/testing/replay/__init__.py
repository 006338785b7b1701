"""A recorded conversation played again: the other end of a recording, for a client that is to do the same once more.

``comparison`` says whether two requests are the same, ``script`` finds the recorded request and its response, both
pure; ``replay_broker`` has the sockets.

Comes in: a ``recording.Recording``, and requests. Goes out: the recorded answers, and each ``ReplayMismatch``.
"""

from .replay_broker import ReplayBroker
from .script import ReplayMismatchError

__all__ = ["ReplayBroker", "ReplayMismatchError"]
