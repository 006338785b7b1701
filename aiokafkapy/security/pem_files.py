"""The PEM of ``ssl.*`` options, from files or text, and the detection of changed files.

Owns the reading of files and directories, and the refusal of Java's stores with the commands that convert them.
Makes no context: ``tls`` does. Kafka's counterpart is ``DefaultSslEngineFactory.PemStore``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from ..errors import ConfigurationError

__all__ = [
    "FileVersion",
    "Fingerprint",
    "PemBlock",
    "blocks_of",
    "file_version",
    "fingerprint",
    "java_store",
    "read_blocks",
]

FileVersion: TypeAlias = tuple[int, int, int]
Fingerprint: TypeAlias = tuple[tuple[str, FileVersion | None], ...]
"""Each file with its time of change, inode and size; None for a missing file."""
_FOR_TEXT: Final = {
    "ssl_truststore_location": "the text as ssl_truststore_certificates",
    "ssl_keystore_location": "the text as ssl_keystore_certificate_chain and ssl_keystore_key",
    "ssl_key_location": "the text as ssl_keystore_key, beside ssl_keystore_certificate_chain",
    "ssl_crl_location": "put the text into one",
}
"""The remedy when the text itself was given in place of a path."""
_JAVA_MAGIC: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_JAVA_SUFFIXES: Final = {".jks": "JKS", ".jceks": "JCEKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".pkcs12": "PKCS12"}
# A DER sequence that begins with the integer 3 is PKCS12's; one that begins with another sequence is a certificate.
_PKCS12: Final = re.compile(rb"\x30(?:\x80|[\x00-\x7f]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
# The text of PEM between two lines: the label, and base64 in any layout. Properties files have it in one line.
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class PemBlock(NamedTuple):
    """One object in PEM."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        return self.label == "ENCRYPTED PRIVATE KEY" or "Proc-Type: 4,ENCRYPTED" in self.text


def file_version(path: Path) -> FileVersion | None:
    """A mark that changes when a file is replaced or written to; None while the file is not accessible."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def fingerprint(*locations: str | None) -> Fingerprint:
    """The state of all files that options name; it differs after any change."""
    found: list[tuple[str, FileVersion | None]] = []
    for location in locations:
        if location is None:
            continue
        try:
            paths = _files(location)
        except (OSError, ValueError):
            paths = [Path(location)]
        found += [(str(path), file_version(path)) for path in paths]
    return tuple(found)


def _files(location: str) -> list[Path]:
    """The file itself, or the files of a directory without hidden ones, in which Kubernetes keeps its own versions."""
    path = Path(location)
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if not file.name.startswith(".") and not file.is_dir())


def blocks_of(option: str, location: str) -> list[PemBlock]:
    """The PEM in a file or in the files of a directory."""
    if not location:  # e.g. an unset shell variable: Path('') is the working directory
        raise ConfigurationError(f"{option} is empty: write the path of a file, or leave it out")
    if "-----BEGIN" in location:  # not shown: it may be a key
        raise ConfigurationError(f"{option} is PEM text: write the path of a file, or {_FOR_TEXT[option]}")
    try:
        contents = [(path, path.read_bytes()) for path in _files(location)]
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{option}={location!r} cannot be read ({reason}): write a file or directory that this process can read"
        ) from error
    blocks: list[PemBlock] = []
    for path, content in contents:
        found = read_blocks(f"{option}={str(path)!r}", content.decode("utf-8", "replace"))
        if not found and len(contents) == 1:
            _refuse_other_formats(option, str(path), content)
        blocks += found
    return blocks


def _refuse_other_formats(option: str, path: str, content: bytes) -> None:
    """The kind of a store of Java's, or DER, by its contents or else by its name."""
    given = f"{option}={path!r}"
    kind = _JAVA_MAGIC.get(content[:4]) or ("PKCS12" if _PKCS12.match(content) else None)
    kind = kind or _JAVA_SUFFIXES.get(Path(path).suffix.lower())
    if kind is not None:
        raise java_store(given, option, path, kind)
    if content[:1] == b"\x30":
        raise ConfigurationError(
            f"{given} is DER, not PEM: `openssl x509 -inform DER -in {path} -out {path}.pem` converts"
        )


def java_store(given: str, option: str, path: str, kind: str) -> ConfigurationError:
    """The refusal of a store, with the commands that convert it to PEM."""
    stem = path[: -len(suffix)] if (suffix := Path(path).suffix) else path
    packed = path if kind == "PKCS12" else f"{stem}.p12"
    commands = [f"openssl pkcs12 -in {packed} {'-nokeys ' if 'truststore' in option else ''}-out {stem}.pem"]
    if kind != "PKCS12":
        commands.insert(0, f"keytool -importkeystore -srckeystore {path} -destkeystore {packed} -deststoretype PKCS12")
    password = "" if "truststore" in option else " and its password as ssl_key_password"
    return ConfigurationError(
        f"{given}: a {kind} store cannot be read here. Convert it with `{'` and `'.join(commands)}`, then write "
        f"{option}={stem + '.pem'!r}{password}"
    )


def read_blocks(name: str, text: str) -> list[PemBlock]:
    """The objects in PEM text, each laid out as OpenSSL wants it; a variable of the environment may have ``\\n``."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(text.replace("\\n", "\n").replace("\r\n", "\n")):
        if strange := re.search(r"[^\x00-\x7f]", body):  # ``ssl`` takes none; a codec's error might show a key
            raise ConfigurationError(f"{name} has {strange[0]!a} inside of a {label}: PEM is ASCII, copy it anew")
        # A key that OpenSSL encrypted in its old way has headers: that one is left as it is.
        packed = "".join(body.split())
        laid_out = body.strip("\n") if ":" in body else "\n".join(packed[i : i + 64] for i in range(0, len(packed), 64))
        blocks.append(PemBlock(label, f"-----BEGIN {label}-----\n{laid_out}\n-----END {label}-----"))
    return blocks
