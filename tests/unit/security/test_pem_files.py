from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.pem_files import blocks_of, file_version, fingerprint, read_blocks

PEM = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nYWJj\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.mark.parametrize("text", [PEM, PEM.replace("\n", "\\n"), PEM.replace("\n", "\r\n"), PEM.replace("\n", " ")])
def test_blocks_are_found_in_any_layout(text: str) -> None:
    (block,) = read_blocks("it", "a note\n" + text)
    assert (block.label, block.text) == ("CERTIFICATE", PEM.strip())
    assert not block.is_key


def test_a_key_and_its_encryption_are_known_by_their_label() -> None:
    certificate, key = read_blocks("it", PEM + KEY)
    assert (certificate.is_key, certificate.is_encrypted) == (False, False)
    assert (key.is_key, key.is_encrypted) == (True, True)


def test_a_directory_stands_for_its_files_but_for_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.pem", "a.pem", ".c.pem"):
        (tmp_path / name).write_text(PEM)
    (tmp_path / "b.pem").write_text(KEY)
    found = blocks_of("ssl_truststore_location", str(tmp_path))
    assert [block.is_key for block in found] == [False, True]


def test_text_in_the_place_of_a_path_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="ssl_crl_location is PEM text: write the path of a file") as caught:
        blocks_of("ssl_crl_location", PEM)
    assert "YWJj" not in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl_key_location='/none' cannot be read \(No such file"):
        blocks_of("ssl_key_location", "/none")


def test_a_fingerprint_changes_with_a_file_that_appears_is_written_to_or_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    seen = [fingerprint(str(path), None)]
    for text in (PEM, PEM + KEY):
        path.write_text(text)
        seen.append(fingerprint(str(path), None))
        assert fingerprint(str(path), None) == seen[-1]
    assert len(set(seen)) == 3
    path.unlink()
    assert fingerprint(str(path), None) == seen[0] == ((str(path), None),)
    assert file_version(path) is None
