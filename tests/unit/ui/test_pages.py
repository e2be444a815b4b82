"""The parts of the page of one pipeline: terms with gaps, takeovers with phases, members, and nothing secret."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, encode_checkpoint
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.candidates import AskedBy, Lag, Switchover
from tenure.coordination.records import Record, Version
from tenure.coordination.terms import Opening
from tenure.errors import CorruptRecord
from tenure.events import BatchCommitted, Swept, TermEnded, event_to_data
from tenure.handles.handle import encode_handle
from tenure.operate.history import TermHistory, TermStatus
from tenure.operate.picture import ScopePicture
from tenure.ui import pages
from tests.unit.operate.test_verdict import BEN, CLEAN, EMPTY, LED, with_


def at(minute: int, second: int = 0) -> str:
    return f"2030-01-01T10:{minute:02}:{second:02}.000+00:00"


ANNA_1 = TermStatus(1, "anna", at(0), at(5), at(5), "failed", "no such column")
BEN_2 = TermStatus(2, "ben", at(7), "", "", "", "", gap_s=120, gap_at_least_s=120)


def led_by(*terms: TermStatus) -> ScopePicture:
    return replace(LED, history=TermHistory(terms))


def checkpoint(query: str, batch: int, *, payload: bytes | None = None) -> Record:
    made = Checkpoint(query, "id", batch, '{"secret-offsets":1}', "runs/7", 1, at(batch))
    value = encode_handle(uid="u", epoch=1, content=encode_checkpoint(made) if payload is None else payload)
    return Record(CHECKPOINTS.child(query).child(checkpoint_name(batch)), value, Version("1"), None)


def spans(picture: ScopePicture) -> list[tuple[str, str, str | None]]:
    found = pages.parts_of(picture, ())["spans"]
    return [(one["kind"], one["since"], one["until"]) for one in found]


def test_a_time_without_a_leader_is_a_span_of_its_own() -> None:
    assert spans(led_by(ANNA_1, BEN_2)) == [("term", at(0), at(5)), ("gap", at(5), at(7)), ("term", at(7), None)]


def test_a_time_in_which_nobody_knows_is_no_term_and_no_gap() -> None:
    """Anna's last sign is of 10:03, her office was found empty at 10:05, ben led from 10:07."""
    unseen = replace(ANNA_1, until=at(3), until_at_most=at(5), why="session ended", detail="")
    later = replace(BEN_2, gap_s=240, gap_at_least_s=120)
    assert spans(led_by(unseen, later)) == [
        ("term", at(0), at(3)), ("perhaps", at(3), at(5)), ("gap", at(5), at(7)), ("term", at(7), None),
    ]  # fmt: skip
    surely_none = replace(BEN_2, since=at(5), gap_s=120, gap_at_least_s=0)
    assert spans(led_by(unseen, surely_none))[1:] == [("perhaps", at(3), at(5)), ("term", at(5), None)]


def test_a_handover_without_a_gap_has_none() -> None:
    at_once = replace(BEN_2, since=at(5), gap_s=0, gap_at_least_s=0)
    assert [kind for kind, *_ in spans(led_by(ANNA_1, at_once))] == ["term", "term"]


def test_a_scope_that_nobody_leads_ends_with_an_open_gap_unless_it_has_ended() -> None:
    empty = replace(EMPTY, history=TermHistory((ANNA_1,), empty_since=at(5)))
    assert spans(empty)[-1] == ("gap", at(5), None)
    assert spans(replace(empty, result=CLEAN))[-1] == ("term", at(0), at(5))


def test_a_takeover_has_its_phases_in_order() -> None:
    opening = Opening(at(7, 3), 2.5, 12, True, at(7, 4), at(7, 6), at(7, 9))
    fresh = Opening(started_at=at(7, 1))
    (found,) = pages.takeovers([ANNA_1, replace(BEN_2, openings={"raw": opening, "new": fresh})])
    assert (found["epoch"], found["holder"]) == (2, "ben")
    assert [(bar["phase"], bar["since"], bar["until"], bar["before_s"]) for bar in found["bars"]] == [
        ("empty", at(5), at(7), 0), ("start", at(7), at(7, 1), 0),
        ("seed", at(7, 3), at(7, 3), 2.5), ("start", at(7, 3), at(7, 4), 0),
        ("plan", at(7, 4), at(7, 6), 0), ("commit", at(7, 6), at(7, 9), 0),
    ]  # fmt: skip
    assert "12 files beside a mirror" in found["bars"][2]["text"]


