"""A conversation with a cluster as a file, which a ``FaultProxy`` writes and a ``ReplayBroker`` reads.

``lines`` is the format, ``recorder`` writes it, ``hiding`` takes secrets and payloads out before a line is written,
``recording`` reads it. None of them knows a socket. Names are imported on first access: a replay does not need the
clock that the recorder has.

Frames that a client sent and got come in; lines of JSON go out, and the conversations in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazy_names

if TYPE_CHECKING:
    from .lines import RecordingError
    from .recorder import ConnectionRecorder, Recorder
    from .recording import Conversation, Exchange, Recording

__all__ = ["ConnectionRecorder", "Conversation", "Exchange", "Recorder", "Recording", "RecordingError"]

_HOMES = {
    "ConnectionRecorder": "recorder",
    "Conversation": "recording",
    "Exchange": "recording",
    "Recorder": "recorder",
    "Recording": "recording",
    "RecordingError": "lines",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)
