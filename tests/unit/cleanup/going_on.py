"""A pipeline that goes on from leader to leader, and what each leaves in its storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.cleanup.claims import orphans_of
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.orphans import Claims
from tenure.cleanup.plan import Cleanable
from tenure.coordination.term import Term, check_term
from tenure.events import Events
from tenure.handles.store import HandleStore
from tenure.ownership.owner import Owner
from tenure.retry import no_retry
from tenure.scope_context import ScopeContext
from tenure.storage.reach import reach
from tenure.storage.storage import Storage
from tests.faults.lab import SCOPE, Crasher, Lab, Member

QUERY = "counts"
KEEP = 3
INLINE_LIMIT = 64


def crashing(url: str, crasher: Crasher | None) -> Storage:
    """A storage whose removals are effects."""
    storage = reach(url)
    effect = (crasher or Crasher()).effect
    remove, remove_empty = storage.remove, storage.remove_empty

    def removes(path: str) -> None:
        effect(f"before {path}")
        remove(path)
        effect(f"after {path}")

    def removes_empty(path: str = "") -> None:
        effect(f"before the folder {path}")
        remove_empty(path)

    for name, crashes in (("remove", removes), ("remove_empty", removes_empty)):
        setattr(storage, name, crashes)
    return storage


@dataclass(frozen=True)
class CrashingContext(ScopeContext):
    """A scope with such a storage."""

    crasher: Crasher = field(default_factory=Crasher)

    def folders(self) -> Storage:
        return crashing(self.storage, self.crasher)


class Pipeline:
    """A pipeline that goes on from leader to leader."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab = lab
        self.root = root
        self.leaders: list[tuple[Member, Term]] = []
        self.run = ""

    @property
    def storage(self) -> str:
        """Path or URL of the scope's storage."""
        return str(self.root)

    def next_leader(self, name: str) -> tuple[Member, Term]:
        """Somebody takes over, after the last one's session has ended, and plans in a run directory of his own."""
        if self.leaders:
            self.leaders[-1][0].dies()
        member = self.lab.member(name)
        member.election.join(member.keeper, host="h", pid=1)
        term = member.lead()
        self.leaders.append((member, term))
        self.run = self.directory(name, epoch=term.epoch)
        return member, term

    def standby(self, name: str) -> Member:
        member = self.lab.member(name)
        member.election.join(member.keeper, host="h", pid=1)
        return member

    def directory(self, member: str, *, epoch: int, query: str = QUERY) -> str:
        return self.put(f"{RunName.new(query, epoch=epoch, member=member)}/offsets/0").removesuffix("/offsets/0")

    def put(self, path: str) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("x")
        return path

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def handles(self, member: Member) -> HandleStore:
        return HandleStore(
            member.store,
            SCOPE,
            area=CHECKPOINTS.child(QUERY),
            blobs=self.lab.files,
            clock=self.lab.clock,
            inline_limit=INLINE_LIMIT,
        )

    def plan(self, batch: int) -> None:
        """The leader plans a batch."""
        member, term = self.leaders[-1]
        store = CheckpointStore(self.handles(member), query=QUERY, keep=KEEP)
        store.plan(term, Checkpoint(QUERY, "id", batch, "x" * 500, self.run, term.epoch, "now"))

    def found(self, *, crasher: Crasher | None = None) -> Mapping[str, Cleanable]:
        member, term = self.leaders[-1]
        context = CrashingContext(
            member.store,
            SCOPE,
            self.storage,
            self.lab.clock,
            inline_limit=INLINE_LIMIT,
            crasher=crasher or Crasher(),
        )
        return orphans_of(context, Claims(term.epoch, term.holder))

    def owner(self, member: Member | None = None) -> Owner:
        """Whose the storage is, as a member asks; None: the leader."""
        return Owner((member or self.leaders[-1][0]).store, SCOPE, storage=self.storage, clock=self.lab.clock)

    def orphans(self) -> list[str]:
        return [name for cleanables in self.found().values() for name in cleanables.find()]

    def sweep(
        self,
        *,
        crasher: Crasher | None = None,
        check: Callable[[Term], None] | None = None,
        found: Mapping[str, Cleanable] | None = None,
    ) -> Sequence[str]:
        """The leader sweeps once; what could not go."""
        member, term = self.leaders[-1]
        cleaner = Cleaner(
            found or self.found(crasher=crasher),
            check=check or (lambda term: check_term(member.store, term, clock=self.lab.clock)),
            scope=SCOPE,
            policy=no_retry(),
            clock=self.lab.clock,
            events=Events.nobody,
        )
        return [f"{one.name}: {one.why}" for one in cleaner.walk(term, stop=threading.Event())[1]]

    def check_pointers(self) -> None:
        """I4, and that each checkpoint's run directory is there."""
        member, _ = self.leaders[-1]
        for one in CheckpointStore(self.handles(member), query=QUERY).list():
            assert self.has(one.run_directory)


def lost_blob(pipeline: Pipeline, *, epoch: int) -> str:
    """A blob whose pointer was never committed."""
    return pipeline.put(f"blobs/e{epoch:08d}/checkpoints/{QUERY}/000000000009-lost")
