"""Members, input and output of one crash scenario, in one folder."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.operate.orders import Orders
from tenure.operate.snapshot import Snapshot, take_snapshot
from tenure.storage.engines import delta_options
from tests.crash.truth import KEYS, Row, Verdict, compare, expected, moment
from tests.kit.members import MemberProcess
from tests.kit.servers import KafkaServer
from tests.kit.waiting import NEVER_S, wait_until

PIPELINE = Path(__file__).parent / "pipelines" / "kinds.py"
SCOPE = "kinds"
LAUNCH = (sys.executable, "-m", "tests.support.launch")
_EVENTS_A_FILE = 21  # odd: what belongs together is cut in two
_COLUMNS = {
    "passed": ("id",),
    "windows": ("at", "rows", "ids"),
    "joined": ("id", "other"),
    "unique": ("half",),
    "counts": ("key", "rows", "largest"),
}


@dataclass(frozen=True)
class Topic:
    """A topic of Kafka in place of the folder of files. `flags`, `environment`: of the members that read it."""

    kafka: KafkaServer
    name: str
    partitions: int
    flags: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class Feeder:
    """Releases files of consecutive events until it is stopped."""

    def __init__(self, folder: Path, *, every_s: float, topic: Topic | None = None) -> None:
        self._folder = folder
        self._topic = topic
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self.events = 0
        """How many events were released."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop; `events` is final when this returns."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _feed(self) -> None:
        number = 0
        while not self._stop.wait(self._every_s):
            ids = range(self.events, self.events + _EVENTS_A_FILE)
            if self._topic is None:
                self._release(ids, number)
            else:  # each file's events are in the topic before the next: Spark never sees a later file alone
                self._topic.kafka.send(self._topic.name, map(str, ids), partition=number % self._topic.partitions)
            self.events += len(ids)
            number += 1

    def _release(self, ids: range, number: int) -> None:
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "at": pa.array([moment(i) for i in ids], pa.timestamp("us", tz="UTC")),
                "key": pa.array([i % KEYS for i in ids], pa.int64()),
            }
        )
        hidden = self._folder / f".{number:06d}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self._folder / f"{number:06d}.parquet")


