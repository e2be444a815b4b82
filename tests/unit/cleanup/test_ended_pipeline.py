"""All that a pipeline leaves, on every store: it goes, whatever dies at whatever step (I6, I9)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.cleanup.cleaner import Cleaner, Remainder
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.coordination.candidates import PAUSED, RESTARTS, SWITCHOVER
from tenure.coordination.encoding import encode
from tenure.coordination.identity import IDENTITY
from tenure.coordination.records import Delete, Put
from tenure.coordination.term import EPOCH, LEADER, Term, check_term
from tenure.errors import TermLost
from tenure.events import Events
from tenure.handles.handle import decode_handle
from tenure.handles.store import HandleStore
from tenure.retry import no_retry
from tenure.scope_context import ScopeContext
from tenure.storage.blobs import FileBlobs
from tests.faults.lab import SCOPE, Crash, Crasher, Lab, Member
from tests.kit.faulty import Call, Proceed, commits
from tests.unit.cleanup.going_on import INLINE_LIMIT, CrashingContext

QUERIES = ("counts", "gone-from-the-pipeline")
FILES = (
    "runs/counts/e00000001-a-0123456789ab/offsets/0",
    "runs/counts/e00000002-a-0123456789ab/state/0/0/1.zip",
    "runs/gone/e00000001-a-0123456789ab/offsets/0",
    "rehearsals/ben/counts-0123456789ab/offsets/0",
    "blobs/e00000001/checkpoints/counts/000000000000-lost",
    "blobs/e00000001/checkpoints/counts/x.part-0123456789abcdef",
    "owner/identity",
    "owner/e00000001-0123456789abcdef0123456789abcdef-0123456789ab",
)
REQUESTS = (SWITCHOVER, PAUSED, RESTARTS.child("ben"))
OTHERS = "notes.txt"
"""A file that somebody put into the scope's folder."""


class Leaving:
    """A leader, and what its pipeline left."""

    def __init__(self, lab: Lab, root: Path, name: str = "a") -> None:
        self.lab = lab
        self.root = root
        self.leader = lab.member(name)
        self.term = self.leader.lead()
        for path in FILES:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("x")
        for query in QUERIES:
            store = CheckpointStore(self.handles(self.leader, query), query=query, keep=3)
            for batch in range(3):
                offsets = "x" * (500 if query == "counts" else 5)  # a blob, and an inline one
                store.plan(self.term, Checkpoint(query, "id", batch, offsets, "run", 1, "now"))
        requests = [Put(key, encode({"uid": "u", "epoch": 1, "to": ""}), replaces=None) for key in REQUESTS]
        lab.truth.commit(SCOPE, guards=(), writes=requests)

    def handles(self, member: Member, query: str) -> HandleStore:
        return HandleStore(
            member.store,
            SCOPE,
            area=CHECKPOINTS.child(query),
            blobs=self.lab.files,
            clock=self.lab.clock,
            inline_limit=INLINE_LIMIT,
        )

    def context(self, member: Member, *, crasher: Crasher) -> ScopeContext:
        return CrashingContext(
            member.store, SCOPE, str(self.root), self.lab.clock, inline_limit=INLINE_LIMIT, crasher=crasher
        )

    def clean(
        self,
        member: Member,
        term: Term,
        *,
        crasher: Crasher | None = None,
        check: Callable[[Term], None] | None = None,
    ) -> Sequence[Remainder]:
        cleaner = Cleaner(
            cleanables_of(self.context(member, crasher=crasher or Crasher())),
            check=check or (lambda term: check_term(member.store, term, clock=self.lab.clock)),
            scope=SCOPE,
            policy=no_retry(),
            clock=self.lab.clock,
            events=Events.nobody,
        )
        return cleaner.run(term, stop=threading.Event())

    def next_leader(self, name: str) -> tuple[Member, Term]:
        """Somebody else, when this leader's session has ended."""
        self.leader.dies()
        paused = self.lab.truth.read(SCOPE, PAUSED)
        if paused is not None:
            self.lab.truth.commit(SCOPE, guards=(), writes=(Delete(PAUSED, paused.version),))
        successor = self.lab.member(name)
        return successor, successor.lead()

    def records(self) -> set[str]:
        """Of the records, but for those of the election."""
        found = {record.key for record in self.lab.truth.list(SCOPE, "").records}
        of_election = (EPOCH, IDENTITY, LEADER)
        return {key for key in found if key not in of_election and not key.startswith(("members/", "terms/"))}

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def check_pointers(self) -> None:
        """I4: what a record names is there."""
        for record in self.lab.truth.list(SCOPE, CHECKPOINTS).records:
            if record.key.count("/") == 2:
                handle = decode_handle(record)
                if handle.blob is not None:
                    self.lab.files.read(handle.blob)