def test_a_takeover_of_which_no_phase_is_known_is_none() -> None:
    assert pages.takeovers([ANNA_1, BEN_2]) == []


def test_members_and_the_office() -> None:
    ben = replace(BEN, lag=Lag(2, 70), nofailover=True, priority=-1, trouble="no driver", http="there:8008")
    asked = Switchover(1, "ben", AskedBy("root@here", "new disk"))
    parts = pages.parts_of(with_(LED, members=(*LED.snapshot.members[:1], ben), switchover=asked), ())
    anna, shown = parts["members"]
    assert (anna["role"], shown["role"], shown["lag"]) == ("leader", "standby", {"batches": 2, "bytes": 70})
    assert (shown["tags"], shown["trouble"], shown["has_probes"]) == (["priority -1", "nofailover"], "no driver", True)
    assert parts["office"]["leader"] == "anna"
    assert parts["office"]["switchover"] == {"to": "ben", "by": "root@here", "reason": "new disk"}
    assert parts["verdict"]["findings"][-1]["sentence"].startswith("anna leads, epoch 1")


def test_checkpoints_are_listed_without_their_offsets_and_damage_hides_no_other() -> None:
    damaged = replace(checkpoint("copy", 3), value=b"{}")
    found = pages.parts_of(LED, (checkpoint("copy", 2), checkpoint("copy", 1), damaged, checkpoint("agg", 7)))
    listed = found["checkpoints"]
    assert [(one["query"], one["batch"]) for one in listed] == [("agg", 7), ("copy", 1), ("copy", 2)]
    assert listed[0]["planned_at"] == at(7)
    assert "secret" not in json.dumps(found)
    assert "runs/7" not in json.dumps(found)


def test_a_scope_that_is_damaged_or_missing_has_a_verdict() -> None:
    assert pages.trouble(CorruptRecord("record 'x'"))["verdict"]["findings"][0]["cause"] == "record 'x'"
    assert "is not in this store" in pages.missing("rows")["verdict"]["findings"][0]["sentence"]


def test_an_event_has_its_line_and_an_event_of_another_version_its_fields() -> None:
    known = {"number": 7, "at": "noon", "of": "anna", **event_to_data(TermEnded("rows", "anna", 3, "failed", "no 'x'"))}
    assert pages.event_of(known) == {
        "number": 7, "at": "noon", "of": "anna", "event": "TermEnded", "text": "term 3 is over: failed: no 'x'",
    }  # fmt: skip
    newer = {"number": 8, "at": "noon", "of": "anna", "event": "OfTomorrow", "scope": "rows", "what": 5, "none": ""}
    assert pages.event_of(newer)["text"] == "what 5"


def test_a_batch_has_its_rows_where_they_are_known() -> None:
    batch = {"number": 1, "at": "noon", "of": "anna", **event_to_data(BatchCommitted("rows", 3, "copy", 8, False, 0.5))}
    assert "rows" not in pages.batch_of(batch)
    assert pages.batch_of({**batch, "rows": 12})["rows"] == 12
    assert "scope" not in pages.batch_of(batch)


def test_the_newest_news_of_a_sweep_counts() -> None:
    def swept(minute: int, removed: int) -> dict[str, object]:
        event = Swept("rows", epoch=3, removed=removed, left=0, first="", seconds=1.5)
        return {"number": 1, "at": at(minute), "of": "anna", **event_to_data(event)}

    news = pages.sweep_in([swept(1, 3), {"event": "TermWon", "at": at(9)}], None)
    assert news is not None
    assert news["removed"] == 3
    assert pages.sweep_in([], news) == news
    assert pages.sweep_in([swept(0, 9)], news) == news
    newer = pages.sweep_in([swept(2, 4)], news)
    assert newer is not None
    assert newer["removed"] == 4


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ({"state": "leading", "behind": {"raw": 7, "odd": "x"}}, {"raw": 7}),
        ({"state": "warm", "behind": {"raw": 7}}, {}),
        ({"trouble": "no answer"}, {}),
    ],
)
def test_the_backlog_is_that_of_the_leader(answer: dict[str, object], known: dict[str, int]) -> None:
    assert pages.backlog_of(answer) == known


def test_the_answer_of_a_member_names_its_fields() -> None:
    shown = pages.answer_of("anna", {"state": "warm", "silent_s": 1.5, "more": "hidden"}, at="noon")
    assert (shown["state"], shown["silent_s"], shown["trouble"]) == ("warm", 1.5, None)
    assert "more" not in shown
