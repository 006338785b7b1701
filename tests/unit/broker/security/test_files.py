"""ACLs in the data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.broker.security.files import AclFile
from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError, write_checkpoint
from aiokafkapy.errors import KafkaStorageError

_R = ResourceType

ACLS = [
    AclBinding(_R.TOPIC, "caf\u00e9\n", PatternType.LITERAL, "User:CN=a, O=b", "*", Operation.READ, Permission.ALLOW),
    AclBinding(_R.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:*", "10.0.0.1", Operation.ALL, Permission.DENY),
]


def test_acls_survive(tmp_path: Path) -> None:
    assert AclFile(tmp_path).load() == []
    AclFile(tmp_path).save(ACLS)
    loaded = AclFile(tmp_path).load()
    assert loaded == ACLS
    assert all(isinstance(each, AclBinding) and each.operation.name for each in loaded)
    AclFile(tmp_path).save([])
    assert AclFile(tmp_path).load() == []


def test_without_a_folder_nothing_is_kept() -> None:
    AclFile(None).save(ACLS)
    assert AclFile(None).load() == []


@pytest.mark.parametrize("line", [b"[1]", b"x", b'[2, "t", 3, "nobody", "*", 3, 3]', b"7"])
def test_a_line_that_is_not_an_acl_is_damage(tmp_path: Path, line: bytes) -> None:
    write_checkpoint(tmp_path / "acls", line)
    with pytest.raises(DamagedFileError, match="acls is damaged: a line of it is not an ACL"):
        AclFile(tmp_path).load()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    (tmp_path / "acls.tmp").mkdir()
    with pytest.raises(KafkaStorageError, match="cannot write"):
        AclFile(tmp_path).save(ACLS)
