"""Looks for secrets in recordings: all bytes of a file, and the forms that a secret may have in it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

__all__ = ["encodings", "file_contents"]


def file_contents(file: Path) -> bytes:
    """A recording as it is, and all bytes in it."""
    data = file.read_bytes()
    wires = [json.loads(line).get("wire", "") for line in data.splitlines()]
    return b"\n".join([data, *map(base64.b64decode, wires)])


def encodings(secret: str) -> set[bytes]:
    raw = secret.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode(), quote(secret).encode(), raw[::-1]}
    found |= {json.dumps(secret).encode()[1:-1], secret.encode("utf-16-le"), secret.encode("utf-16-be")}
    for shift in range(3):  # where the secret may begin within three bytes of base64
        whole = base64.b64encode(b"\0" * shift + raw)
        found.add(whole[4 if shift else 0 : len(whole) // 4 * 4 - 4])
    return found
