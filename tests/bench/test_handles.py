"""The bench of handles: a contender that lies is found out, and ratios say who is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.handles import OPERATIONS, ratios_of
from bench.handles_side import PAYLOAD_BYTES, Book, WrongResult, name_of, payload_of


class Dictionary(Book):
    """A contender that keeps its handles in memory."""

    def __init__(self, files: Path) -> None:
        super().__init__(files)
        self.kept: dict[str, bytes] = {}

    def do_add(self, number: int, payload: bytes) -> None:
        assert name_of(number) not in self.kept
        self.kept[name_of(number)] = payload

    def do_replace(self, number: int, payload: bytes) -> None:
        assert name_of(number) in self.kept
        self.kept[name_of(number)] = payload

    def do_add_drop(self, number: int, payload: bytes, drop: int) -> None:
        del self.kept[name_of(drop)]
        self.do_add(number, payload)

    def do_get_all(self) -> Mapping[str, bytes]:
        return dict(self.kept)

    def do_remove_all(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self.kept[name_of(number)]


def filled(folder: Path) -> Dictionary:
    side = Dictionary(folder)
    side.add(6)
    side.replace(3)
    side.add_drop(2)
    return side


def test_a_side_that_does_what_it_says_passes(tmp_path: Path) -> None:
    side = filled(tmp_path)
    assert side.changes == {2: 0, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0}
    assert side.get_all() >= 0
    assert side.remove_all() >= 0
    side.add(1)
    assert list(side.kept) == [name_of(8)]


@pytest.mark.parametrize("lie", ["lost", "old", "more"])
def test_a_side_that_lost_something_does_not(lie: str, tmp_path: Path) -> None:
    side = filled(tmp_path)
    if lie == "lost":
        del side.kept[name_of(5)]
    else:
        side.kept[name_of({"old": 5, "more": 99}[lie])] = payload_of(5, 0)
    with pytest.raises(WrongResult):
        side.get_all()


def test_a_side_that_leaves_a_file_does_not(tmp_path: Path) -> None:
    side = filled(tmp_path)
    (tmp_path / "left").touch()
    with pytest.raises(WrongResult, match="0 handles and 1 files are left"):
        side.remove_all()


def test_payloads_differ_and_have_their_size() -> None:
    payloads = {payload_of(number, change) for number in (1, 11, 111) for change in (0, 1, 11)}
    assert len(payloads) == 9
    assert {len(payload) for payload in payloads} == {PAYLOAD_BYTES}


def test_ratios_are_ours_over_theirs_and_leave_out_who_is_not_there() -> None:
    tenths = {"zookeeper": 1, "etcd": 2, "zookeeper_files": 3, "etcd_files": 4, "flink": 5}
    tenths |= {"zookeeper_bare": 2, "etcd_bare": 2, "zookeeper_bare_record": 1, "etcd_bare_record": 1}
    ratios = ratios_of({operation: {name: float(n) for name, n in tenths.items()} for operation in OPERATIONS})
    assert ratios["zookeeper"]["ratios"]["add_vs_flink"] == 0.2
    assert ratios["zookeeper"]["file_ratios"]["get_all_vs_bare"] == 1.5
    assert ratios["etcd"]["ratios"]["remove_all_vs_bare"] == 1.0
    assert ratios["etcd"]["ratios"]["remove_all_vs_bare_record"] == 2.0
    assert set(ratios["etcd"]["file_ratios"]) == {
        f"{one}_vs_{them}" for one in OPERATIONS for them in ("flink", "bare")
    }
