"""What a driver asks of the record before it contends and before it plans, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.declarations.declaration import Declaration, Shape, kept_zone
from tenure.declarations.rules import Allowed
from tenure.declarations.store import DeclarationStore
from tenure.driver import declarations as declared_module
from tenure.driver.declarations import Declarations
from tenure.errors import DeclaredOtherwise, StorageError
from tenure.events import DeclarationChanged, Event, Events, FlagsNotNeeded, TableShared
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.pipelines.pipeline import Stream
from tenure.results.store import RESULTS
from tenure.scope_context import ScopeContext
from tenure.spark.time_zone import GivenZone
from tenure.storage.blobs import FileBlobs
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, CLOCK = Scope("rows"), SystemClock()


class Sink:
    """A sink whose table is somebody else's, too."""

    def __init__(self, others: Sequence[str] | Exception = ()) -> None:
        self._others = others

    def other_writers(self, *, scope: str, query: str) -> Sequence[str]:
        if isinstance(self._others, Exception):
            raise self._others
        return self._others


def streams(*names: str, sink: object = None, **state: str) -> list[Stream]:
    """Those of `names` keep no state; `state`: name -> what decides its state."""
    rows = [(name, None) for name in names] + [(name, Shape.of(text, told=text)) for name, text in state.items()]
    return [
        Stream(name, cast(Any, SimpleNamespace(shape=shape)), cast(Any, sink), "append", None) for name, shape in rows
    ]


zones = {"now": "UTC"}


def zones_of(streams: object, recorded: Declaration | None, given: GivenZone) -> tuple[str, str | None]:
    """`now`: of the sessions of the streams. An older version did not record it, and set UTC."""
    return zones["now"], None if recorded is None else recorded.zone or "UTC"


class Scene:
    def __init__(self, term: Term, store: MemoryStore, folder: Path) -> None:
        self.term, self.store, self.folder = term, store, folder
        self.told: list[Event] = []

    def member(self, file: str = "f1", *, new_zone: bool = False, **allowed: str) -> Declarations:
        flags = {name: frozenset(names.split()) for name, names in allowed.items()}
        context = ScopeContext(self.store, SCOPE, str(self.folder), CLOCK, Events(self.told.append))
        return Declarations(context, file=file, allowed=Allowed(**flags), zone=GivenZone(may_change=new_zone))

    def checkpoints(self, query: str) -> CheckpointStore:
        area, blobs = CHECKPOINTS.child(query), FileBlobs(str(self.folder))
        handles = HandleStore(self.store, SCOPE, area=area, blobs=blobs, clock=CLOCK, inline_limit=MOST_INLINE)
        return CheckpointStore(handles, query=query)

    def plan(self, query: str, batch: int, *, epoch: int) -> None:
        checkpoint = Checkpoint(query, "id", batch, "offsets", "run", epoch, "now")
        self.checkpoints(query).plan(self.term, checkpoint)

    def put(self, key: str) -> None:
        root = RESULTS if key == "result" else CHECKPOINTS.child(key)
        self.store.commit(SCOPE, guards=(), writes=[Put(root.child("000000000000"), b"", replaces=None)])

    def version(self) -> object:
        record = DeclarationStore(self.store, SCOPE, clock=CLOCK).read().record
        return None if record is None else record.version


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(MemoryServer())


@pytest.fixture
def next_term(store: MemoryStore) -> Iterator[Callable[[], Term]]:
    """Gives up the term, and takes the next."""
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=CLOCK) as keeper:
        election, held = Election(store, SCOPE, member="anna", clock=CLOCK), list[Term]()

        def take() -> Term:
            if held:
                election.resign(held.pop())
            term = election.campaign(keeper, stop=threading.Event())
            assert term is not None
            held.append(term)
            return term

        yield take


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: MemoryStore, next_term: Callable[[], Term]) -> Scene:
    monkeypatch.setattr(declared_module, "shape_of", lambda stream: stream.rows.shape)
    monkeypatch.setattr(declared_module, "zones_of", zones_of)
    return Scene(next_term(), store, tmp_path)


