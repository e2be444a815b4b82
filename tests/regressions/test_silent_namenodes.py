"""A NameNode's host was gone without a word, and a member waited for its answer for a quarter of an hour.

hdfs-native has no limit for an answer. It asks the other NameNode of a nameservice only after an error, and a new
client begins with the first of the list again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.errors import StorageError
from tenure.storage.reach import reach
from tests.kit.silent import Silent, nameservice, silence
from tests.kit.waiting import wait_until


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ExitStack]:
    monkeypatch.setattr("tenure.storage.hdfs_client._SILENT_S", 0.3)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with silence() as sockets:
        yield sockets


def test_a_namenode_that_never_answers_is_away(stack: ExitStack, tmp_path: Path) -> None:
    silent = Silent(stack)
    (tmp_path / "hdfs-site.xml").write_text(nameservice("none", "", ""))
    storage = reach(f"hdfs://{silent.address}/ha")
    for _ in range(2):  # each on a connection of its own
        with pytest.raises(StorageError, match=r"cannot read hdfs://127\.0\.0\.1:\d+/ha/x: no answer for 0\.3 s"):
            storage.read("x")
        wait_until(silent.is_asked, what="a new connection")


def test_another_namenode_is_asked_after_one_that_never_answers(stack: ExitStack, tmp_path: Path) -> None:
    a, b = Silent(stack), Silent(stack)
    service = f"n{os.urandom(4).hex()}"  # a process keeps its client of an authority
    (tmp_path / "hdfs-site.xml").write_text(nameservice(service, a.address, b.address))
    storage = reach(f"hdfs://{service}/ha")
    for first, other in ((a, b), (b, a), (a, b)):
        with pytest.raises(StorageError, match=r"no answer for 0\.3 s"):
            storage.read("x")
        wait_until(first.is_asked, what="a connection to the NameNode whose turn it is")
        assert not other.is_asked(), "the client waited for the first"
