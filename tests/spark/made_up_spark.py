"""A stream under a term without Spark.

`FakeSpark` stands where Spark stands: it writes `offsets/N` and calls what `foreachBatch` was given. `Ledger` is the
judge of I2: at the moment of a sink's commit it looks whether the checkpoint is in the store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from tenure.checkpoints.source import Source
from tenure.checkpoints.store import CHECKPOINTS
from tenure.cleanup.plan import Cleanable
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.term import LEADER, Term
from tenure.driver.stream import FencedStream
from tenure.events import (
    Event,
    Events,
    QueryStarted,
)
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Attempts, Batch, Sink, Written
from tests.kit.faulty import FaultyStore
from tests.kit.memory import MemoryStore

SCOPE, QUERY = Scope("rows"), "copy"
Kind = TypeVar("Kind", bound=Event)


class _Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class FakeSpark:
    """As much of a DataStreamWriter as a stream uses, and of the query that it starts."""

    isStreaming = True  # noqa: N815 - Spark's own name

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.triggers: list[dict[str, object]] = []
        self.on_batch: Callable[[Any, int], None] | None = None
        self.writeStream = self  # Spark's own name
        conf = _Conf()
        own = SimpleNamespace(getAll=lambda: SimpleNamespace(contains=conf.__contains__))
        # Spark's own name; its storage is a disk.
        self.sparkSession = SimpleNamespace(conf=conf, _jsparkSession=SimpleNamespace(conf=lambda: own))
        self._jsq = SimpleNamespace(streamingQuery=lambda: SimpleNamespace(sources=_OneSource))

    def queryName(self, name: str) -> FakeSpark:  # noqa: N802 - Spark's name
        assert name == QUERY
        return self

    def outputMode(self, mode: str) -> FakeSpark:  # noqa: N802 - Spark's name
        assert mode == "append"
        return self

    def option(self, name: str, value: str) -> FakeSpark:
        self.options[name] = value
        return self

    def foreachBatch(self, function: Callable[[Any, int], None]) -> FakeSpark:  # noqa: N802 - Spark's name
        self.on_batch = function
        return self

    def trigger(self, **how: object) -> FakeSpark:
        self.triggers.append(how)
        return self

    def start(self) -> FakeSpark:
        directory = Path(self.options["checkpointLocation"])
        (directory / "offsets").mkdir(parents=True, exist_ok=True)
        (directory / "metadata").write_text(json.dumps({"id": "the-query-id"}))
        return self

    def run(self, batch: int, *, offset: int | str | None = None) -> None:
        """What Spark does for a batch."""
        path = Path(self.options["checkpointLocation"], "offsets", str(batch))
        path.write_text(f"v1\n{{}}\n{batch if offset is None else offset}")
        assert self.on_batch is not None
        self.on_batch(SimpleNamespace(), batch)


class _OneSource:
    """Scala's list of sources."""

    def size(self) -> int:
        return 1

    def apply(self, position: int) -> object:
        return self

    def getClass(self) -> type[_OneSource]:  # noqa: N802 - Java's name
        return _OneSource

    @staticmethod
    def getName() -> str:  # noqa: N802 - Java's name
        return "a.Source"


class Ledger:
    """What was committed by the sink, and whether its checkpoint was in the store at that moment."""

    def __init__(self, newest: Callable[[], int | None]) -> None:
        self._newest = newest
        self.batches: list[int] = []
        self.too_early: list[int] = []

    def commit(self, batch: int) -> None:
        newest = self._newest()
        if newest is None or newest < batch:
            self.too_early.append(batch)
        self.batches.append(batch)


class StagingSink:
    """A sink that stages, then commits; `eager`: it does not wait for the plan."""

    def __init__(self, ledger: Ledger, *, eager: bool = False) -> None:
        self.ledger, self.eager = ledger, eager
        self.has_staged = threading.Event()

    def check(self, *, output_mode: str) -> None: ...

    def write(self, rows: Any, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        self.has_staged.set()
        if not self.eager:
            planned()
        self.ledger.commit(batch.id)
        return Written(repeated=False)


class StagesSink(StagingSink):
    """One that says that it stages."""

    def staged(self, attempts: Attempts) -> Cleanable:
        raise NotImplementedError


class Scene:
    """A leader, its store with faults around it, and a stream."""

    def __init__(self, folder: Path, term: Term, store: FaultyStore, inner: MemoryStore) -> None:
        self.folder, self.term, self.store = folder, term, store
        self.told: list[Event] = []
        self._inner = inner
        self.ledger = Ledger(self.newest)
        self.missing: list[str] = []
        """The input files that are not there."""
        self.on_ask: Callable[[Sequence[str]], None] = lambda paths: None
        self.spark = FakeSpark()
        self.sources: tuple[Source, ...] = ()
        self.stream: FencedStream | None = None

    def newest(self) -> int | None:
        """The newest planned batch, as anybody else sees it."""
        found = self._inner.list(SCOPE, str(CHECKPOINTS.child(QUERY))).records
        return int(found[-1].key.name) if found else None

    def start(self, sink: object, *, term: Term | None = None, clock: Any = None, mirrors: Any = None) -> None:
        stream = self.unprepared(sink, term=term, clock=clock, mirrors=mirrors)
        stream.prepare()
        stream.start()

    def unprepared(
        self, sink: object, *, term: Term | None = None, clock: Any = None, mirrors: Any = None
    ) -> FencedStream:
        """The query, declared only."""
        clock = clock or SystemClock()
        self.close()
        self.stream = FencedStream(
            Stream(QUERY, cast(Any, self.spark), cast(Sink, sink), "append", None, sources=self.sources),
            ScopeContext(self.store, SCOPE, str(self.folder), clock, Events(self.told.append)),
            term=term or self.term,
            missing=self._missing,
            mirrors=mirrors,
        )
        return self.stream

    def _missing(self, paths: Sequence[str]) -> Sequence[str]:
        self.on_ask(paths)
        return self.missing

    def close(self) -> None:
        """End the stream, if there is one."""
        if self.stream is not None:
            self.stream.close()

    def end_session(self) -> None:
        """The leader's session ends in the store, and nobody tells it."""
        leader = self.store.read(SCOPE, LEADER)
        assert leader is not None
        assert leader.session is not None
        self.store.expire(leader.session)

    def run_directories(self) -> list[str]:
        """Where it ran, in order."""
        return [event.run_directory for event in self.told if isinstance(event, QueryStarted)]

    def events(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.told if isinstance(event, kind)]