class Cluster:
    """Everything of one scenario. Leaving the block kills all members."""

    def __init__(
        self,
        folder: Path,
        *,
        streams: Sequence[str],
        ttl: str = "3s",
        feed_every_s: float = 0.4,
        store: str | None = None,
        root: str | None = None,
        topic: Topic | None = None,
        pipeline: Path = PIPELINE,
    ) -> None:
        """`store`: the URL of an empty one; None: SQLite, in the folder. `root`: the URL below which storage and output
        are; None: the folder. `topic`: the input; None: a folder of files."""
        self._topic = topic
        self._pipeline = pipeline
        self.variables: Mapping[str, str] = {}
        """Further variables of all members."""
        self.folder = folder
        self.storage = f"{root or f'file://{folder}'}/storage"
        self.output = f"{root or folder}/output"
        self.store_url = store or f"sqlite://{folder}/store.db"
        self.streams = tuple(streams)
        self.ttl = ttl
        self.members: list[MemberProcess] = []
        for name in ("input", "output", "storage"):
            (folder / name).mkdir()
        self.feeder = Feeder(folder / "input", every_s=feed_every_s, topic=topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.feeder.stop()
        for member in self.members:
            member.kill()

    @property
    def pause_file(self) -> Path:
        """When it is made, the leader stops itself before its next plan."""
        return self.folder / "pause"

    def order(self, member: MemberProcess, *, step: str, part: str, signal: str) -> Path:
        """Let a part of a running member be killed or stopped at a step; the file is gone when that happened."""
        path = self.folder / f"{member.name}.order"
        hidden = path.with_suffix(".hidden")
        hidden.write_text(json.dumps({"step": step, "part": part, "signal": signal}))
        hidden.rename(path)
        return path

    def start(
        self, name: str, *, flags: Sequence[str] = (), variables: Mapping[str, str] | None = None, **faults: Any
    ) -> MemberProcess:
        """Start a member with these further flags, variables and faults (see `tests.support.launch`)."""
        arguments = ["run", str(self._pipeline), "--store", self.store_url, "--storage", self.storage]
        arguments += ["--ttl", self.ttl, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
        arguments += ["--param", f"input={self.folder}/input", "--param", f"output={self.output}"]
        arguments += ["--param", f"only={','.join(self.streams)}", *flags]
        arguments += [] if self._topic is None else self._topic.flags
        files = {word: str(self.folder / f"{name}.{word}") for word in ("turn", "order")}
        described = json.dumps({"pause_when": str(self.pause_file), **files, **faults})
        environment = {"TESTING_FAULTS": described, "TENURE_DRIVER_SILENCE": "5s"}
        environment |= {} if self._topic is None else self._topic.environment
        environment |= {**self.variables, **(variables or {})}
        member = MemberProcess(name, folder=self.folder, arguments=arguments, command=LAUNCH, environment=environment)
        self.members.append(member)
        member.start()
        return member

    def look(self) -> Snapshot:
        """The scope as it is now."""
        with self.opened() as store:
            return take_snapshot(store, Scope(SCOPE))

    def switchover(self, *, to: str) -> None:
        """Ask the leader to hand over."""
        with self.opened() as store:
            Orders(store, Scope(SCOPE), clock=SystemClock()).switchover(to=to)

    def opened(self) -> contextlib.closing[CoordinationStore]:
        """The store, which is closed after the block."""
        return contextlib.closing(open_store(self.store_url, clock=SystemClock()))

    def wait_until_ready(self, *names: str, seconds: float = NEVER_S) -> None:
        """Wait until these members could take over."""
        self.wait(
            lambda: set(names) <= {one.member for one in self.look().members if one.ready},
            seconds=seconds,
            what=f"{names} to be ready",
        )

    def pair(self) -> tuple[MemberProcess, MemberProcess]:
        """The leader and the only other member that runs, once there is a leader and the other could take over."""

        def ready() -> tuple[MemberProcess, MemberProcess] | None:
            found = self.look()
            live = [member for member in self.members if member.running]
            ready_ones = {one.member for one in found.members if one.ready} - {found.leader}  # it may still say ready
            leading = [member for member in live if member.name == found.leader]
            able = [member for member in live if member.name in ready_ones]
            return (leading[0], able[0]) if len(leading) == len(able) == 1 else None

        pair: tuple[MemberProcess, MemberProcess] = self.wait(ready, what="a leader and a ready standby")
        return pair

    def leader(self) -> MemberProcess | None:
        """The member that won the newest term."""
        won = [(event["epoch"], member) for member in self.members for event in member.events("TermWon")]
        return max(won, key=lambda one: one[0])[1] if won else None

    def epoch(self) -> int:
        """The newest epoch that a member won."""
        return max((e["epoch"] for member in self.members for e in member.events("TermWon")), default=0)

    def batches(self, stream: str, *, epoch: int | None = None, after_epoch: int = 0) -> list[dict[str, Any]]:
        """The batches of a stream that a term committed."""
        return [
            event
            for member in self.members
            for event in member.events("BatchCommitted", query=stream)
            if (epoch is None or event["epoch"] == epoch) and event["epoch"] > after_epoch
        ]

    def wait(self, condition: Callable[[], Any], *, what: str, seconds: float = NEVER_S) -> Any:
        """Wait; a TimeoutError tells what every member printed."""
        try:
            return wait_until(condition, timedelta(seconds=seconds), what=what, every=timedelta(milliseconds=100))
        except TimeoutError as late:
            told = "\n".join(f"--- {m.name} ({m.exit_code})\n{m.output()[-3000:]}" for m in self.members)
            raise TimeoutError(f"{late}\n{told}") from late

    def wait_for_batches(self, *, after_epoch: int, count: int, seconds: float | None = None) -> None:
        """Wait until terms after `after_epoch` have committed `count` batches of every stream: for so many seconds, or
        for the term and then for each batch as long as for any event."""

        def committed(least: int) -> bool:
            return all(len(self.batches(stream, after_epoch=after_epoch)) >= least for stream in self.streams)

        if seconds is None:
            self.wait(lambda: self.epoch() > after_epoch, what=f"a term after epoch {after_epoch}")
        for least in range(1, count + 1) if seconds is None else [count]:
            what = f"{least} batches of each stream after epoch {after_epoch}"
            self.wait(functools.partial(committed, least), seconds=seconds or NEVER_S, what=what)

    def rows(self, stream: str) -> list[Row]:
        """What a stream has written."""
        if stream == "files":
            files = sorted((self.folder / "output" / stream).glob("batch=*/*.parquet"))
            return [(i,) for file in files for i in pq.read_table(file)["id"].to_pylist()]
        url = f"{self.output}/{stream}"
        try:
            table = DeltaTable(url, storage_options=delta_options(url, {})).to_pyarrow_table()
        except TableNotFoundError:
            return []
        return list(zip(*(table[column].to_pylist() for column in _COLUMNS[stream]), strict=True))

    def verdict(self, stream: str) -> Verdict:
        """The output of a stream against the truth about what was fed."""
        return compare(expected(stream, self.feeder.events), self.rows(stream))

    def settle(self, *, seconds: float = NEVER_S) -> None:
        """Stop feeding, and wait until every stream is right; if that does not happen, the caller's check of the
        verdict says what is wrong."""
        self.feeder.stop()
        try:
            wait_until(
                lambda: all(self.verdict(stream).right for stream in self.streams),
                timedelta(seconds=seconds),
                every=timedelta(milliseconds=500),
            )
        except TimeoutError:
            return
