"""The agent's side of a driver: starts the process, hands it a term, and kills it when it does not obey.

Promise: when a leadership has ended, its queries are stopped or its process group was killed. A driver that ends by
itself is noticed at once; a driver that is silent or makes no progress is noticed at its limit. No code of the user
runs here. Not promised: that no write of a killed driver is in flight; the fence makes such a write harmless.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tenure.agent.child import Child, Start
from tenure.clock import Clock
from tenure.coordination.candidates import Lag
from tenure.coordination.election import Flag
from tenure.coordination.records import Record
from tenure.coordination.term import Term
from tenure.errors import (
    DriverDied,
    DriverHung,
    DriverStuck,
    QueryStalled,
    StoreError,
    UsageError,
    error_from_data,
)
from tenure.events import DriverStarted, Events, StandbyWarm, event_from_data
from tenure.link.driver import BY_ITSELF, Ended, ReadRecords
from tenure.link.records import RecordsSender
from tenure.link.words import (
    AskRecords,
    Begin,
    Close,
    DriverEvent,
    Elected,
    Failed,
    Finish,
    GotRecords,
    Lead,
    Link,
    Loaded,
    Lost,
    Over,
    Prepare,
    Prepared,
    Pulse,
    Renewed,
    StandBy,
    Stop,
    Word,
)
from tenure.progress import spark_starting

_ASLEEP_S = 2.0
"""The agent looks at its driver at least every second. After a longer pause the whole process was stopped."""

_LOOK_S = 0.02
"""How often a waiting agent looks at the clock, the term and the flags."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an agent waits before it kills a driver."""

    stop: timedelta
    """For the queries to stop."""
    silence: timedelta
    """For a sign of life of a prepared driver."""