@pytest.fixture
def leaving(lab: Lab, tmp_path: Path) -> Leaving:
    """The laboratory keeps its blobs in the same folder, which is the scope's."""
    lab.files = FileBlobs(str(tmp_path / "scope" / "blobs"))
    return Leaving(lab, tmp_path / "scope")


def test_nothing_is_left(leaving: Leaving) -> None:
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert leaving.records() == set()
    assert not leaving.root.exists()


def test_what_others_put_there_stays(leaving: Leaving) -> None:
    (leaving.root / OTHERS).write_text("x")
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert [path.name for path in leaving.root.iterdir()] == [OTHERS]


def test_to_look_changes_nothing(leaving: Leaving) -> None:
    """`tenure cleanup status` looks, also at an empty folder."""
    leaving.clean(leaving.leader, leaving.term)
    leaving.root.mkdir()
    found = cleanables_of(leaving.context(leaving.leader, crasher=Crasher()))
    assert {row: names for row, one in found.items() if (names := list(one.find()))} == {"storage": ["."]}
    assert leaving.root.exists()
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert not leaving.root.exists()


def test_a_second_cleanup_changes_nothing(leaving: Leaving) -> None:
    leaving.clean(leaving.leader, leaving.term)
    sent = sum(commits(call) for call in leaving.leader.store.calls)
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert sum(commits(call) for call in leaving.leader.store.calls) == sent


def test_a_locked_checkpoint_keeps_its_blob_and_the_run_directories(leaving: Leaving) -> None:
    reader = leaving.lab.member("reader")
    lock = leaving.handles(reader, "counts").lock("000000000001", session=reader.keeper.session_id)
    left = leaving.clean(leaving.leader, leaving.term)
    assert left[0].name == "counts/000000000001"
    leaving.check_pointers()
    assert {key for key in leaving.records() if key.count("/") == 2} == {"checkpoints/counts/000000000001"}
    assert set(FILES) - leaving.files() == {"rehearsals/ben/counts-0123456789ab/offsets/0"}
    leaving.handles(reader, "counts").release(lock)
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert not leaving.root.exists()


def test_a_cleanup_of_a_term_that_is_over_removes_nothing(leaving: Leaving) -> None:
    successor, term = leaving.next_leader("b")
    before, files = leaving.records(), leaving.files()
    with pytest.raises(TermLost):
        leaving.clean(leaving.leader, leaving.term)
    assert (leaving.records(), leaving.files()) == (before, files)
    assert leaving.clean(successor, term) == []
    assert not leaving.root.exists()


def test_a_crash_at_any_effect_is_mended_by_the_next_cleanup(leaving: Leaving) -> None:
    """It dies before and after each commit and each removal in the storage; another member goes on."""
    effects = 0
    while True:
        crasher = Crasher()
        crasher.at = effects

        def crash(call: Call, proceed: Proceed, crasher: Crasher = crasher) -> object:
            crasher.effect("before a commit")
            answer = proceed()
            crasher.effect("after a commit")
            return answer

        leaving.leader.store.script(crash, when=commits, times=None)
        try:
            leaving.clean(leaving.leader, leaving.term, crasher=crasher)
        except Crash:
            leaving.check_pointers()
            successor, term = leaving.next_leader(f"next-{effects}")
            assert leaving.clean(successor, term) == []
            successor.election.resign(term)
        assert leaving.records() == set()
        assert not leaving.root.exists()
        if not crasher.dead:
            break
        effects += 1
        leaving = Leaving(leaving.lab, leaving.root, name=f"m{effects}")
    assert effects > 30


@pytest.mark.parametrize("paused", ["before it asks", "after it asked"])
def test_a_leader_that_is_paused_in_its_cleanup_removes_nothing_of_a_later_run(leaving: Leaving, paused: str) -> None:
    """It is paused before, or after, it asks whether its term stands; meanwhile the cleanup is ended by another one,
    and the pipeline is run again."""
    later = leaving.root / "runs/counts/e00000002-b-0123456789ab/offsets/0"
    asked = 0

    def meanwhile() -> None:
        successor, term = leaving.next_leader("b")
        assert leaving.clean(successor, term) == []
        later.parent.mkdir(parents=True)
        later.write_text("x")

    def check(term: Term) -> None:
        nonlocal asked
        asked += 1
        last = asked == 4  # requests, checkpoints, anchors, and here: run directories
        if last and paused == "before it asks":
            meanwhile()
        check_term(leaving.leader.store, term, clock=leaving.lab.clock)
        if last and paused == "after it asked":
            meanwhile()

    if paused == "before it asks":
        with pytest.raises(TermLost):
            leaving.clean(leaving.leader, leaving.term, check=check)
    else:
        leaving.clean(leaving.leader, leaving.term, check=check)
    assert asked >= 4
    assert later.exists()
