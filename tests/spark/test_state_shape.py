"""What decides the state of a query: the same in each process, different where Spark says that it must not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest

from tenure.testing.waiting import NEVER_S
from tests.house.tree import ROOT
from tests.spark import shapes

pytestmark = pytest.mark.spark

Found = Mapping[str, str | None]

ALIKE = (
    (
        *("count", "count, filtered", "count, projected", "count, trimmed", "count, its result renamed"),
        *("count, computed with", "count, in SQL", "count, in SQL on another view", "count, in upper case"),
        *("count, of a union", "count, joined with a table"),
    ),
    ("sum, count", "sum, count, sum"),
    ("hour", "hour, filtered"),
    ("unique", "unique, filtered"),
    ("pairs", "pairs of other names", "pairs, filtered"),
    ("function", "another function"),
    ("processor", "another processor"),
)
STATELESS = ("stateless", "joined with a table")


def read_by_a_process(folder: Path, order: str) -> Found:
    told = subprocess.run(
        [sys.executable, shapes.__file__, str(folder), order],
        env={**os.environ, "PYTHONHASHSEED": str(len(order)), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=NEVER_S,
    )
    found: Found = json.loads(told.stdout)
    return found


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    folder = tmp_path_factory.mktemp("shapes")
    return read_by_a_process(folder, "forward"), read_by_a_process(folder, "backward")


def test_two_processes_read_the_same(processes: tuple[Found, Found]) -> None:
    first, second = processes
    assert set(first) == {*shapes.QUERIES, "count, complete"}
    assert {name: (first[name], second[name]) for name in first if first[name] != second[name]} == {}


def test_what_decides_nothing_changes_nothing(processes: tuple[Found, Found]) -> None:
    found, _ = processes
    for names in ALIKE:
        assert {name: found[name] for name in names} == dict.fromkeys(names, found[names[0]])


def test_whatever_decides_it_makes_a_difference(processes: tuple[Found, Found]) -> None:
    found, _ = processes
    as_one = {name: names[0] for names in ALIKE for name in names}
    kept = sorted({as_one.get(name, name) for name in found if name not in STATELESS})
    assert len(kept) > 35
    assert [pair for pair in combinations(kept, 2) if found[pair[0]] == found[pair[1]]] == []


def test_a_query_without_state_has_no_shape(processes: tuple[Found, Found]) -> None:
    found, _ = processes
    assert sorted(name for name in found if found[name] is None) == sorted(STATELESS)
