"""A driver whose Spark is made up: streams and queries that do what a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from unittest.mock import Mock, patch

from pyspark.errors import StreamingQueryException

from tenure.clock import SystemClock
from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.driver import spark_driver as driver_module
from tenure.driver.spark_driver import DriverWork, SparkDriver
from tenure.errors import TenureError
from tenure.events import Event, Events
from tenure.link.driver import Ended
from tenure.pipelines.loading import load_pipeline
from tenure.scope_context import ScopeContext
from tenure.spark.submit import RETAINED
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

PATIENCE = timedelta(seconds=0.3)
FILE = """
import tenure
@tenure.pipeline
def rows(job):
    for name in job.params["names"].split():
        stall_timeout = "1h" if name.startswith("limited") else None
        job.stream(name, job.spark.rows, sink=job.spark.sink, stall_timeout=stall_timeout)
"""


def spark_error(text: str) -> StreamingQueryException:
    """What ended a query, in Spark's words."""
    return StreamingQueryException(message=text)


class FakeQuery:
    """A query that runs until somebody ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended, self.idle = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.stop_hangs: threading.Event | None = None
        self.stopped = self.looked = 0
        self.dying = False  # it is active no more, and has not said why yet

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not (self.dying or self.ended.is_set())

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        self.ended.wait(timeout=NEVER_S)
        if self.error is not None:
            raise self.error

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        while not (self.ended.is_set() or self.idle.wait(timeout=0.01)):
            pass
        if self.error is not None:
            raise self.error
        self.looked += 1

    def stop(self) -> None:
        self.stopped += 1
        if self.stop_hangs is not None:
            self.stop_hangs.wait(timeout=NEVER_S)
        self.ended.set()
        if self.error is not None:
            raise self.error

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.ended.set()


class FakeStream:
    """Stands where a FencedStream stands."""

    made: ClassVar[dict[str, FakeStream]] = {}
    retaken_is_done = False
    last: int | None = None
    has_read = True
    has_done = False
    newest = -1

    def __init__(self, declared: Any, context: Any, **named: Any) -> None:
        self.name = declared.name
        self.query = FakeQuery(declared.name)
        self.failure: BaseException | None = None
        self.ends_by_itself = False
        self.closed, self.finished, self.in_batch, self.elsewhere = False, False, False, False
        self.begun = self.measured = 0
        self.wanted: list[str] = []
        self.last_is_done = True
        self.refused = False
        self.again: list[BaseException] = []
        self.late = False  # a batch begins before `finish` can keep it from that
        self.lock = threading.RLock()
        FakeStream.made[self.name] = self

    def prepare(self) -> None:
        if self.name in prepare_hooks:
            prepare_hooks[self.name](self)

    def start(self) -> FakeQuery:
        hook = start_hooks.get(self.name)
        if hook is not None:
            hook(self)
        return self.query

    def start_again(self, error: BaseException) -> FakeQuery | None:
        if self.name not in may_start_again:
            return None
        self.again.append(error)
        self.query = FakeQuery(self.name)
        return self.query

    def measure(self) -> None:
        self.measured += 1

    def behind(self) -> int | None:
        return {"a": 7, "b": 0}.get(self.name)

    def marks(self, wanted: Collection[str]) -> Iterator[tuple[str, str | None]]:
        self.wanted = list(wanted)
        yield from ((name, "mark") for name in wanted)

    def close(self) -> None:
        self.closed = True

    @property
    def resting(self) -> int | None:
        return None if self.in_batch else self.begun

    def begin(self) -> None:
        """A batch begins."""
        self.query.idle.clear()
        self.begun += 1
        self.in_batch = True

    @property
    def turn(self) -> threading.RLock:
        if self.late:
            self.late = False
            self.begin()
        return self.lock

    def finish(self) -> None:
        self.finished = True

    def is_done_elsewhere(self) -> bool:
        return self.elsewhere


JAVA = "17.0.15"

prepare_hooks: dict[str, Callable[[FakeStream], object]] = {}
start_hooks: dict[str, Callable[[FakeStream], None]] = {}
may_start_again: set[str] = set()
"""The streams whose query starts again."""


class Lead:
    """One leadership on a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.liveness = Liveness(clock=SystemClock(), until_s=float("inf"))
        self.term = Term(Scope("rows"), 1, "anna", Version("1"), Version("1"), self.liveness)
        self.stop, self.finish = threading.Event(), threading.Event()
        self.killed = 0
        self.mirror = False
        self.sweeps: list[str] = []
        self.asked: list[str] = []
        self.driver: SparkDriver | None = None  # None: it did not begin
        self.may_sweep: Callable[[], bool] = lambda: False
        self.events: list[Event] = []
        self.ended: Ended | BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, names: str, *, until_idle: bool = False) -> dict[str, FakeStream]:
        """Start leading; return once every stream was made (or refused)."""
        (file := self.folder / "p.py").write_text(FILE)
        no_classes = SimpleNamespace(getClassByNameOrNull=lambda name: None)
        hadoop = SimpleNamespace(hadoopConfiguration=lambda: no_classes)
        jvm = Mock(**{"java.lang.System.getProperty.return_value": JAVA})
        spark = SimpleNamespace(
            rows=SimpleNamespace(
                isStreaming=True, writeStream=None, sparkSession=SimpleNamespace(conf={RETAINED: "100"})
            ),
            sink=SimpleNamespace(check=lambda output_mode: None),
            sparkContext=SimpleNamespace(_gateway=None, _jvm=jvm, _jsc=hadoop, master="made up"),
            streams=SimpleNamespace(active=[], _jsqm=SimpleNamespace(listListeners=list)),
        )
        store, events = MemoryStore(MemoryServer()), Events(self.events.append)
        driver = self.driver = SparkDriver(
            ScopeContext(store, Scope("rows"), "/none", SystemClock(), events),
            DriverWork(
                member="anna",
                pipeline=load_pipeline(str(file)).pipeline,
                pipeline_file=str(file),
                params={"names": names},
                spark_log="spark.log",
                until_idle=until_idle,
                warm=False,
                mirrors=self.mirror,
                stop_patience=PATIENCE,
            ),
            start_spark=lambda: cast(Any, spark),
            declarations=cast(Any, self),
        )
        driver.prepare()
        self._thread = threading.Thread(target=self._lead, args=(driver,), daemon=True)
        self._thread.start()
        while names.rsplit(maxsplit=1)[-1] not in FakeStream.made and self._thread.is_alive():
            self._thread.join(timeout=0.01)
        return FakeStream.made

    def end(self) -> Ended | BaseException | None:
        """How it ended, once it has."""
        assert self._thread is not None
        self._thread.join(timeout=NEVER_S)
        assert not self._thread.is_alive()
        return self.ended

    def goes_on(self) -> bool:
        """Whether it goes on for a while."""
        self._thread.join(timeout=0.4)  # type: ignore[union-attr] # it began
        return self._thread.is_alive()  # type: ignore[union-attr] # it began

    def kept_zone(self, term: Term | None = None) -> None:
        """The scope has none."""

    def check(self, streams: object) -> None:
        """What is declared may be run."""
        self.asked.append("check")

    def record(self, term: Term, streams: object) -> None:
        """It is what is recorded."""
        self.asked.append("record")

    def sweeper(self, context: object, term: Term, *, more: object, look_first: object) -> Any:
        return SimpleNamespace(
            start=self._sweep_starts,
            stop=lambda: self.sweeps.append("stopped"),
            last=lambda stop: self.sweeps.append("swept"),
        )

    def _sweep_starts(self, *, ready: Callable[[], bool]) -> None:
        self.sweeps.append("started")
        self.may_sweep = ready

    def kill_jvm(self, spark: object) -> None:
        self.killed += 1

    def _lead(self, driver: SparkDriver) -> None:
        try:
            self.ended = driver.lead(self.term, stop=self.stop, finish=self.finish)
        except TenureError as error:
            self.ended = error


@contextmanager
def made_up(folder: Path) -> Iterator[Lead]:
    """A leadership over made-up streams."""
    one = Lead(folder)
    FakeStream.made = {}
    prepare_hooks.clear()
    start_hooks.clear()
    may_start_again.clear()
    with (
        patch.object(driver_module, "FencedStream", FakeStream),
        patch.object(driver_module, "kill_jvm", one.kill_jvm),
        patch.object(driver_module, "use_own_classes"),  # there is no JVM
        patch.object(driver_module, "with_sources", lambda stream: stream),  # nor a plan
        patch.object(driver_module, "scope_sweeper", one.sweeper),
        patch("tenure.driver.declare_streams.differences", lambda rows: ()),
        patch.object(driver_module, "use_zone"),
    ):
        yield one