class DriverProcess:
    """A `MemberDriver` that is a process. Used by one thread; any thread may call `kill`."""

    def __init__(
        self,
        *,
        start: Start,
        begin: Begin,
        member: str,
        patience: Patience,
        clock: Clock,
        events: Events,
        driver_events: Events,
    ) -> None:
        """`driver_events`: receives the driver's own events, which the driver has logged already."""
        self._start = start
        self._begin = begin
        self._member = member
        self._stop_patience_s = patience.stop.total_seconds()
        self._silence_s = patience.silence.total_seconds()
        self._clock = clock
        self._events = events
        self._driver_events = driver_events
        self._running: _Running | None = None  # None: not started
        self._name: str | None = None  # None: not loaded yet
        self._file = ""
        self._spark = ""
        self._started_before = False

    def load(self) -> str:
        """Start the process and let it load the pipeline. Return the pipeline's name.

        Raises the driver's own error (PipelineFileError, UsageError, those of a Spark that does not start), DriverDied.
        """
        name = self._loaded(stop=threading.Event())
        assert name is not None, "nothing stops it"
        return name

    def _loaded(self, *, stop: Flag) -> str | None:
        """As `load`; None: `stop` was set first. A file that uses Spark at its top level takes Spark's seconds."""
        if self._running is None:
            self._running = _Running(self._start_child(), clock=self._clock, driver_events=self._driver_events)
            self._running.child.link.send(self._begin)
        if self._name is None:
            word = self._answer(self._running, stop=stop)
            if word is None:
                return None
            assert isinstance(word, Loaded)
            self._name, self._file, self._spark = word.name, word.file, word.spark
        return self._name

    def _start_child(self) -> Child:
        try:
            child = self._start(self._member)
        except UsageError as unusable:
            if self._started_before:
                raise DriverDied(f"no driver can be started: {unusable.what}", fix=unusable.fix) from unusable
            raise
        self._started_before = True
        return child

    @property
    def gone(self) -> str | None:
        running = self._running
        if running is None:
            return "the driver was not started"
        if running.gone.is_set():
            return f"{BY_ITSELF}{running.how}"
        return running.silent(limit_s=self._silence_s)

    def prepare(self, *, scope: str, stop: Flag, records: ReadRecords = tuple) -> bool:
        if self._running is not None and self._running.prepared and self.gone is None:
            self._running.records.offer(records())
            self._running.child.link.send(StandBy())
            return False
        if self._running is not None and (self._running.prepared or self._running.gone.is_set()):
            self._discard()
        if self._loaded(stop=stop) is None:
            return False
        running = self._running
        assert running is not None
        self._events.emit(DriverStarted(scope=scope, member=self._member, pid=running.child.pid))
        running.child.link.send(Prepare(scope))
        try:
            word = self._answer(running, stop=stop, records=records, scope=scope)
        except StoreError:  # of `records`: the driver would wait for them
            self._discard()
            raise
        if not isinstance(word, Prepared):
            return False
        running.limits_s = word.limits
        running.prepared = True
        return True

    def hear(self, records: Sequence[Record]) -> None:
        if self._running is not None:
            self._running.records.offer(records)

    def elected(self) -> None:
        if self._running is not None:
            self._running.child.link.send(Elected())

    @property
    def warm(self) -> bool:
        return self._running is not None and self._running.warm

    @property
    def lag(self) -> Lag | None:
        return None if self._running is None else self._running.lag

    @property
    def behind(self) -> Mapping[str, int]:
        return {} if self._running is None else self._running.behind

    @property
    def silent_s(self) -> float:
        return 0.0 if self._running is None else self._running.silent_s

    @property
    def trouble(self) -> str:
        return "" if self._running is None else self._running.trouble

    @property
    def file(self) -> str:
        return self._file

    @property
    def spark(self) -> str:
        return self._spark

    def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        return self._lead(term, stop=stop, finish=finish, cleans=False)

    def clean(self, term: Term, *, stop: Flag) -> Ended:
        try:
            return self._lead(term, stop=stop, finish=threading.Event(), cleans=True)
        finally:
            self.close()

    def _lead(self, term: Term, *, stop: Flag, finish: Flag, cleans: bool) -> Ended:
        running = self._running
        assert running is not None
        running.progress.clear()
        orders = TermOrders(running.child.link, term, cleans=cleans)
        patience_end_s: float | None = None  # None: the queries need not stop yet
        while True:
            word = running.next(timeout_s=_LOOK_S)
            match word:
                case Over():
                    if word.error is not None:
                        raise error_from_data(word.error)
                    running.warm = True
                    return Ended(word.ended)
                case Failed():
                    raise error_from_data(word.error)
                case None if running.spent:
                    raise DriverDied(self.gone or "")
                case _:
                    pass
            must_stop = orders.send(stop=stop.is_set(), finish=finish.is_set())
            now_s = self._clock.monotonic_s()
            if must_stop and patience_end_s is None:
                patience_end_s = now_s + self._stop_patience_s
            hung: DriverDied | None = None
            if (silent := running.silent(limit_s=self._silence_s)) is not None:
                hung = DriverHung(f"{silent}; the driver was killed")
            elif (stalled := running.stalled()) is not None:
                hung = QueryStalled(f"{stalled}; the driver was killed")
            if patience_end_s is not None and now_s > patience_end_s:
                hung = DriverStuck(f"queries did not stop in {self._stop_patience_s:g} s; the driver was killed")
            if hung is not None:
                self.kill()
                raise hung

    def kill(self) -> None:
        """Kill the driver and its JVM at once. Call `close` after that."""
        running = self._running
        if running is not None:
            running.child.kill()
            running.end()

    def close(self) -> None:
        """Ask the driver to end, and kill a driver that does not end in time."""
        running = self._running
        if running is None:
            return
        running.child.link.send(Close())
        # Each step of the end has its own patience: the rehearsals, Spark, the JVM.
        self._clock.wait(running.gone, timeout_s=2 * self._stop_patience_s)
        self._discard()

    def _discard(self) -> None:
        running, self._running, self._name = self._running, None, None
        if running is not None:
            running.child.kill()
            running.end()
            running.clean_up()

    def _answer(self, running: _Running, *, stop: Flag, records: ReadRecords = tuple, scope: str = "") -> Word | None:
        """The driver's answer. None: `stop` was set meanwhile, and the driver, which has no term yet, was killed.
        `scope`: for the events of a long start; empty: there are none."""
        starting = spark_starting(scope, self._member, clock=self._clock, events=self._events)
        while not stop.is_set():
            starting()
            word = running.next(timeout_s=_LOOK_S)
            if isinstance(word, Failed):
                raise error_from_data(word.error)
            if isinstance(word, AskRecords):
                running.records.offer(records(), answers=word.number)
            elif word is not None:
                return word
            if running.spent:
                raise DriverDied(f"the driver ended before it was ready: {running.how}")
        self._discard()
        return None


