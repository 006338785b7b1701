"""The common Protobuf files: a schema imports them, and no registry is asked for them.

Owns their names and contents. Pure. Confluent's counterpart is ``ProtobufSchema``, with its known dependencies.

Rules: those of ``google/protobuf/`` are in Protobuf's library, those of ``google/type/`` in
``googleapis-common-protos``, if that is installed; Confluent's are here, as their registry compiles them.
"""

from __future__ import annotations

import base64
import importlib
import re
from typing import Final

from google.protobuf import descriptor_pb2

__all__ = ["is_known_to_all", "known_file"]

_FOLDERS: Final = ("google/protobuf/", "google/type/", "confluent/")
_OF_GOOGLE: Final = re.compile(r"google/(protobuf|type)/([a-z_]+)[.]proto")
_OF_CONFLUENT: Final = {
    "confluent/meta.proto": (
        "ChRjb25mbHVlbnQvbWV0YS5wcm90bxIJY29uZmx1ZW50GiBnb29nbGUvcHJvdG9idWYvZGVzY3JpcHRvci5wcm90byKdAQoETWV0YRIL"
        "CgNkb2MYASABKAkSKwoGcGFyYW1zGAIgAygLMhsuY29uZmx1ZW50Lk1ldGEuUGFyYW1zRW50cnkSDAoEdGFncxgDIAMoCRIeCgVydWxl"
        "cxgEIAMoCzIPLmNvbmZsdWVudC5SdWxlGi0KC1BhcmFtc0VudHJ5EgsKA2tleRgBIAEoCRINCgV2YWx1ZRgCIAEoCToCOAEiPAoEUnVs"
        "ZRIMCgRuYW1lGAEgASgJEgsKA2RvYxgCIAEoCRIMCgRleHByGAMgASgJEgsKA3NxbBgEIAEoCTpBCglmaWxlX21ldGESHC5nb29nbGUu"
        "cHJvdG9idWYuRmlsZU9wdGlvbnMYwAggASgLMg8uY29uZmx1ZW50Lk1ldGE6RwoMbWVzc2FnZV9tZXRhEh8uZ29vZ2xlLnByb3RvYnVm"
        "Lk1lc3NhZ2VPcHRpb25zGMAIIAEoCzIPLmNvbmZsdWVudC5NZXRhOkMKCmZpZWxkX21ldGESHS5nb29nbGUucHJvdG9idWYuRmllbGRP"
        "cHRpb25zGMAIIAEoCzIPLmNvbmZsdWVudC5NZXRhOkEKCWVudW1fbWV0YRIcLmdvb2dsZS5wcm90b2J1Zi5FbnVtT3B0aW9ucxjACCAB"
        "KAsyDy5jb25mbHVlbnQuTWV0YTpMCg9lbnVtX3ZhbHVlX21ldGESIS5nb29nbGUucHJvdG9idWYuRW51bVZhbHVlT3B0aW9ucxjACCAB"
        "KAsyDy5jb25mbHVlbnQuTWV0YUIOWgwuLi9jb25mbHVlbnRiBnByb3RvMw=="
    ),
    "confluent/type/decimal.proto": (
        "Chxjb25mbHVlbnQvdHlwZS9kZWNpbWFsLnByb3RvEg5jb25mbHVlbnQudHlwZSI6CgdEZWNpbWFsEg0KBXZhbHVlGAEgASgMEhEKCXBy"
        "ZWNpc2lvbhgCIAEoDRINCgVzY2FsZRgDIAEoBWIGcHJvdG8z"
    ),
    "confluent/types/decimal.proto": (
        "Ch1jb25mbHVlbnQvdHlwZXMvZGVjaW1hbC5wcm90bxocY29uZmx1ZW50L3R5cGUvZGVjaW1hbC5wcm90b1AAYgZwcm90bzM="
    ),
}


def is_known_to_all(name: str) -> bool:
    """True if a file is neither registered nor looked up."""
    return name.startswith(_FOLDERS)


def known_file(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The file, if it is a common one."""
    content = _OF_CONFLUENT.get(name)
    if content is not None:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(content))
    found = _OF_GOOGLE.fullmatch(name)
    if found is None:
        return None
    try:
        module = importlib.import_module(f"google.{found[1]}.{found[2]}_pb2")
    except ModuleNotFoundError:
        return None
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
