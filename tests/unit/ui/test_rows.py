"""The rows of all pipelines: the worst first, the verdict of `tenure status`, and one line for all."""

from __future__ import annotations

from dataclasses import replace

from tenure.coordination.records import Scope
from tenure.errors import Corrupt, CorruptRecord
from tenure.operate.picture import ScopePicture
from tenure.operate.snapshot import QueryStatus
from tenure.operate.verdict import verdict
from tenure.ui.rows import MOST, row_of, rows_of, verdict_of_all
from tests.unit.operate.test_verdict import ANNA, EMPTY, FAILS, LED, with_

DEAD = with_(EMPTY, members=())


def of(*pictures: tuple[str, ScopePicture | Corrupt]) -> list[tuple[Scope, ScopePicture | Corrupt]]:
    return [(Scope(name), picture) for name, picture in pictures]


def test_a_row_has_the_verdict_of_the_command() -> None:
    for picture in (LED, DEAD, with_(EMPTY, failing=FAILS), with_(LED, members=(ANNA,))):
        row, first = row_of(Scope("rows"), picture), verdict(picture).findings[0]
        assert (row["level"], row["sentence"], row["cause"]) == (first.level, first.sentence, first.cause)
        assert (row["leader"], row["epoch"]) == (picture.snapshot.leader, picture.snapshot.epoch)
    queries = (QueryStatus("a", 7, 1, planned_at="2030-01-01T11:59:01Z"), QueryStatus("b", 9, 1, planned_at=None))
    row = row_of(Scope("rows"), with_(LED, queries=queries))
    assert (row["planned_at"], row["standbys"], row["ready"]) == ("2030-01-01T11:59:01Z", 1, 1)


def test_the_worst_come_first_and_damage_hides_nobody() -> None:
    damaged = CorruptRecord("record 'epoch' does not decode")
    thin = with_(LED, members=(ANNA,))
    rows = rows_of(of(("b-well", LED), ("thin", thin), ("z-dead", DEAD), ("a-well", LED), ("broken", damaged)))
    assert [row["scope"] for row in rows] == ["broken", "z-dead", "thin", "a-well", "b-well"]
    assert rows[0]["cause"] == "record 'epoch' does not decode"


def test_one_line_for_all() -> None:
    def line(*pictures: tuple[str, ScopePicture | Corrupt]) -> tuple[str, str]:
        rows = rows_of(of(*pictures))
        said = verdict_of_all(rows, total=len(rows))
        return said["level"], said["sentence"]

    thin = with_(LED, members=(ANNA,))
    assert line() == ("ok", "no pipeline is in this store")
    assert line(("a", LED)) == ("ok", "all is well with 1 pipeline")
    assert line(("a", LED), ("b", thin))[0] == "warn"
    assert line(("a", LED), ("b", DEAD)) == ("bad", "1 of 2 pipelines needs you: b")
    dead = [(f"d{number}", DEAD) for number in range(5)]
    assert line(*dead, ("a", thin)) == ("bad", "5 of 6 pipelines need you: d0, d1, d2 and 2 more")


def test_the_worst_are_kept_where_there_are_too_many() -> None:
    many = of(*((f"p{number:04}", LED) for number in range(MOST + 50)), ("zzz", DEAD))
    rows = rows_of(many)
    assert (len(rows), rows[0]["scope"]) == (MOST, "zzz")


def test_a_row_names_its_fields_so_nothing_else_is_sent() -> None:
    row = row_of(Scope("rows"), replace(LED))
    assert set(row) == {
        *("scope", "level", "sentence", "cause", "do", "leader", "epoch", "standbys", "ready", "planned_at"),
        *("is_paused", "has_ended"),
    }
