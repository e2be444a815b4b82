"""What the soak takes for the truth, and that it notices each way in which an output can differ from it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from demo.ground import Ground
from tests.crash.truth import Row, compare
from tests.soak.inputs import movable
from tests.soak.kinds import EVENTS_A_FILE, KINDS, moment
from tests.soak.lake import Lake
from tests.soak.ledger import Entry, Ledger
from tests.soak.outputs import Output, told
from tests.soak.places import place_of
from tests.soak.plan import CATALOG, ICEBERG, Query
from tests.soak.topics import newest_and_repeats

FED = {"a": 63, "b": 42, "c": 42, "left": 63, "right": 42}


def test_the_rows_of_each_kind() -> None:
    rows = {name: kind.rows(dict.fromkeys(kind.sources, 7)) for name, kind in KINDS.items()}
    assert rows["passed"] == [(i,) for i in range(7)]
    assert rows["windows"] == []
    assert rows["unique"] == [(0,), (1,), (2,), (3,)]
    assert rows["counts"] == rows["totals"] == [(0, 2, 5, 5), (1, 2, 7, 6), (2, 1, 2, 2), (3, 1, 3, 3), (4, 1, 4, 4)]
    assert rows["joined"] == [(i, i + 1) for i in range(6)]
    assert rows["twice"] == [(tag, i) for tag in ("a", "again", "b", "c") for i in range(7)]
    assert rows["numbered"] == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1)]


def test_a_window_is_there_once_the_watermark_has_passed_its_end() -> None:
    kind = KINDS["windows"]
    assert kind.rows({"a": 30}) == []
    assert kind.rows({"a": 31}) == [(moment(0), 20, sum(range(20)))]
    assert kind.rows({"a": 51})[1] == (moment(20), 20, sum(range(20, 40)))


def test_a_pair_needs_both_its_events() -> None:
    assert KINDS["joined"].rows({"left": 4, "right": 2}) == [(0, 1)]
    assert KINDS["joined"].rows({"left": 1, "right": 9}) == [(0, 1)]
    assert KINDS["joined"].rows({"left": 0, "right": 0}) == []


@pytest.mark.parametrize("name", KINDS)
@given(files=st.integers(min_value=0, max_value=9), other=st.integers(min_value=0, max_value=9))
def test_what_an_output_shows_was_read(name: str, files: int, other: int) -> None:
    kind = KINDS[name]
    fed = {source: EVENTS_A_FILE * (files if number == 0 else other) for number, source in enumerate(kind.sources)}
    shown = kind.shown(kind.rows(fed))
    assert set(shown) == set(kind.sources)
    assert all(0 <= shown[source] <= fed[source] for source in kind.sources)


@pytest.mark.parametrize("name", KINDS)
def test_an_output_shows_nearly_all_that_was_read(name: str) -> None:
    kind = KINDS[name]
    fed = dict.fromkeys(kind.sources, 210)
    shown = kind.shown(kind.rows(fed))
    assert all(shown[source] >= 210 - 30 for source in kind.sources)  # a window's length, and its delay


def test_a_file_may_be_moved_when_all_its_events_show() -> None:
    names = ["000000.json", "000001.json", "000002.json"]
    assert movable(names, 0) == []
    assert movable(names, 20) == []
    assert movable(names, 21) == names[:1]
    assert movable(names, 62) == names[:2]
    assert movable(names[1:], 62) == names[1:2]


def lose(rows: list[Row]) -> list[Row]:
    return rows[:-1]


def double(rows: list[Row]) -> list[Row]:
    return [*rows, rows[0]]


def miscount(rows: list[Row]) -> list[Row]:
    first = rows[0]
    return [(*first[:-1], 4711), *rows[1:]] if isinstance(first[-1], int) else rows[1:]


@pytest.mark.parametrize("sink", ["delta", "ledger", ICEBERG])
@pytest.mark.parametrize("name", KINDS)
def test_the_output_is_compared_row_by_row(name: str, sink: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    fed = {source: FED[source] for source in kind.sources}
    right = kind.rows(fed)
    harms: tuple[tuple[Callable[[list[Row]], list[Row]], str], ...] = (
        (lambda rows: rows, "right"),
        (lose, "1 lost: "),
        (double, "1 surplus: "),
        (miscount, "1 lost: "),
    )
    for number, (harm, words) in enumerate(harms):
        if sink == "ledger" and harm is double and kind.key:
            continue  # a ledger keeps one row of each key
        folder = tmp_path / str(number)
        written(folder, Query(name, sink, "left"), harm(right))
        place = place_of(sink, folder, Ground("", "", {}))
        verdict = Output(folder, Query(name, sink, "left"), place=place).verdict(fed)
        assert verdict.right == (words == "right")
        assert told(verdict).startswith(words)


def written(folder: Path, query: Query, rows: list[Row]) -> None:
    """Write these rows as a query of this kind would."""
    kind, output = KINDS[query.kind], folder / "output" / query.name
    if query.sink != "ledger":
        columns = list(zip(*rows, strict=True))
        table = pa.table(dict(zip(kind.columns, map(list, columns), strict=True)))
    if query.sink == "delta":
        write_deltalake(str(output), table)
        return
    if query.sink == ICEBERG:
        lake = Lake(folder, None)
        folder.mkdir()
        lake.make(())
        lake.catalog.create_table(f"{CATALOG}.{query.name}", table.schema).append(table)
        lake.close()
        return
    plain = [[value.isoformat() if hasattr(value, "isoformat") else value for value in row] for row in rows]
    half = 0 if kind.mode == "complete" else len(plain) // 2
    ledger = Ledger(output)
    ledger.put(Entry("soak", "q", 0, 1, plain[:half]))
    ledger.put(Entry("soak", "q", 1, 1, plain[half:]))


def test_a_record_of_update_mode_that_came_again_is_surplus() -> None:
    rows: list[Row] = [(0, 1, 0), (1, 1, 1), (0, 2, 5), (0, 1, 0), (0, 3, 15)]
    assert sorted(newest_and_repeats(rows, key=1)) == [(0, 1, 0), (0, 3, 15), (1, 1, 1)]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_catalog_that_is_away_keeps_its_readers_and_writers_out(tmp_path: Path, is_there: bool) -> None:
    query, folder = Query("passed", ICEBERG, "left"), tmp_path / "run"
    written(folder, query, [(0,), (1,)])
    lake, other = Lake(folder, None), Lake(folder, None)
    if is_there:
        assert lake.rows(query) == [(0,), (1,)]
    other.leave()
    with pytest.raises(OperationalError, match="locked"):
        lake.catalog.create_namespace("another")
    assert lake.rows(query) == ([(0,), (1,)] if is_there else [])
    other.come_back()
    assert lake.rows(query) == [(0,), (1,)]
    for one in (lake, other):
        one.close()


def test_an_output_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    for sink in ("delta", "ledger"):
        output = Output(tmp_path, Query("passed", sink, "left"))
        assert output.rows() == []
        assert output.verdict({"a": 0}).right
        assert not output.verdict({"a": 21}).right


def test_an_output_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    query = Query("passed", "ledger", "left")
    output, ledger = Output(tmp_path, query), Ledger(tmp_path / "output" / query.name)
    ledger.put(Entry("soak", "q", 0, 1, [[0]]))
    assert output.rows() == [(0,)]
    ledger.put(Entry("soak", "q", 1, 1, [[1]]))
    assert output.rows() == [(0,), (1,)]


def test_a_table_behind_a_url_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    query, tables = Query("passed", "delta", "left"), tmp_path / "tables"
    output = Output(tmp_path, query, tables=f"file://{tables}")
    assert output.rows() == []
    for so_far in ([(0,)], [(0,), (1,)]):
        table = pa.table({"id": [so_far[-1][0]]})
        write_deltalake(str(tables / query.name), table, mode="append")
        assert sorted(output.rows()) == so_far


def test_a_report_names_the_first_rows_in_order() -> None:
    rows: list[Row] = [(moment(0) + timedelta(seconds=i), i) for i in range(12)]
    words = told(compare(rows, rows[:1]))
    assert words.startswith("11 lost: (2026-01-01 00:00:01+00:00, 1), (2026-01-01 00:00:02+00:00, 2), ")
    assert words.endswith(", ...")
    assert told(compare(rows, rows)) == "right"
