"""An error of a NameNode had its whole stack, of fifteen lines of Java, as one literal of Rust."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import StorageError
from tenure.storage.reach import reach

SAFE_MODE = (
    r'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file \"/ha/x\". '
    r"Name node is in safe mode.\nThe reported blocks 24 has reached the threshold.\n"
    r"\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.newSafemodeException(FSNamesystem.java:1687)\n"
    r'\tat java.base/java.security.AccessController(x)\n")'
)
WORDS = 'SafeModeException: Cannot create file "/ha/x". Name node is in safe mode'


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SAFE_MODE, WORDS),
        (f"Fatal{SAFE_MODE}", WORDS),
        ('InternalError("no such thing")', 'InternalError("no such thing")'),
    ],
    ids=["rpc", "fatal", "other"],
)
def test_the_words_of_a_namenode_have_no_stack(monkeypatch: pytest.MonkeyPatch, error: str, words: str) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError(error)

    raw = SimpleNamespace(create=refuse, delete=refuse)
    monkeypatch.setattr("hdfs_native.RawClient", lambda *_: raw)
    root = f"hdfs://n{os.urandom(4).hex()}:1/ha"  # a process keeps its client of an authority
    with pytest.raises(StorageError) as failed:
        reach(root).write("x", b"data")
    assert str(failed.value) == f"cannot write {root}/x: {words}; check the storage and its permissions"