class _Running:
    """A driver's process and its words. One thread reads the words, and ends with the process."""

    def __init__(self, child: Child, *, clock: Clock, driver_events: Events) -> None:
        self.child = child
        self.records = RecordsSender(child.link.send)
        self.prepared = False
        self.warm = False
        self.lag: Lag | None = None
        self.trouble = ""
        self.behind: Mapping[str, int] = {}
        self.limits_s: dict[str, float] = {}
        self.progress: dict[str, tuple[str | None, float]] = {}
        """Query -> its last mark, and when the mark changed. Written by the reading thread."""
        self.gone = threading.Event()
        """Set when the process has ended and all its words are read."""
        self.spent = False
        """Whether the process is gone and `next` has returned its last word."""
        self.how = ""
        """How the process ended, once it is gone: its own error, or its exit code or signal."""
        self._clock = clock
        self._driver_events = driver_events
        self._words: queue.SimpleQueue[Word | None] = queue.SimpleQueue()
        self._looking = threading.Lock()  # guards _looked_s: a pause counts once
        self._looked_s = clock.monotonic_s()
        self._heard_s: float | None = None  # None: not prepared
        self._reaped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-driver", daemon=True)
        self._thread.start()

    def next(self, *, timeout_s: float) -> Word | None:
        """The next word that the agent must act on; None: none came in time, or the process is gone."""
        was_gone = self.gone.is_set()  # asked first: a word that comes with the end is not overlooked
        try:
            word = self._words.get(timeout=timeout_s)
        except queue.Empty:
            word = None
        self.spent = was_gone and word is None
        return word

    @property
    def silent_s(self) -> float:
        """For how long the driver has given no sign of life; 0: it still prepares."""
        now_s = self._forgive_sleep()
        return 0.0 if self._heard_s is None else now_s - self._heard_s

    def silent(self, *, limit_s: float) -> str | None:
        """A line about a driver without a sign of life for so long; None: it gave a sign, or still prepares."""
        return f"the driver has not answered for {limit_s:g} s" if self.silent_s > limit_s else None

    def stalled(self) -> str | None:
        """A line that names a query without progress for its declared limit; None: there is no such query."""
        now_s = self._forgive_sleep()
        for query, limit_s in self.limits_s.items():
            mark, since_s = self.progress.get(query, (None, now_s))
            if mark is not None and now_s - since_s > limit_s:
                return f"query {query!r} has made no progress for {limit_s:g} s"
        return None

    def _forgive_sleep(self) -> float:
        """The time now. A pause of this process does not count as silence of the driver: the machine was stopped, and
        the driver with it."""
        with self._looking:
            now_s = self._clock.monotonic_s()
            slept_s, self._looked_s = now_s - self._looked_s, now_s
            if slept_s > _ASLEEP_S:
                if self._heard_s is not None:
                    self._heard_s = min(now_s, self._heard_s + slept_s)
                for query, (mark, since_s) in list(self.progress.items()):
                    self.progress[query] = (mark, min(now_s, since_s + slept_s))
            return now_s

    def end(self) -> None:
        """Wait until the killed process is reaped."""
        self._reaped.wait()

    def clean_up(self) -> None:
        """Wait until all its processes and its folder are gone from this machine."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._read()
        finally:  # also after a line that is no word
            self._bury()

    def _read(self) -> None:
        while True:
            word = self.child.link.receive(until=self.child.end)  # a forked process may hold the link open
            if word is None:
                return
            now_s = self._clock.monotonic_s()
            if isinstance(word, Prepared | Pulse) or (self._heard_s is not None and not isinstance(word, DriverEvent)):
                self._heard_s = now_s
            match word:
                case Pulse():
                    self.lag, self.trouble = None if word.lag is None else Lag(**word.lag), word.trouble or ""
                    self.behind = word.behind
                    for query, mark in word.marks.items():
                        if self.progress.get(query, (None, 0.0))[0] != mark or mark is None:
                            self.progress[query] = (mark, now_s)
                case DriverEvent():
                    event = event_from_data(word.event)
                    self.warm = self.warm or isinstance(event, StandbyWarm)
                    self._driver_events.emit(event)
                case GotRecords():
                    self.records.taken()
                case AskRecords() if self._heard_s is not None:
                    self.records.answer(word.number)  # a standby is content with the records of the last look
                case Failed():
                    self.how = str(error_from_data(word.error))
                    self._words.put(word)
                case _:
                    self._words.put(word)

    def _bury(self) -> None:
        how = self.child.wait()
        self.how = self.how or how
        self.gone.set()
        self._words.put(None)
        try:
            self.child.reap()  # kills the JVM, too, which may have outlived the driver
        finally:
            self._reaped.set()
        self.child.clean_up()  # after `_reaped`: a member that resigns does not wait for it


class TermOrders:
    """Sends the orders of one leadership, `Lead` at once."""

    def __init__(self, link: Link, term: Term, *, cleans: bool) -> None:
        self._link = link
        self._term = term
        self._until_s = term.liveness.until_s
        self._sent: set[type[Word]] = set()
        link.send(Lead(term.to_json(), self._until_s, cleans))

    def send(self, *, stop: bool, finish: bool) -> bool:
        """Send new orders and deadlines. Return whether the driver must stop its queries now."""
        if self._term.lost:
            self._send_once(Lost(self._term.liveness.why or "it is over"))
            return True
        if self._term.liveness.until_s != self._until_s:
            self._until_s = self._term.liveness.until_s
            self._link.send(Renewed(self._until_s))
        if stop:
            self._send_once(Stop())
        elif finish:
            self._send_once(Finish())
        return stop

    def _send_once(self, order: Word) -> None:
        if type(order) not in self._sent:
            self._sent.add(type(order))
            self._link.send(order)
