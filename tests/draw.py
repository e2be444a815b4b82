"""What a run draws by the commit's hash: one server for the layers above the store's contract, and two of the scenes
that let a leader die each death.

Promise: all runs of a commit draw the same, each name is drawn by some commit, and `make test-nightly` runs what is not
drawn. `TENURE_TEST_STORE=etcd` decides the server. Without git, the draw is always the same. A test that is named by
its node id runs, drawn or not: only `--group` leaves tests out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
STORE: Final = "TENURE_TEST_STORE"
NUMBER: Final = "TENURE_TEST_DRAW"
"""The variable with the number that decides: of a run and all of its workers."""
NO_COMMIT: Final = 1

SERVERS: Final = ("zookeeper", "etcd", "kubernetes")
"""The contract's own tests run on each of them. The layers above run on memory, SQLite and one of these."""
ON_S3, ON_HDFS, EXECUTORS_ON_S3 = "scene on S3", "scene on HDFS", "scene of executors on S3"
FROM_KAFKA, TO_POSTGRES = "scene from Kafka", "scene to PostgreSQL"
DRAWS: Final = (SERVERS, (ON_S3, ON_HDFS, EXECUTORS_ON_S3), (FROM_KAFKA, TO_POSTGRES))
"""One name of each is drawn: a server, a storage, and a source or sink that is not on a disk."""


def only_if_drawn(name: str) -> pytest.MarkDecorator:
    """The mark of a case that runs in the gate of the commits that draw this name."""
    assert any(name in names for names in DRAWS), name
    return pytest.mark.drawn(name)


def drawn() -> frozenset[str]:
    """The names that this commit draws. Raises pytest.UsageError: the server of the environment is none."""
    names, number = [], int(os.environ.get(NUMBER) or number_of_commit())
    for choice in DRAWS:
        number, place = divmod(number, len(choice))
        names.append(choice[place])
    store = os.environ.get(STORE) or names[0]
    if store not in SERVERS:
        raise pytest.UsageError(f"{STORE} is {store!r}, and not one of {', '.join(SERVERS)}")
    return frozenset({store, *names[1:]})


@cache
def number_of_commit() -> int:
    """The hash of the commit that is checked out."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return NO_COMMIT
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout, 16) if asked.returncode == 0 else NO_COMMIT
