"""The agent's side of a driver: starts it as a process, hands it a term, and ends it when it does not obey.

Promise: a leadership that ended is one whose queries are stopped, or whose process group was killed. A driver that
ends by itself is noticed at once, one that is silent or makes no progress at its limit. No code of the user runs
here. Not promised: that nothing of a killed driver is in flight; the fence makes that harmless.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from datetime import timedelta

from tenure.agent.child import Child, Start
from tenure.agent.driver_words import Said
from tenure.clock import Clock
from tenure.coordination.candidates import Lag
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.errors import DriverDied, UsageError, error_from_data
from tenure.events import DriverStarted, Events, StandbyWarm, event_from_data
from tenure.link.lifecycle import Ended
from tenure.link.words import (
    Begin,
    Close,
    Failed,
    Loaded,
    Over,
    Prepare,
    Prepared,
    Pulse,
    StandBy,
    Told,
    Word,
)

_ASLEEP_S = 2.0
"""Whoever looks at a driver does so at least every second; a longer pause is one of the whole process."""

_LOOK_S = 0.02
"""How often a waiting agent looks at the clock, the term and its orders."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an agent waits before it kills a driver."""

    stop: timedelta
    """For its queries to stop."""
    silence: timedelta
    """For a sign of life, once the driver is up."""


class DriverProcess:
    """One member's driver. Used by one thread; `kill` may be called by any."""

    def __init__(
        self,
        *,
        start: Start,
        begin: Begin,
        member: str,
        patience: Patience,
        clock: Clock,
        events: Events,
        told: Events,
    ) -> None:
        """`told`: who hears of the events of the driver, which the driver itself has logged."""
        self._start = start
        self._begin = begin
        self._member = member
        self._stop_patience_s = patience.stop.total_seconds()
        self._silence_s = patience.silence.total_seconds()
        self._clock = clock
        self._events = events
        self._told = told
        self._running: _Running | None = None  # None: not started
        self._name: str | None = None  # None: not loaded yet
        self._file = ""
        self._had_one = False

    def load(self) -> str:
        """Start the process and let it load the pipeline; return the pipeline's name.

        Raises what the driver raises (PipelineFileError, UsageError), DriverDied.
        """
        if self._running is None:
            self._running = _Running(self._start_one(), clock=self._clock, told=self._told)
            self._running.child.link.send(self._begin)
        if self._name is None:
            word = self._answer(self._running, stop=threading.Event())
            assert isinstance(word, Loaded)
            self._name, self._file = word.name, word.file
        return self._name

    def _start_one(self) -> Child:
        try:
            child = self._start(self._member)
        except UsageError as unusable:
            if self._had_one:
                raise DriverDied(f"no driver can be started: {unusable.what}", fix=unusable.fix) from unusable
            raise
        self._had_one = True
        return child

    @property
    def gone(self) -> str | None:
        """How the driver ended, or that it says nothing any more; None: it is there."""
        running = self._running
        if running is None:
            return "the driver was not started"
        if running.gone.is_set():
            return f"the driver ended by itself: {running.how}"
        return running.silent(limit_s=self._silence_s)

    def prepare(self, *, scope: str, stop: Flag) -> bool:
        """Make it able to lead in a new session, in a new process when the last one ended. False: it was able, or
        `stop` was set. Raises what the driver raises, DriverDied.
        """
        if self._running is not None and self._running.prepared and self.gone is None:
            self._running.child.link.send(StandBy())
            return False
        if self._running is not None and (self._running.prepared or self._running.gone.is_set()):
            self._discard()
        self.load()
        running = self._running
        assert running is not None
        self._events.emit(DriverStarted(scope=scope, member=self._member, pid=running.child.pid))
        running.child.link.send(Prepare(scope))
        word = self._answer(running, stop=stop)
        if not isinstance(word, Prepared):
            return False
        running.limits_s = word.limits
        running.prepared = True
        return True

    @property
    def warm(self) -> bool:
        """Whether its first batch will find all that it needs in memory: it has rehearsed, or led before."""
        return self._running is not None and self._running.warm

    @property
    def lag(self) -> Lag | None:
        """How far its mirrors were behind a second ago; None: it mirrors nothing."""
        return None if self._running is None else self._running.lag

    @property
    def trouble(self) -> str:
        """Why its rehearsals did not succeed, a second ago; empty: they did, or there are none."""
        return "" if self._running is None else self._running.trouble

    @property
    def file(self) -> str:
        """The fingerprint of the pipeline file that it has loaded; empty: none yet."""
        return self._file

    def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        """Let it lead until the term is lost, `stop` is set, or the queries end. Once `finish` is set, they end their
        batches, however long those take.

        Raises what the driver raises; DriverDied: it ended by itself, hung, or did not stop in time and was killed.
        """
        return self._lead(term, stop=stop, finish=finish, cleans=False)

    def clean(self, term: Term, *, stop: Flag) -> Ended:
        """Let it remove what the pipeline left, and end. Raises like `lead`."""
        try:
            return self._lead(term, stop=stop, finish=threading.Event(), cleans=True)
        finally:
            self.close()

    def _lead(self, term: Term, *, stop: Flag, finish: Flag, cleans: bool) -> Ended:
        running = self._running
        assert running is not None
        running.progress.clear()
        said = Said(running.child.link, term, cleans=cleans)
        patience_end_s: float | None = None  # None: it need not stop yet
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
                case None if running.gone.is_set():
                    raise DriverDied(self.gone or "")
                case _:
                    pass
            must_stop = said.say(stop=stop.is_set(), finish=finish.is_set())
            now_s = self._clock.monotonic_s()
            why = running.silent(limit_s=self._silence_s) or running.stuck()
            if must_stop and patience_end_s is None:
                patience_end_s = now_s + self._stop_patience_s
            if patience_end_s is not None and now_s > patience_end_s:
                why = f"queries did not stop in {self._stop_patience_s:g} s"
            if why is not None:
                self.kill()
                raise DriverDied(f"{why}; the driver was killed")

    def kill(self) -> None:
        """Kill the driver and its JVM at once. `close` is still needed."""
        running = self._running
        if running is not None:
            running.child.kill()
            running.end()

    def close(self) -> None:
        """Ask the driver to end, and kill what has not ended in time."""
        running = self._running
        if running is None:
            return
        running.child.link.send(Close())
        # Every step of its end has its own patience: the rehearsals, Spark, the JVM.
        self._clock.wait(running.gone, timeout_s=2 * self._stop_patience_s)
        self._discard()

    def _discard(self) -> None:
        running, self._running, self._name = self._running, None, None
        if running is not None:
            running.child.kill()
            running.end()
            running.clear()

    def _answer(self, running: _Running, *, stop: Flag) -> Word | None:
        """The driver's answer; None: `stop` was set meanwhile, and the driver is killed: it has nothing to lose."""
        while not stop.is_set():
            word = running.next(timeout_s=_LOOK_S)
            if isinstance(word, Failed):
                raise error_from_data(word.error)
            if word is not None:
                return word
            if running.gone.is_set():
                raise DriverDied(f"the driver ended before it was ready: {running.how}")
        self._discard()
        return None


