"""What it costs to find again what dead leaders left: the three ways that were proposed for Flink (FLIP-270), counted.

The same life of a pipeline for each: checkpoints of 8 KiB, of which the newest few are kept, and leaders that die one
after the other, each with one blob that was written and has no pointer yet, and one that has no pointer any more and
was not deleted. Each proposal finds both. Everything is counted at the store's and the storage's own interface:

- `entries`: the store of checkpoints also holds those that are pending, and those that are marked for deletion.
- `listing`: the second one, made safe by epochs: the storage is listed and compared. This is what Tenure does.
- `a_second_store`: what is pending, or has to be deleted, is written down in a store of its own, as results are.

Counts, not times: they do not depend on the machine. To `build/bench/cleanup_proposals.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS
from tenure.backends.memory import MemoryServer, MemoryStore
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.cleanup.claims import orphans_of
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.orphans import Claims
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.records import Delete, Key, Put, Scope, Write
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term, check_term, commit_under
from tenure.events import Events
from tenure.handles.store import HandleStore
from tenure.retry import no_retry
from tenure.scope_context import ScopeContext
from tenure.storage.blobs import FileBlobs
from tenure.storage.listed import Entry
from tenure.storage.local import Local
from tenure.testing.faulty import FaultyStore, commits

SCOPE, SECOND = Scope("pipeline"), Scope("to-be-cleaned")
KEEP = 5
PAYLOAD = "x" * 8192


@dataclass
class Counts:
    """Per checkpoint, and per takeover."""

    commits_a_checkpoint: float = 0.0
    records_at_most: int = 0
    commits_a_takeover: float = 0.0
    other_calls_a_takeover: float = 0.0
    """Reads, listings and checks of the store."""
    folders_listed_a_takeover: float = 0.0
    left: int = 0
    """Blobs without a pointer in the end."""


class CountedFolders(Local):
    """Folders that count how often one is listed."""

    listed = 0

    def entries(self, path: str = "", *, sizes: bool = False) -> Sequence[Entry]:
        CountedFolders.listed += 1
        return super().entries(path, sizes=sizes)


class CountedContext(ScopeContext):
    """A scope with such folders."""

    def folders(self) -> CountedFolders:
        return CountedFolders(self.storage)


class Life:
    """One pipeline's life under one proposal."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SystemClock()
        self.server = MemoryServer(self.clock)
        self.blobs = FileBlobs(str(root / "blobs"))
        self.store = FaultyStore(MemoryStore(self.server))

    def leader(self, name: str) -> tuple[SessionKeeper, Term]:
        keeper = SessionKeeper(self.store, ttl=timedelta(days=1), clock=self.clock)
        keeper.__enter__()
        election = Election(self.store, SCOPE, member=name, clock=self.clock)
        term = election.campaign(keeper, stop=_Never())
        assert term is not None
        return keeper, term

    def commit(self, term: Term, *writes: Write) -> None:
        """A fenced commit; the second store cannot be fenced by the same transaction."""
        if writes and writes[0].key.is_under("second"):
            self.store.commit(SECOND, guards=(), writes=writes)
        else:
            commit_under(self.store, term, writes=writes, clock=self.clock)

    def calls(self) -> tuple[int, int]:
        """Commits that wrote something, and all other calls about records, so far."""
        asked = [call for call in self.store.calls if call.operation in ("read", "list", "commit")]
        wrote = sum(commits(call) for call in asked)
        return wrote, len(asked) - wrote

    def records(self) -> int:
        """How many records there are that are not the election's."""
        truth = MemoryStore(self.server)
        found = [*truth.list(SCOPE, CHECKPOINTS).records, *truth.list(SECOND, "").records]
        return len([record for record in found if record.key.count("/") > 1])

    def blob_count(self) -> int:
        return len(list(self.blobs.list()))


class _Never:
    def is_set(self) -> bool:
        return False


class Listing:
    """Tenure's own."""

    def __init__(self, life: Life) -> None:
        self.life = life

    def handles(self, query: str = "q") -> HandleStore:
        return HandleStore(
            self.life.store, SCOPE, area=CHECKPOINTS.child(query), blobs=self.life.blobs, clock=self.life.clock
        )

    def begin(self, term: Term) -> None:
        self.checkpoints = CheckpointStore(self.handles(), query="q", keep=KEEP)
        self.checkpoints.newest()

    def checkpoint(self, term: Term, batch: int) -> None:
        self.checkpoints.plan(term, Checkpoint("q", "id", batch, PAYLOAD, "run", term.epoch, "now"))

    def dies(self, term: Term, batch: int) -> None:
        self.life.blobs.write(f"e{term.epoch:08d}/checkpoints/q/{batch:012d}-{new_uid()}", PAYLOAD.encode())
        self.life.blobs.write(f"e{term.epoch:08d}/checkpoints/q/{batch - KEEP:012d}-{new_uid()}", PAYLOAD.encode())

    def clean(self, term: Term) -> None:
        context = CountedContext(self.life.store, SCOPE, str(self.life.root), self.life.clock)
        cleaner = Cleaner(
            orphans_of(context, Claims(term.epoch, term.holder)),
            check=lambda term: check_term(self.life.store, term, clock=self.life.clock),
            scope=SCOPE,
            policy=no_retry(),
            clock=self.life.clock,
            events=Events.nobody,
        )
        cleaner.walk(term, stop=_Never())


