"""What a run draws by the commit's hash: one server for the layers above the store's contract, one of the scenes that
let a leader die each death, one of the scenes of minutes, a half of the server's tests beside the gate, an eighth of
the others, a quarter of the seeds, and one part of what the other release of Spark is tried with.

Promise: all runs of a commit draw the same, but that a run with another release of Spark has another quarter of the
tests and of the seeds. Each name is drawn by some commit, and `make test-nightly` runs what is not
drawn. `TENURE_TEST_STORE=etcd` decides the server. Without git, the draw is always the same. A test that is named by
its node id runs, drawn or not: only `--group` leaves tests out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
STORE: Final = "TENURE_TEST_STORE"
NUMBER: Final = "TENURE_TEST_DRAW"
"""The variable with the number that decides: of a run and all of its workers."""
OTHER_RELEASE: Final = "TENURE_TEST_OTHER_RELEASE"
"""The variable of a run with another release of Spark than the installed one."""
NO_COMMIT: Final = 1

SERVERS: Final = ("zookeeper", "etcd", "kubernetes", "postgres", "s3")
"""The layers above the contract run on memory, SQLite and one of these. The contract's own tests run on each, but on
PostgreSQL and S3 only if the commit draws it."""
ON_S3, ON_HDFS, EXECUTORS_ON_S3 = "scene on S3", "scene on HDFS", "scene of executors on S3"
FROM_KAFKA, TO_POSTGRES = "scene from Kafka", "scene to PostgreSQL"
TO_FILES, TO_ICEBERG, TO_KAFKA = "scene to files", "scene to Iceberg", "scene to Kafka"
LOST_STORE, EACH_STEP, TO_THE_END = "scene of a lost store", "scene of each step", "scene to the end"
HALVES: Final = tuple(f"{word} half of the tests" for word in ("first", "second"))
QUARTERS: Final = tuple(f"{word} quarter of the tests" for word in ("first", "second", "third", "last"))
SEEDS: Final = tuple(f"{word} quarter of the seeds" for word in ("first", "second", "third", "last"))
STATES, MEMBERS, TARGETS = (f"{what} of the other release" for what in ("states", "members", "targets"))
DRAWS: Final = (
    SERVERS,
    (ON_S3, ON_HDFS, EXECUTORS_ON_S3, FROM_KAFKA, TO_POSTGRES, TO_FILES, TO_ICEBERG, TO_KAFKA),
    (LOST_STORE, EACH_STEP, TO_THE_END),
    (STATES, MEMBERS, TARGETS),
    HALVES,
    QUARTERS,
    SEEDS,
)
"""One name of each is drawn: a server; a storage, a source or a sink; a scene of minutes on a disk; what the other
release of Spark is tried with; a half and a quarter of the tests beside the gate; and a quarter of the seeds."""


def only_if_drawn(*any_of: str) -> pytest.MarkDecorator:
    """The mark of a case that runs in the commits that draw one of these names."""
    assert all(any(name in names for names in DRAWS) for name in any_of), any_of
    return pytest.mark.drawn(*any_of)


def parts_of(node: str, marks: Collection[str]) -> frozenset[str]:
    """What must be drawn for a case beside the gate, whose marks have these names: its half and its quarter, so a file
    with many cases has some of them in each part; of a server's case its half alone. Any other mark keeps a file
    together whose servers and JVMs cost more than its cases."""
    number, quarter = divmod(zlib.crc32(node.encode()), len(QUARTERS))
    half = HALVES[number % len(HALVES)]
    if not marks:
        return frozenset({half, QUARTERS[quarter]})
    return frozenset({half} if {*marks} <= {*SERVERS} else ())


def seeds_of(what: str) -> pytest.MarkDecorator:
    """The mark of a case with a seed of this kind: its quarter is drawn by the name alone, so a new case moves no
    other. One release tries one quarter, the other the next one."""
    return only_if_drawn(SEEDS[zlib.crc32(what.encode()) % len(SEEDS)])


def drawn() -> frozenset[str]:
    """The names that this commit draws. Raises pytest.UsageError: the server of the environment is none."""
    names, number = [], int(os.environ.get(NUMBER) or number_of_commit())
    for choice in DRAWS:
        number, place = divmod(number, len(choice))
        names.append(choice[place])
    if os.environ.get(OTHER_RELEASE):
        names = [*names[:-2], _next(names[-2], QUARTERS), _next(names[-1], SEEDS)]
    store = os.environ.get(STORE) or names[0]
    if store not in SERVERS:
        raise pytest.UsageError(f"{STORE} is {store!r}, and not one of {', '.join(SERVERS)}")
    return frozenset({store, *names[1:]})


def _next(name: str, names: Sequence[str]) -> str:
    return names[(names.index(name) + 1) % len(names)]


@cache
def number_of_commit() -> int:
    """The hash of the commit that is checked out."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return NO_COMMIT
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout, 16) if asked.returncode == 0 else NO_COMMIT