def test_the_first_leader_records_and_says_nothing(scene: Scene) -> None:
    scene.member().check(streams("copy"))
    assert scene.version() is None, "a member that does not lead writes nothing"
    scene.member().record(scene.term, streams("copy"))
    assert scene.version() is not None
    assert scene.told == []


def test_what_is_recorded_already_is_not_written_again(scene: Scene) -> None:
    scene.member().record(scene.term, streams("copy", counts="sum"))
    version = scene.version()
    scene.member().record(scene.term, streams("copy", counts="sum"))
    assert scene.version() == version
    scene.member("f2").record(scene.term, streams("copy", counts="sum"))
    assert scene.version() != version
    assert scene.told == [DeclarationChanged(SCOPE, epoch=1, what="the file is f2, and was f1")]


def test_what_is_refused_is_one_line_that_names_the_flags(scene: Scene) -> None:
    scene.member().record(scene.term, streams("a", q="count"))
    scene.put("a")
    scene.put("q")
    version, other = scene.version(), streams("b", q="sum")
    with pytest.raises(DeclaredOtherwise) as refused:
        scene.member().check(other)
    assert str(refused.value) == (
        "scope 'rows' has run another pipeline: stream 'a' has checkpoints and is declared no more; "
        "stream 'b' has none, and would begin at the start of its sources; "
        "query 'q' was run as [count], and would go on with that state as [sum]; "
        "undo that, or allow it once by --drop-stream a --new-stream b --changed-query q"
    )
    with pytest.raises(DeclaredOtherwise):
        scene.member().record(scene.term, other)
    assert scene.version() == version


def test_what_another_member_has_recorded_meanwhile_is_judged_under_the_term(scene: Scene) -> None:
    standby = scene.member("f2", new="b", dropped="a")
    scene.member().record(scene.term, streams("a"))
    scene.put("a")
    standby.check(streams("b"))
    scene.member("f3").record(scene.term, streams("a", "c"))
    scene.put("c")
    with pytest.raises(DeclaredOtherwise, match=r"allow it once by --drop-stream c$"):
        standby.record(scene.term, streams("b"))


def test_what_was_allowed_needs_no_flag_again_and_a_flag_that_stays_is_named(scene: Scene) -> None:
    scene.member().record(scene.term, streams("a"))
    scene.put("a")
    allowing = scene.member(new="b", dropped="a")
    allowing.check(streams("b"))
    allowing.record(scene.term, streams("b"))
    assert [type(event) for event in scene.told] == [DeclarationChanged]
    scene.member().check(streams("b"))
    scene.member().record(scene.term, streams("b"))
    assert len(scene.told) == 1
    allowing.check(streams("b"))
    assert scene.told[1:] == [FlagsNotNeeded(SCOPE, flags="--drop-stream a --new-stream b")]


def test_a_change_that_planned_nothing_is_undone_without_a_flag(scene: Scene) -> None:
    scene.member().record(scene.term, streams(q="count"))
    scene.plan("q", 0, epoch=0)
    scene.member(changed="q").record(scene.term, streams(q="sum"))
    scene.member().check(streams(q="count"))
    scene.member().check(streams(q="sum"))
    scene.plan("q", 1, epoch=1)
    with pytest.raises(DeclaredOtherwise, match=r"was run as \[sum\], and would go on with that state as \[count\]"):
        scene.member().check(streams(q="count"))