class Entries:
    """Pending and marked checkpoints are entries beside the completed ones, or (`second`) in a store of their own."""

    def __init__(self, life: Life, *, second: bool) -> None:
        self.life = life
        self.second = second
        self.kept: list[tuple[int, str]] = []

    def begin(self, term: Term) -> None:
        return

    def checkpoint(self, term: Term, batch: int) -> None:
        """With as few commits as can be: three, wherever the entries are. One of them follows the deletion."""
        oldest = self.kept[0] if len(self.kept) == KEEP else None
        marked = [] if oldest is None else [self._put(self.marked(oldest[0]), oldest[1])]
        address = self.pend(term, batch, *(marked if self.second else ()))
        completes: list[Write] = [Put(_entry(batch), _value(address), replaces=None)]
        if not self.second:
            completes += [self._delete(self.pending(batch)), *marked]
        if oldest is not None:
            completes.append(self._delete(_entry(oldest[0])))
        self.life.commit(term, *completes)
        self.kept.append((batch, address))
        done = [self._delete(self.pending(batch))] if self.second else []
        if oldest is not None:
            self.kept.pop(0)
            self.life.blobs.delete(oldest[1])
            done.append(self._delete(self.marked(oldest[0])))
        if done:
            self.life.commit(term, *done)

    def dies(self, term: Term, batch: int) -> None:
        self.pend(term, batch)
        lost = self.life.blobs.write(f"e{term.epoch:08d}/lost-{batch}", b"x").address
        self.life.commit(term, self._put(self.marked(batch - KEEP), lost))

    def clean(self, term: Term) -> None:
        scope = SECOND if self.second else SCOPE
        prefix = "second" if self.second else CHECKPOINTS
        for record in self.life.store.list(scope, prefix).records:
            if "/pending-" in record.key or "/marked-" in record.key:
                self.life.blobs.delete(json.loads(record.value)["address"])
                self.life.commit(term, Delete(record.key, record.version))

    def pend(self, term: Term, batch: int, *also: Write) -> str:
        """Say what will be written, and write it."""
        address = f"e{term.epoch:08d}/checkpoints/q/{batch:012d}-{new_uid()}"
        self.life.commit(term, self._put(self.pending(batch), address), *also)
        self.life.blobs.write(address, PAYLOAD.encode())
        return address

    def pending(self, batch: int) -> Key:
        return self._beside(f"pending-{batch:012d}")

    def marked(self, batch: int) -> Key:
        return self._beside(f"marked-{batch:012d}")

    def _beside(self, name: str) -> Key:
        return Key(f"second/q/{name}") if self.second else CHECKPOINTS.child("q").child(name)

    def _put(self, key: Key, address: str) -> Put:
        return Put(key, _value(address), replaces=None)

    def _delete(self, key: Key) -> Delete:
        scope = SECOND if key.is_under("second") else SCOPE
        record = MemoryStore(self.life.server).read(scope, key)  # a leader knows it: not counted
        assert record is not None
        return Delete(key, record.version)


def _entry(batch: int) -> Key:
    return CHECKPOINTS.child("q").child(f"{batch:012d}")


def _value(address: str) -> bytes:
    return encode({"uid": new_uid(), "address": address})


def live(make: Callable[[Life], Listing | Entries], *, checkpoints: int, leaders: int) -> Counts:
    """One life; each leader makes so many checkpoints."""
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        life = Life(Path(folder))
        proposal = make(life)
        batch = 0
        for number in range(leaders):
            keeper, term = life.leader(f"m{number}")
            before, listed = life.calls(), CountedFolders.listed
            proposal.clean(term)
            after = life.calls()
            counts.commits_a_takeover += after[0] - before[0]
            counts.other_calls_a_takeover += after[1] - before[1]
            counts.folders_listed_a_takeover += CountedFolders.listed - listed
            proposal.begin(term)
            before = life.calls()
            for _ in range(checkpoints):
                proposal.checkpoint(term, batch)
                counts.records_at_most = max(counts.records_at_most, life.records())
                batch += 1
            counts.commits_a_checkpoint += life.calls()[0] - before[0]
            if number < leaders - 1:
                proposal.dies(term, batch)
                counts.records_at_most = max(counts.records_at_most, life.records())
            keeper.__exit__(None, None, None)
        counts.left = life.blob_count() - KEEP
    counts.commits_a_checkpoint = round(counts.commits_a_checkpoint / (leaders * checkpoints), 2)
    for name in ("commits_a_takeover", "other_calls_a_takeover", "folders_listed_a_takeover"):
        setattr(counts, name, round(getattr(counts, name) / leaders, 2))
    return counts


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--checkpoints", type=int, default=200, help="of each leader")
    parser.add_argument("--leaders", type=int, default=10)
    arguments = parser.parse_args()
    proposals: dict[str, Callable[[Life], Listing | Entries]] = {
        "entries": lambda life: Entries(life, second=False),
        "listing": Listing,
        "a_second_store": lambda life: Entries(life, second=True),
    }
    found = {
        name: live(make, checkpoints=arguments.checkpoints, leaders=arguments.leaders)
        for name, make in proposals.items()
    }
    table = Table(title=f"{arguments.leaders} leaders, {arguments.checkpoints} checkpoints each, {KEEP} kept")
    table.add_column("proposal")
    for heading in ("commits a checkpoint", "records at most", "a takeover: commits", "other calls", "folders", "left"):
        table.add_column(heading, justify="right")
    for name, counts in found.items():
        table.add_row(name, *(f"{value:g}" for value in asdict(counts).values()))
    Console(width=150).print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {name: asdict(counts) for name, counts in found.items()}
    (RESULTS / "cleanup_proposals.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
