"""Each test is in exactly one group, and each group and folder is run by the targets of the Makefile."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import chain, product

import pytest

from tests import draw, groups
from tests.groups import (
    BESIDE_THE_GATE,
    GATE,
    GATE_GROUP,
    GROUPS,
    LONG,
    OTHER_SPARK,
    OTHER_SPARK_DRAWN,
    PURE,
    REST,
    UNDRAWN,
    group_of,
    is_named,
    sessions,
    stale,
)
from tests.house import tree
from tests.run import TARGETS


@pytest.mark.parametrize(
    ("node", "is_long", "starts", "group"),
    [
        ("tests/unit/test_new.py::test_it", False, False, PURE),
        ("tests/unit/test_new.py::test_it[zookeeper]", False, True, REST),
        ("tests/contract/test_new.py::test_it", False, False, REST),
        ("tests/spark/test_new.py::test_it", False, False, REST),
        ("tests/new/test_new.py::test_it", False, False, REST),
        ("tests/regressions/test_new.py::test_it", False, True, GATE_GROUP),
        ("tests/regressions/test_new.py::test_it", True, True, LONG),
        ("tests/regressions/test_slow.py::test_it", False, True, REST),
        ("tests/regressions/test_slow.py::test_it", True, True, LONG),
        ("tests/contract/test_named.py::test_it[etcd]", False, True, GATE_GROUP),
        ("tests/contract/test_named.py::test_it_not", False, True, REST),
        ("tests/contract/test_named.py::test_it[etcd]", True, True, LONG),
    ],
)
def test_the_closest_rule_decides(
    monkeypatch: pytest.MonkeyPatch, node: str, is_long: bool, starts: bool, group: str
) -> None:
    monkeypatch.setattr(groups, "GATE", ("tests/contract/test_named.py::test_it",))
    monkeypatch.setattr(groups, "BESIDE_THE_GATE", ("tests/regressions/test_slow.py::test_it",))
    assert group_of(node, is_long=is_long, is_drawn=True, starts=starts) == group
    assert group_of(node, is_long=is_long, is_drawn=False, starts=starts) == (LONG if is_long else UNDRAWN)
    left_out = UNDRAWN if group == REST and "test_slow" not in node else group
    assert group_of(node, is_long=is_long, is_drawn=True, starts=starts, in_part=False) == left_out


def test_every_group_is_run_by_one_target() -> None:
    assert Counter(
        group for target in ("test", "rest", "undrawn", "long") for group in TARGETS[target]
    ) == dict.fromkeys(GROUPS, 1)
    assert set(TARGETS["check"]) < set(TARGETS["test"])


def test_every_folder_with_tests_is_in_one_session() -> None:
    found = {path.relative_to(groups.TESTS).parts[0] for path in tree.files() if path.match("tests/**/test_*.py")}
    assert Counter(folder for session in sessions() for folder in session.folders) == dict.fromkeys(found, 1)


def test_what_the_gate_names_is_there() -> None:
    """Its file and its function; whether its parameters are there too is seen when the gate is run."""
    texts = {str(module): module.text for module in tree.modules()}
    gone = []
    for entry in (*GATE, *BESIDE_THE_GATE, *OTHER_SPARK, *chain.from_iterable(OTHER_SPARK_DRAWN.values())):
        file, *words = re.sub(r"\[.*\]$", "", entry).split("::")
        found = [re.search(rf"^\s*(?:def |class )?{word}\b", texts.get(file, ""), flags=re.MULTILINE) for word in words]
        if file not in texts or None in found:
            gone.append(entry)
    assert not gone


def test_the_gate_names_nothing_twice() -> None:
    assert not [entry for entry in GATE if any(entry != other and is_named(entry, other) for other in GATE)]
    assert len(GATE) == len(set(GATE))


def test_each_name_is_drawn_by_some_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(draw.STORE, raising=False)
    found = []
    for number in range(math.prod(map(len, draw.DRAWS))):
        monkeypatch.setenv(draw.NUMBER, str(number))
        found.append(draw.drawn())
    assert len(set(found)) == len(found)
    assert all(len(names & {*choice}) == 1 for names in found for choice in draw.DRAWS)
    assert {name for names in found for name in names} == {name for choice in draw.DRAWS for name in choice}


def test_a_case_beside_the_gate_is_in_one_part_of_eight_and_a_server_s_in_one_of_two() -> None:
    nodes = [f"tests/a/test_a.py::test_it[{i}]" for i in range(800)]
    parts = Counter(draw.parts_of(node, ()) for node in nodes)
    assert set(parts) == {frozenset(names) for names in product(draw.HALVES, draw.QUARTERS)}
    assert min(parts.values()) > 50
    assert Counter(draw.parts_of(node, ["etcd"]) for node in nodes).keys() == {frozenset({one}) for one in draw.HALVES}
    for name in (draw.ON_S3, draw.QUARTERS[0], draw.SEEDS[1]):
        assert draw.parts_of(nodes[0], [name]) == draw.parts_of(nodes[0], ["etcd", name]) == frozenset()


def test_the_environment_decides_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in draw.SERVERS:
        monkeypatch.setenv(draw.STORE, server)
        assert draw.drawn() & {*draw.SERVERS} == {server}
    monkeypatch.setenv(draw.STORE, "sqlite")
    with pytest.raises(pytest.UsageError, match="TENURE_TEST_STORE is 'sqlite', and not one of zookeeper, etcd"):
        draw.drawn()


def test_an_entry_that_names_no_case_is_told() -> None:
    nodes = ["tests/a/test_a.py::test_it[etcd]", "tests/a/test_a.py::TestIt::test_it"]
    entries = ["tests/a/test_a.py::test_it[sqlite]", "tests/a/test_a.py::TestIt", "tests/b/test_b.py::test_elsewhere"]
    assert stale(entries, nodes) == ["tests/a/test_a.py::test_it[sqlite]"]