def test_another_time_zone_is_refused_until_it_is_allowed_and_is_recorded_then(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.member().record(scene.term, streams("a"))
    assert scene.member().kept_zone() == "UTC"
    monkeypatch.setitem(zones, "now", "Asia/Tokyo")
    scene.member().check(streams("a"))  # nothing was planned
    scene.put("a")
    with pytest.raises(DeclaredOtherwise) as refused:
        scene.member().check(streams("a"))
    assert str(refused.value) == (
        "scope 'rows' has run another pipeline: its queries have computed in the time zone UTC, and would in Asia/"
        "Tokyo (spark.sql.session.timeZone); undo that, or allow it once by --changed-zone"
    )
    allowing = scene.member(new_zone=True)
    allowing.check(streams("a"))
    allowing.record(scene.term, streams("a"))
    changed = "the queries compute in the time zone Asia/Tokyo, and did in UTC"
    assert scene.told == [DeclarationChanged(SCOPE, epoch=1, what=changed)]
    scene.member().check(streams("a"))
    assert scene.member().kept_zone(scene.term) == "Asia/Tokyo"
    allowing.check(streams("a"))
    assert scene.told[1:] == [FlagsNotNeeded(SCOPE, flags="--changed-zone")]


def test_a_scope_goes_on_with_a_newer_spark_and_not_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    scene.member().record(scene.term, streams("copy", q="sum"))
    for name in ("copy", "q"):
        scene.plan(name, 0, epoch=0)
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    scene.member().check(streams("copy", q="sum"))
    scene.member().record(scene.term, streams("copy", q="sum"))
    assert scene.told == [DeclarationChanged(SCOPE, epoch=1, what="Spark is 4.1.4, and was 3.5.9")]
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(DeclaredOtherwise) as refused:
        scene.member().check(streams("copy", q="sum"))
    version = scene.version()
    assert str(refused.value) == (
        "scope 'rows' has run with Spark 4.1.4, and this member has Spark 3.5.9, which may misread the state and the "
        "logs of the newer release; start this member with Spark 4.1 or newer"
    )
    with pytest.raises(DeclaredOtherwise):
        scene.member().record(scene.term, streams("copy", q="sum"))
    assert scene.version() == version


def test_a_newer_spark_that_planned_nothing_is_undone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, next_term: Callable[[], Term]
) -> None:
    """Spark may have refused the state: the operator goes back."""
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    scene.member().record(scene.term, streams(q="sum"))
    scene.plan("q", 0, epoch=1)
    scene.term = next_term()
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    scene.member().record(scene.term, streams(q="sum"))
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    scene.member().check(streams(q="sum"))
    scene.plan("q", 1, epoch=2)
    with pytest.raises(DeclaredOtherwise, match=r"has run with Spark 4\.1\.4"):
        scene.member().check(streams(q="sum"))


@pytest.mark.parametrize(
    ("zone", "kept"), [(None, "UTC"), ("Asia/Tokyo", "Asia/Tokyo"), ("Asia/Tokyo, UTC", None)], ids=str
)
def test_a_scope_keeps_its_zone_and_that_of_an_older_version_was_utc(zone: str | None, kept: str | None) -> None:
    assert kept_zone(Declaration("f", "4.3.0", {}, zone)) == kept
    assert kept_zone(None) is None


def test_of_a_pipeline_that_has_ended_nothing_is_compared(scene: Scene) -> None:
    scene.member().record(scene.term, streams("a"))
    scene.put("a")
    scene.put("result")
    scene.member().check(streams("b"))


def test_who_else_has_written_to_a_table_is_said_before_the_first_batch(scene: Scene) -> None:
    shared = Sink(["stream 'a' of scope 'x'", "application 'spark'"])
    scene.member().check(streams("copy", sink=shared))
    told = TableShared(SCOPE, query="copy", by="stream 'a' of scope 'x'; application 'spark'")
    assert scene.told == [told]
    scene.put("copy")
    scene.member().check(streams("copy", sink=shared))
    assert scene.told == [told], "it is what others say of it as well by now"


@pytest.mark.parametrize("sink", [Sink(), Sink(StorageError("it is away")), object()])
def test_a_table_of_ones_own_or_one_that_cannot_be_read_is_not_told_of(scene: Scene, sink: object) -> None:
    scene.member().check(streams("copy", sink=sink))
    assert scene.told == []