class _Running:
    """One process of the driver, its words, and two threads that end with it: one reads, one waits for the end."""

    def __init__(self, child: Child, *, clock: Clock, told: Events) -> None:
        self.child = child
        self.prepared = False
        self.warm = False
        self.lag: Lag | None = None
        self.trouble = ""
        self.limits_s: dict[str, float] = {}
        self.progress: dict[str, tuple[str | None, float]] = {}
        """For each query its last mark, and when it changed. Written by the reading thread."""
        self.gone = threading.Event()
        """Set when the process has ended and all that it said was read."""
        self.how = ""
        """How it ended, once it is gone; its own words if it said any."""
        self._clock = clock
        self._told = told
        self._words: queue.SimpleQueue[Word | None] = queue.SimpleQueue()
        self._looking = threading.Lock()  # guards the next one: a pause counts once
        self._looked_s = clock.monotonic_s()
        self._heard_s: float | None = None  # None: it is not prepared
        self._buried = threading.Event()
        self._reader = threading.Thread(target=self._read, name="tenure-driver-words", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name="tenure-driver-end", daemon=True)
        self._reader.start()
        self._waiter.start()

    def next(self, *, timeout_s: float) -> Word | None:
        """The next word that asks for something to be done; None: none came in time, or it is gone."""
        try:
            return self._words.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def silent(self, *, limit_s: float) -> str | None:
        """That it has given no sign of life for so long; None: it has, or still prepares."""
        now_s = self._forgive_sleep()
        if self._heard_s is None or now_s - self._heard_s <= limit_s:
            return None
        return f"the driver has not answered for {limit_s:g} s"

    def stuck(self) -> str | None:
        """Which query of a leadership makes no progress; None: none, or none declares a limit."""
        now_s = self._forgive_sleep()
        for query, limit_s in self.limits_s.items():
            mark, since_s = self.progress.get(query, (None, now_s))
            if mark is not None and now_s - since_s > limit_s:
                return f"query {query!r} has made no progress for {limit_s:g} s"
        return None

    def _forgive_sleep(self) -> float:
        """The time now. When this process did not run for a while, its machine was stopped: that is not the driver's
        silence, which had no chance to speak either."""
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
        """Wait until it is buried; it was killed."""
        self._buried.wait()
        self._reader.join()

    def clear(self) -> None:
        """Wait until nothing of it is left on this machine."""
        self._waiter.join()

    def _read(self) -> None:
        while True:
            word = self.child.link.receive()
            if word is None:
                return
            now_s = self._clock.monotonic_s()
            if isinstance(word, Prepared | Pulse) or (self._heard_s is not None and not isinstance(word, Told)):
                self._heard_s = now_s
            match word:
                case Pulse():
                    self.lag, self.trouble = None if word.lag is None else Lag(**word.lag), word.trouble or ""
                    for query, mark in word.marks.items():
                        if self.progress.get(query, (None, 0.0))[0] != mark or mark is None:
                            self.progress[query] = (mark, now_s)
                case Told():
                    event = event_from_data(word.event)
                    self.warm = self.warm or isinstance(event, StandbyWarm)
                    self._told.emit(event)
                case Failed():
                    self.how = str(error_from_data(word.error))
                    self._words.put(word)
                case _:
                    self._words.put(word)

    def _wait(self) -> None:
        how = self.child.wait()
        self._reader.join(timeout=1)  # what it said last; a process that it forked may hold the link open
        self.how = self.how or how
        self.gone.set()
        self._words.put(None)
        try:
            self.child.bury()  # its JVM may have outlived it
        finally:
            self._buried.set()
        self.child.clear()  # which nobody who resigns waits for
