"""What the command line prints: one line a happening, one line an error, one JSON document."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from tenure import events, progress
from tenure.cli import output as output_module
from tenure.cli.narrator import Narrator
from tenure.cli.output import Output, check_output, complain, show, show_done
from tenure.doctor.targets import TargetAsked
from tenure.errors import UsageError
from tenure.progress import CleanupProgress, LongWork, SeedProgress, SparkStarting
from tests.kit.clock import ManualClock

TOLD: dict[events.Event, str | None] = {
    events.DriverStarted(scope="rows", member="anna", pid=7): "member anna waits for Spark to start",
    events.DriverEnded(scope="rows", member="anna", why="signal SIGKILL", again_s=3.0): (
        "driver of member anna is replaced in 3 s: signal SIGKILL"
    ),
    events.StoreBack(scope="rows", member="anna", away_s=48.2): "the store answers member anna again, after 48.2 s",
    events.DriverSilent(scope="rows", member="anna", silent_s=5.4): (
        "the driver of member anna gives no sign of life, for 5.4 s now"
    ),
    events.RunEnded(scope="rows", member="anna", exit_code=8, error="no luck"): None,
    events.TermEnded(scope="rows", member="anna", epoch=3, why="failed", detail="no such column 'x'"): (
        "term 3 is over: failed: no such column 'x'"
    ),
    events.StoreAway(scope="rows", member="anna", why="it is locked", again_s=0.2): (
        "member anna tries the store again in 0.2 s: it is locked"
    ),
    events.RecordSkipped(scope="rows", record="members/anna", why="record 'members/anna' does not decode: x"): (
        "record 'members/anna' does not decode: x; it is skipped"
    ),
    events.MemberReady(scope="rows", member="anna"): "member anna is ready, standing by",
    events.LeadershipAwaited(scope="rows", member="ben", leader="anna", epoch=3, paused=False): (
        "member ben waits for the leadership: anna leads (epoch 3)"
    ),
    events.LeadershipAwaited(scope="rows", member="ben", leader="", epoch=0, paused=True): (
        "member ben waits for the leadership: nobody leads, and the scope is paused"
    ),
    TargetAsked(scope="rows", query="copy", why=""): "the target of query copy answers",
    TargetAsked(scope="rows", query="copy", why="x"): "the target of query copy does not answer: x",
    events.StandbyWarm(scope="rows", member="anna", seconds=16.2): "member anna is warm after 16 s of rehearsals",
    events.LocalFilesSlow(
        scope="rows", member="a", why="x"
    ): "member a starts a process for each local file of Spark: x",
    events.TablesNotKept(
        scope="rows", member="a", why="x"
    ): "member a copies a state from the storage at each start of a query: x",
    events.MirrorFailed(scope="rows", query="copy", why="x is missing"): "query copy is not mirrored: x is missing",
    events.SnapshotNotMade(
        scope="rows", query="copy", why="x is missing"
    ): "a takeover of query copy replays its last changes: x is missing",
    events.RehearsalFailed(
        scope="rows", query="copy", why="x is missing"
    ): "query copy was not rehearsed: x is missing",
    events.DeclarationChanged(scope="rows", epoch=3, what="stream 'b' begins"): (
        "the pipeline differs from its last leader's: stream 'b' begins"
    ),
    events.FlagsNotNeeded(scope="rows", flags="--new-stream b"): (
        "--new-stream b: not needed, and would allow the next change as well: leave it out"
    ),
    events.TableShared(scope="rows", query="copy", by="stream 'a' of scope 'rows'"): (
        "query copy begins in a table with other writers: stream 'a' of scope 'rows'"
    ),
    events.TermWon(scope="rows", member="anna", epoch=3): "member anna leads, epoch 3",
    events.TermEnded(scope="rows", member="anna", epoch=3, why="refused"): "term 3 is over: refused",
    events.RunDirectorySeeded(scope="rows", epoch=3, query="copy", batch=7, files=3, seconds=0.01, mirrored=True): (
        "query copy goes on at batch 7 (3 files and a mirror, 0.01 s)"
    ),
    events.RunDirectorySeeded(scope="rows", epoch=3, query="copy", batch=7, files=12, seconds=0.125): (
        "query copy goes on at batch 7 (12 files, 0.12 s)"
    ),
    events.QueryStartedAgain(
        scope="rows", epoch=3, query="copy", why="Python worker failed to connect back"
    ): "query copy is started again, by the same driver: Python worker failed to connect back",
    events.QueryStarted(scope="rows", epoch=3, query="copy", run_directory="runs/x"): "query copy started in runs/x",
    events.BatchRetaken(scope="rows", epoch=3, query="copy", batch=7, done=False): None,
    events.BatchStarted(scope="rows", epoch=3, query="copy", batch=7): None,
    events.CheckpointSaved(scope="rows", epoch=3, query="copy", batch=7, seconds=0.1): None,
    events.BatchCommitted(scope="rows", epoch=3, query="copy", batch=7, repeated=False, seconds=1.0): (
        "query copy batch 7 committed in 1.00 s"
    ),
    events.BatchCommitted(scope="rows", epoch=3, query="copy", batch=7, repeated=True, seconds=1.0): (
        "query copy batch 7 committed in 1.00 s (the sink had it already)"
    ),
    events.BatchMeasured(scope="rows", epoch=3, query="copy", batch=7, rows=40, rows_per_s=80.0): None,
    events.RecordsSkipped(scope="rows", epoch=3, query="copy", batch=7, offsets=9, what="topic 'a' partition 0 ..."): (
        "query copy batch 7 lacks 9 offsets that Kafka has no more: topic 'a' partition 0 ..."
    ),
    events.SourceAway(scope="rows", member="anna", why="query 'copy': no answer", again_s=3.0): (
        "member anna tries its sources again in 3 s: query 'copy': no answer"
    ),
    events.SinkAway(scope="rows", member="anna", query="copy", why="query 'copy': refused", again_s=3.0): (
        "member anna tries its sinks again in 3 s: query 'copy': refused"
    ),
    events.StorageAway(scope="rows", member="anna", why="s3://a: 503", again_s=6.0): (
        "member anna tries its storage again in 6 s: s3://a: 503"
    ),
    events.AttemptFailed(
        scope="rows", member="anna", query="copy", batch=7, error="query 'copy' failed: 1/0", attempt=2, again_s=30.0
    ): "query copy batch 7 failed (attempt 2), tried again in 30 s: query 'copy' failed: 1/0",
    events.AttemptFailed(
        scope="rows", member="anna", query="", batch=-1, error="line 7: 1/0", attempt=5, again_s=0.0
    ): "the pipeline's function failed (attempt 5): line 7: 1/0",
    events.ScopePaused(scope="rows", member="anna", why="batch 7 of copy fails: 1/0"): (
        "paused by member anna after the last attempt: batch 7 of copy fails: 1/0; see tenure resume"
    ),
    events.WriteRefused(scope="rows", epoch=3, by="store", what="plan of batch 7"): (
        "refused by the store: plan of batch 7 (epoch 3 is over)"
    ),
    events.PipelineEnded(scope="rows", ending="finished", epoch=3, clean=False): (
        "the pipeline has finished for good, epoch 3: its remains are cleaned up now"
    ),
    events.PipelineEnded(scope="rows", ending="finished", epoch=3, clean=True): (
        "the pipeline has finished for good, epoch 3: nothing is left of it"
    ),
    events.OrphansFound(scope="rows", epoch=3, row="runs", count=7): None,
    events.Swept(scope="rows", epoch=3, removed=7, left=0, first="", seconds=0.52): (
        "swept orphans in 0.5 s: 7 removed"
    ),
    events.Swept(scope="rows", epoch=3, removed=7, left=1, first="runs: x (read-only)", seconds=0.52): (
        "swept orphans in 0.5 s: 7 removed; 1 left, the first: runs: x (read-only)"
    ),
    events.CleanupDelayed(scope="rows", left=2, first="runs: x (read-only)", again_s=4.0): (
        "cleanup: 2 left, tried again in 4 s; the first: runs: x (read-only)"
    ),
    events.CleanupEnded(scope="rows", removed=7, left=0, first="", seconds=0.52): "cleaned up in 0.5 s: 7 removed",
    events.CleanupEnded(scope="rows", removed=7, left=1, first="runs: x (read-only)", seconds=0.52): (
        "cleaned up in 0.5 s: 7 removed; 1 left, the first: runs: x (read-only)"
    ),
    SeedProgress("rows", query="copy", files=120, of=1240, bytes=1_200_000, of_bytes=3_400_000): (
        "copies the state of query copy: 120 of 1,240 files, 1.2 MB of 3.4 MB"
    ),
    SeedProgress("rows", query="copy", files=1, of=2, ahead=True): (
        "copies the state of query copy ahead: 1 of 2 files"
    ),
    SeedProgress("rows", over=True, query="copy", files=2, of=2): None,
    events.JvmStarted("rows", member="anna", java="17.0.15"): None,
    CleanupProgress("rows", row="runs", removed=7, of=1000): "cleans up runs: 7 of 1,000 things",
    SparkStarting("rows", member="anna", seconds=20.0): "member anna waits for Spark to start: 20 s",
    events.BlobLeft(scope="rows", address="e3/x", why="read-only"): "blob e3/x stays for the sweep: read-only",
}


def test_every_event_has_its_line_here() -> None:
    found = [*vars(events).values(), *vars(progress).values()]
    kinds = {kind for kind in found if isinstance(kind, type) and issubclass(kind, events.Event)}
    no_lines = {events.Event, events.Away, events.OfBatch, LongWork}
    assert {type(event) for event in TOLD} == {*kinds, TargetAsked} - no_lines
    assert all(fields(kind) for kind in kinds)


@pytest.mark.parametrize(("event", "line"), TOLD.items(), ids=lambda value: type(value).__name__)
def test_an_event_is_told_in_one_line(
    event: events.Event, line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock()
    clock.advance(timedelta(seconds=1))
    Narrator(clock=clock, quiet=False)(event)
    told = capsys.readouterr().err
    assert told == ("" if line is None else f"{clock.now():%H:%M:%S} rows: {line}\n")


def test_quiet_tells_all_but_batches_and_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(clock=ManualClock(), quiet=True)
    for event in TOLD:
        narrator(event)
    told = capsys.readouterr().err.splitlines()
    left_out = (events.BatchCommitted, events.DriverStarted, events.LeadershipAwaited, LongWork)
    fewer = [event for event, line in TOLD.items() if isinstance(event, left_out) and line is not None]
    assert len(told) == len([line for line in TOLD.values() if line is not None]) - len(fewer)
    assert not [line for line in told if "committed" in line or "waits for" in line]


def test_an_error_of_several_lines_is_told_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    complain("cannot reach\n  the thing\r\n\n; try again")
    assert capsys.readouterr().err == "tenure: error: cannot reach the thing ; try again\n"


def test_json_is_one_document_with_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a": 1, "b": None}], output=Output.JSON, title="x", columns=("a",))
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "b": None}]


def test_yaml_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a": 1, "b": None, "c": (Output.JSON, "no")}], output=Output.YAML, title="x", columns=("a",))
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == [{"a": 1, "b": None, "c": ["json", "no"]}]


def test_yaml_without_its_package_is_refused_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.cli.output.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"'yaml', which is not installed; run pip install '\.\[yaml\]'"):
        check_output(Output.YAML)
    assert check_output(Output.JSON) is Output.JSON


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_what_a_verb_did_is_a_line_or_a_document(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    show_done("done", {"scope": "rows"}, output=Output.TABLE)
    assert capsys.readouterr() == ("done\n", "")
    show_done("done", {"scope": "rows"}, output=output)
    assert yaml.safe_load(capsys.readouterr().out) == {"scope": "rows"}


def test_no_command_knows_one_format_of_documents() -> None:
    """A command that asks for JSON alone would print a table for YAML."""
    folder = Path(output_module.__file__).parent
    sources = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.name != "output.py"}
    assert [name for name, text in sources.items() if "Output.JSON" in text or "print_json" in text] == []


def test_a_table_into_a_pipe_cuts_nothing_off(capsys: pytest.CaptureFixture[str]) -> None:
    offsets = "x" * 150 + "y" * 150 + "end"
    show([{"offsets": offsets}], output=Output.TABLE, title="title", columns=("offsets",))
    assert capsys.readouterr() == (f"offsets\n{offsets}\n", "title\n")


def test_a_terminal_that_was_closed_does_not_stop_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1) as closed:
        monkeypatch.setattr("sys.stderr", closed)
        Narrator(clock=ManualClock(), quiet=False)(events.MemberReady(scope="rows", member="anna"))
        complain("no luck")
        with pytest.raises(OSError, match="No space left"):
            closed.write("the judge: it does raise\n")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space left"):
            closed.close()
