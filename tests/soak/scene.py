"""One run while it goes on: its members, inputs and outputs, and the eye that is kept on all of them.

Promise: leaving the block ends every process of it, paused ones too. Whatever a run waits for, it looks after its
members meanwhile: one that ended is started again, and one that ended without having been made to is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from demo.ground import Ground
from tenure.backends.registry import open_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Scope
from tenure.operate.orders import Orders
from tenure.rundirs.run_directory import latest_commit, latest_planned
from tests.kit.members import MAIN, MemberProcess
from tests.soak.inputs import Inputs, Routine, feed
from tests.soak.journal import Journal, Told
from tests.soak.lake import environment_of
from tests.soak.ledger import Calls, Ledger
from tests.soak.outputs import Output, told
from tests.soak.places import Locking, Place, place_of
from tests.soak.plan import BY_HAND, ICEBERG, Plan, Query
from tests.soak.slots import Slot
from tests.soak.targets import Outages

T = TypeVar("T")

PIPELINE: Final = Path(__file__).parent / "pipeline.py"
SCOPE: Final = "soak"
NAMES: Final = ("anna", "ben")
TTL_S: Final = 2.0
FEED_S: Final = 0.8
_MOVE_S: Final = 0.25
_TROUBLE_S: Final = 0.25
_LOOK_S: Final = 0.01
_LONGEST_REST_S: Final = 7.0
"""A member that waits for longer before it starts its driver again is replaced."""
_IN_A_ROW: Final = 3
"""So many members may end because inputs are gone, without any batch, and without that files can be put back: one
looked before they were, and what `cleanSource` removed is found to be done by the next one."""
_MOST_ENDED: Final = 4
"""Then the run ends."""
_LOUD: Final = (5, 8)
"""Corrupt; and a query that failed, since Spark says so if a file goes while it is being read."""

_HDFS: Final = (
    "spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion=1",
)

_LENIENT: Final = ("spark.sql.files.ignoreMissingFiles=true",)


class StuckError(Exception):
    """Something that has to happen did not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What must not be. `kind`: `wrong` (an output), `stuck`, `ended` (a member by itself), `again` (a function was
    called for a batch that was done), `ledger` (what was written is out of order), `waited` (a member, for another
    one's transaction)."""

    kind: str
    text: str


class Scene:
    """Everything of one run. Used by one thread."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        environment: Mapping[str, str],
        store: str | None = None,
        ground: Ground | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`environment`: of the members, beside that of this process. `store`: the URL of an empty store; None: a file
        in the folder. `ground`: where the members read from and write to; None: the folder."""
        self.folder = folder
        self.store = store or f"sqlite://{folder}/store.db"
        self.plan = plan
        self.clock = clock or SystemClock()
        self.journal = Journal()
        self.slots: dict[str, Slot] = {}
        self.findings: list[Finding] = []
        self.loud: list[str] = []
        """Why members ended because inputs were gone, where that is right."""
        self.starts = 0
        self.done: dict[str, tuple[int, int]] = {}
        """Query with a ledger -> how many lines its calls had, and its newest batch, when all was done."""
        self.ground = ground or Ground(f"file://{folder}/storage", str(folder / "output"), {})
        self.inputs = [Inputs(folder, query, broker=self.ground.broker) for query in plan.queries]
        self.outputs = [self._output(query) for query in plan.queries]
        sinks = dict.fromkeys(query.sink for query in plan.queries)
        found = {sink: place_of(sink, folder, self.ground) for sink in sinks}
        self.places: Mapping[str, Place] = {sink: place for sink, place in found.items() if place is not None}
        self.databases = [place for place in self.places.values() if isinstance(place, Locking)]
        self._environment = environment
        self._began_s = self.clock.monotonic_s()
        self._in_a_row = 0
        self._last_loud = 0
        self.feeder = Routine("feeder", feed(self.inputs), every_s=FEED_S)
        # The mover reads outputs of its own: it is another thread.
        shown = [one for one in self.inputs if one.query.habit == "shown"]
        self._watched = [(one, self._output(one.query)) for one in shown]
        self.mover = Routine("mover", self._move_shown, every_s=_MOVE_S)
        self.outages = Outages(folder, plan, places=self.places, clock=self.clock, log=self.log)
        self.troubler = Routine("outages", self.outages.act, every_s=_TROUBLE_S)

    def __enter__(self) -> Self:
        (self.folder / "output").mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        for place in self.places.values():
            place.make(self.plan.queries)
        for one in self.inputs:
            one.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.feeder.stop()
        self.mover.stop()
        self.troubler.stop()
        for slot in self.slots.values():
            slot.member.kill()
        for place in self.places.values():
            place.come_back()
            place.close()
        for _, output in [*zip(self.inputs, self.outputs, strict=True), *self._watched]:
            output.close()

    def _output(self, query: Query) -> Output:
        place = place_of(query.sink, self.folder, self.ground)
        return Output(self.folder, query, tables=self.ground.output, place=place)

    # --- members ------------------------------------------------------------------------------------------------------

    def start(self, name: str, *, until_idle: bool = False) -> None:
        """Start a member, where there is none of this name."""
        self.starts += 1
        folder = self.folder / "members" / f"{self.starts:03d}-{name}"
        folder.mkdir(parents=True)
        member = self.process(name, folder, [*self.arguments(), *(("--until-idle",) if until_idle else ())])
        self.journal.follow(name, member.event_log)
        self.slots[name] = Slot(name, member, since=len(self.journal.events), until_idle=until_idle)
        member.start()
        self.log(f"{name} starts{' until idle' if until_idle else ''}")

    def process(self, name: str, folder: Path, arguments: Sequence[str]) -> MemberProcess:
        """The process of a member, whose files are in a folder of its own."""
        return MemberProcess(name, folder=folder, arguments=arguments, command=MAIN, environment=self.environment())

    def environment(self) -> dict[str, str]:
        """What a member gets beside the environment of this process."""
        place = str(self.folder / "tmp")
        catalog = environment_of(self.folder, self.ground.lake) if ICEBERG in self.places else {}
        own = {"TENURE_DRIVER_SILENCE": "8s", "TMPDIR": place, "SPARK_LOCAL_DIRS": place}
        return {**self._environment, **catalog, **own}

    def arguments(self) -> list[str]:
        """The command line of a member."""
        plan = self.plan
        conf = [f"spark.sql.shuffle.partitions={plan.cores}", *(_HDFS if plan.state == "hdfs" else ())]
        conf += _LENIENT if plan.lenient else ()
        return [
            *("run", str(PIPELINE), "--store", self.store),
            *("--ttl", f"{TTL_S:g}s", "--stop-patience", "10s", *self.ground.arguments),
            *("--master", f"local[{plan.cores}]", "--standby", "warm" if plan.warm else "cold"),
            *("--param", f"folder={self.folder}"),
            *("--param", f"queries={json.dumps([asdict(query) for query in plan.queries])}"),
            *(word for setting in conf for word in ("--conf", setting)),
        ]

    @contextmanager
    def orders(self) -> Iterator[Orders]:
        """An operator's hand on the scope."""
        with closing(open_store(self.store, clock=self.clock)) as store:
            yield Orders(store, Scope(SCOPE), clock=self.clock)

    def leader(self) -> Slot | None:
        """Who leads, as far as the members have said."""
        leading = [(epoch, slot) for slot in self.slots.values() if (epoch := slot.leads(self.journal)) is not None]
        return max(leading, key=lambda one: one[0])[1] if leading else None

    def other(self, slot: Slot) -> Slot:
        """The slot beside this one."""
        return next(one for one in self.slots.values() if one.name != slot.name)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], T | None], *, seconds: float, what: str) -> T:
        """Wait for the condition's first true answer. Raises StuckError."""
        answer = self.wait_softly(condition, seconds=seconds)
        if answer:
            return answer
        raise StuckError(f"waited {seconds:g} s for {what}")

    def wait_softly(self, condition: Callable[[], T], *, seconds: float) -> T:
        """Wait for the condition's first true answer; return its last one when the time is over."""
        end_s = self.clock.monotonic_s() + seconds
        while True:
            late = self.clock.monotonic_s() >= end_s
            self.look_after()
            answer = condition()
            if answer or late:
                return answer
            self.clock.sleep(_LOOK_S)

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.wait_softly(lambda: False, seconds=seconds)

    def look_after(self) -> None:
        """Read what the members have told, and start those again that have ended."""
        self.journal.read()
        for database in self.databases:
            database.look()
        for failed in (self.feeder.failure, self.mover.failure, self.troubler.failure):
            if failed is not None:
                raise failed
        for slot in list(self.slots.values()):
            if slot.running:
                self._replace_worn(slot)
            elif slot.down_since_s is None:
                slot.down_since_s = self.clock.monotonic_s()
                self._judge_end(slot)
            if slot.running or slot.stay_down or slot.down_since_s is None:
                continue
            if self.clock.monotonic_s() >= slot.down_since_s + slot.again_s:
                self.start(slot.name, until_idle=slot.next_until_idle)

    def _replace_worn(self, slot: Slot) -> None:
        found = self.journal.last("DriverEnded", "DriverStarted", since=slot.since, member=slot.name)
        if found is not None and found[1].kind == "DriverEnded" and found[1].fields["again_s"] > _LONGEST_REST_S:
            slot.kill("host", self.journal)

    def _judge_end(self, slot: Slot) -> None:
        """A member has ended: was it made to?"""
        code = slot.member.exit_code
        if code in slot.expect or (slot.until_idle and code == 0):
            self.log(f"{slot.name} ended with {code}")
            return
        if self.journal.last("BatchCommitted", since=self._last_loud) is not None:
            self._in_a_row = 0
        self._last_loud = len(self.journal.events)
        words = slot.last_words()
        self.log(f"{slot.name} ended by itself with {code}: {words}")
        if code in _LOUD and self._heal(words):
            self.loud.append(f"{slot.name} ended with {code}: {words}")
        else:
            self.findings.append(Finding("ended", f"{slot.name} ended by itself with exit code {code}: {words}"))
            if sum(finding.kind == "ended" for finding in self.findings) >= _MOST_ENDED:
                raise StuckError(f"{_MOST_ENDED} members ended by themselves")

    def _heal(self, words: str) -> bool:
        """Put the inputs back of which a member says that they are gone. False: it had no reason to say that."""
        named = [one for one in self.inputs if f"/input/{one.query.name}/" in words]
        mine = [one for one in named if one.query.habit in ("shown", "delete", "archive")]
        if not mine:
            return False
        put = sum(one.put_back() for one in mine if one.query.habit in BY_HAND)
        if put:
            self.log(f"{put} files were put back")
        self._in_a_row = 0 if put else self._in_a_row + 1
        return self._in_a_row <= _IN_A_ROW

    # --- inputs and outputs -------------------------------------------------------------------------------------------

    def _move_shown(self) -> None:
        for inputs, output in self._watched:
            inputs.move_away(output.shown())

    def move_quiet(self) -> None:
        """Move away by hand, now that the pipeline is quiet, all that shows."""
        for inputs, output in zip(self.inputs, self.outputs, strict=True):
            inputs.let_go()
            if inputs.query.habit in BY_HAND:
                self.log(f"{inputs.move_away(output.shown())} files of {inputs.query.name} were moved away")

    def wrong(self) -> dict[str, str]:
        """How the outputs differ from the truth about all that was fed, by query; empty: they are right."""
        found = {}
        for inputs, output in zip(self.inputs, self.outputs, strict=True):
            verdict = output.verdict(inputs.fed)
            if not verdict.right:
                found[output.query.name] = told(verdict)
        return found

    def all_committed(self) -> bool:
        """Whether each query has committed a batch."""
        told = {event.fields["query"] for event in self.journal.events if event.kind == "BatchCommitted"}
        return all(query.name in told for query in self.plan.queries)

    def noted(self) -> bool:
        """Whether Spark has noted for each query that its newest batch is done."""
        for query in self.plan.queries:
            directory = self.journal.run_directory(query.name)
            if directory is None:
                return False
            url = f"{self.ground.storage}/{SCOPE}/{directory}"
            planned = latest_planned(url)
            if planned is None or planned != latest_commit(url):
                return False
        return True

    def noted_by(self, told: Sequence[Told]) -> bool:
        """Whether Spark has noted, where these events of a member say that a query runs, a batch that they say is in
        the sink."""
        for event in told:
            if event.kind == "BatchCommitted":
                query, batch, epoch = (event.fields[name] for name in ("query", "batch", "epoch"))
                runs = self.folder / "storage" / SCOPE / "runs" / query
                if any((run / "commits" / str(batch)).exists() for run in runs.glob(f"e{epoch:08d}-{event.member}-*")):
                    return True
        return False

    def note_done(self) -> None:
        """All batches so far are done: no function is to be called for one of them any more."""
        for query in self.plan.queries:
            if query.sink == "ledger":
                output = self.folder / "output" / query.name
                entries = Ledger(output).entries()
                self.done[query.name] = (len(Calls(output).read()), entries[-1].batch if entries else -1)

    @contextmanager
    def fasting(self) -> Iterator[None]:
        """Nothing is fed inside the block, and every target answers."""
        self.feeder.pause()
        self.troubler.pause()
        self.outages.end()
        try:
            yield
        finally:
            self.troubler.resume()
            self.feeder.resume()

    def log(self, line: str) -> None:
        """A line of the timeline."""
        with (self.folder / "timeline.txt").open("a") as file:
            file.write(f"{self.clock.monotonic_s() - self._began_s:8.2f}  {line}\n")
