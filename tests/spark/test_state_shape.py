"""What decides the state of a query: the same in each process, different where Spark says that it must not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.kit.waiting import NEVER_S
from tests.spark import shapes
from tests.two_sparks import path_to_installed

pytestmark = pytest.mark.spark

Read = tuple[str, str] | None
"""The fingerprint of a query, and its words."""

Found = Mapping[str, tuple[Read, Read]]
"""What a process reads of two declarations of each query."""

ALIKE = (
    (
        *("count", "count, filtered", "count, projected", "count, trimmed", "count, its result renamed"),
        *("count, computed with", "count, in SQL", "count, in SQL on another view", "count, in upper case"),
        *("count, of a union", "count, joined with a table", "count, of no table"),
    ),
    ("sum", "sum of some at random"),
    ("count of a column", "count of a column, filtered"),
    ("two sums", "two sums, renamed", "two sums, computed with", "two sums, filtered"),
    ("two sums, the first", "two sums, in SQL, the first"),
    ("two sums, the second", "two sums, in SQL, the second"),
    ("pairs of two", "pairs of two, computed with", "pairs of two that are bare"),
    ("sum, count", "sum, count, sum"),
    ("hour", "hour, filtered"),
    ("unique", "unique, filtered"),
    ("pairs", "pairs of other names", "pairs, filtered"),
    ("function", "another function"),
    ("processor", "another processor"),
)
STATELESS = ("stateless", "joined with a table")


def read_by_a_process(folder: Path, order: str, *, path: Sequence[str] = tuple(sys.path)) -> Found:
    told = subprocess.run(
        [sys.executable, shapes.__file__, str(folder), order],
        env={**os.environ, "PYTHONHASHSEED": str(len(order)), "PYTHONPATH": os.pathsep.join(path)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=3 * NEVER_S,  # all the queries of a process take half a minute, and a mutant waits for that long
    )
    found = json.loads(told.stdout)
    return {name: (_read(first), _read(second)) for name, (first, second) in found.items()}


def _read(found: list[str] | None) -> Read:
    return None if found is None else (found[0], found[1])


def fingerprints(found: Found) -> Mapping[str, str | None]:
    return {name: None if first is None else first[0] for name, (first, _) in found.items()}


def known(found: Mapping[str, str | None]) -> Iterator[Sequence[str]]:
    """Of `ALIKE`, what the release has."""
    return (names for names in ALIKE if set(names) <= set(found))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    folder = tmp_path_factory.mktemp("shapes")
    return read_by_a_process(folder, "forward"), read_by_a_process(folder, "backward")


def test_two_declarations_in_two_processes_are_read_alike(processes: tuple[Found, Found]) -> None:
    first, second = processes
    assert set(first) == {*shapes.QUERIES, "count, complete"}
    read = {name: {one and one[0] for one in (*first[name], *second[name])} for name in first}
    assert [name for name in read if len(read[name]) > 1] == []


def test_both_releases_of_spark_read_a_query_alike(processes: tuple[Found, Found], tmp_path: Path) -> None:
    """So an upgrade of Spark goes on with the state of the release before."""
    newer = fingerprints(read_by_a_process(tmp_path, "forward", path=path_to_installed()))
    older = fingerprints(processes[0])
    assert {name: newer[name] for name in older} == older


def test_the_words_say_what_is_kept(processes: tuple[Found, Found]) -> None:
    words = {name: read[1] for name, (read, _) in processes[0].items() if read is not None}
    assert words["two sums"] == "sum(id), sum(n) by k; update mode"
    assert words["two sums, the other order"] == "sum(n), sum(id) by k; update mode"
    assert words["two sums, the second"] == "sum(n) by k, without sum(id); update mode"
    assert words["two sums, no sum"] == "nothing by k, without sum(id), sum(n); update mode"
    assert "the join keeps (id, v, t) and (id, t)" in words["pairs of two"]
    assert "lambdafunction(add(x, y), x, y)" in words["sum of a lambda"]


def test_what_decides_nothing_changes_nothing(processes: tuple[Found, Found]) -> None:
    found = fingerprints(processes[0])
    for names in known(found):
        assert {name: found[name] for name in names} == dict.fromkeys(names, found[names[0]])


def test_whatever_decides_it_makes_a_difference(processes: tuple[Found, Found]) -> None:
    found = fingerprints(processes[0])
    as_one = {name: names[0] for names in known(found) for name in names}
    kept = sorted({as_one.get(name, name) for name in found if name not in STATELESS})
    assert len(kept) > 35
    assert [pair for pair in combinations(kept, 2) if found[pair[0]] == found[pair[1]]] == []


def test_a_query_without_state_has_no_shape(processes: tuple[Found, Found]) -> None:
    found = fingerprints(processes[0])
    assert sorted(name for name in found if found[name] is None) == sorted(STATELESS)
