"""A conversation with a cluster as a file: written by a ``FaultProxy``, read by a ``ReplayBroker``.

``lines`` is the format, ``recorder`` writes it, ``hiding`` takes secrets and payloads out before anything is written,
``recording`` reads it. None of them knows a socket.

Comes in: frames as a client sent and got them. Goes out: lines of JSON, and the conversations that they tell.
"""

from .lines import RecordingError
from .recorder import ConnectionRecorder, Recorder
from .recording import Conversation, Exchange, Recording

__all__ = ["ConnectionRecorder", "Conversation", "Exchange", "Recorder", "Recording", "RecordingError"]
