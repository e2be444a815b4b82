"""The driver's side of the link: obeys the agent's words, and sends it the driver's events.

Promise: a term counts as held until the last deadline that the agent sent, and no longer, also while the agent is
silent. One thread reads the words, and it alone judges the deadline, after it has read all words that have arrived:
user code that holds the interpreter past a deadline delays the reading of a renewal, but does not make it void. When
the agent is gone, `orphaned` is called at once. Not promised: that a word is read while user code holds the
interpreter; the agent and the warden need no answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.errors import DriverDied, TenureError, TermLost, error_to_data
from tenure.events import Event, Events, event_to_data
from tenure.link.driver import Ended, Work
from tenure.link.records import HeardRecords
from tenure.link.words import (
    Begin,
    Close,
    DriverEvent,
    Elected,
    Failed,
    Finish,
    Lead,
    Link,
    Loaded,
    Lost,
    Over,
    Prepare,
    Prepared,
    Records,
    Renewed,
    StandBy,
    Stop,
    Word,
)

_PULSE_S = 1.0
_LOOK_S = 0.1
"""How often the deadline is checked."""


@dataclass(frozen=True, slots=True)
class ServedPipeline:
    """A loaded pipeline. `work`: makes its work for a scope, whose records the agent sends. `file`: the fingerprint of
    the pipeline's file. `spark`: the version of Spark."""

    name: str
    work: Callable[[Scope, Events, HeardRecords], Work]
    file: str = ""
    spark: str = ""


@dataclass(slots=True)
class _Leadership:
    term: Term
    until_s: float
    """The deadline on the machine's monotonic clock. Only the reading thread uses it."""
    cleans: bool
    stop: threading.Event = field(default_factory=threading.Event)
    finish: threading.Event = field(default_factory=threading.Event)


class Served:
    """Serves one agent, in the thread that calls `run`."""

    def __init__(
        self, link: Link, *, load: Callable[[Begin], ServedPipeline], clock: Clock, orphaned: Callable[[], None]
    ) -> None:
        self._link = link
        self._load = load
        self._clock = clock
        self._orphaned = orphaned
        self._words: queue.SimpleQueue[Word | _Leadership | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Word | None] = queue.SimpleQueue()
        self._current: _Leadership | None = None  # of the reading thread; None: no leadership yet
        self._heard = HeardRecords(self._answers.put, clock=clock)
        self._work: Work | None = None  # None: not made yet
        self._closing = threading.Event()
        self._no_pulse: TenureError | None = None  # None: the JVM answers

    def run(self) -> int:
        """Obey until the agent sends Close or is gone. Return the exit code of the process."""
        threading.Thread(target=self._read, name="tenure-agent-words", daemon=True).start()
        writer = threading.Thread(target=self._write, name="tenure-agent-answers", daemon=True)
        writer.start()
        work: list[Work] = []
        code = 0
        try:
            self._obey(work)
        except TenureError as error:
            self._answers.put(Failed(error_to_data(error)))  # sent first: closing the work takes seconds
            code = error.exit_code
        finally:
            self._closing.set()
            try:
                for made in work:
                    made.close()
            finally:
                self._answers.put(None)
                writer.join(timeout=5)
                self._link.close()
        return code

    def tell(self, event: Event) -> None:
        """A subscriber of events: send each to the agent, without waiting."""
        self._answers.put(DriverEvent(event_to_data(event)))

    def _obey(self, made: list[Work]) -> None:
        begin = self._words.get()
        if not isinstance(begin, Begin):
            return
        pipeline = self._load(begin)
        self._answers.put(Loaded(pipeline.name, pipeline.file, pipeline.spark))
        prepare = self._words.get()
        if not isinstance(prepare, Prepare):
            return
        work = self._work = pipeline.work(Scope(prepare.scope), Events(self.tell), self._heard)
        made.append(work)
        limits = work.prepare()
        threading.Thread(target=self._beat, args=(work,), name="tenure-pulse", daemon=True).start()
        self._answers.put(Prepared(dict(limits)))
        while isinstance(order := self._words.get(), _Leadership | StandBy):
            if isinstance(order, StandBy):
                work.stand_by()
            else:
                self._answers.put(self._lead(work, order))
        if self._no_pulse is not None:
            raise self._no_pulse

    def _lead(self, work: Work, order: _Leadership) -> Over:
        work.elected()  # again: the reading thread may have read that word before this thread stood by
        try:
            if order.cleans:
                return Over(work.clean(order.term, stop=order.stop).value)
            return Over(work.lead(order.term, stop=order.stop, finish=order.finish).value)
        except TermLost:
            return Over(Ended.LOST.value)
        except DriverDied:
            raise
        except TenureError as error:
            return Over(Ended.FAILED.value, error_to_data(error))

    def _read(self) -> None:
        while True:
            passed = self._current is not None and self._clock.monotonic_s() >= self._current.until_s
            try:
                # A passed deadline counts only when no word is left to read after it.
                word = self._link.receive(timeout_s=0 if passed else _LOOK_S)
            except TimeoutError:
                if passed and self._current is not None:
                    self._current.term.liveness.end("the deadline passed without a renewal")
                    self._current.until_s = float("inf")
                continue
            match word:
                case Records():
                    self._heard.take(word)
                case Elected() if self._work is not None:
                    self._work.elected()
                case Lead():
                    liveness = Liveness(clock=self._clock, until_s=float("inf"))
                    self._current = _Leadership(Term.from_json(word.term, liveness=liveness), word.until_s, word.cleans)
                    self._words.put(self._current)
                case Renewed() | Lost() | Finish() | Stop() if self._current is not None:
                    _obey_in(self._current, word)
                case None:
                    if not self._closing.is_set():
                        self._orphaned()
                    self._words.put(None)
                    return
                case Close():
                    self._words.put(word)
                    self._closing.set()
                case _:
                    self._words.put(word)

    def _write(self) -> None:
        while (word := self._answers.get()) is not None:
            self._link.send(word)

    def _beat(self, work: Work) -> None:
        while not self._clock.wait(self._closing, timeout_s=_PULSE_S):
            try:
                pulse = work.pulse()
            except TenureError as error:
                self._no_pulse = error
                self._words.put(None)  # wakes an idle driver; a leadership notices by itself
                return
            self._answers.put(pulse)


def _obey_in(leadership: _Leadership, word: Renewed | Lost | Finish | Stop) -> None:
    match word:
        case Renewed():
            leadership.until_s = word.until_s
        case Lost():
            leadership.term.liveness.end(word.why)
        case Finish():
            leadership.finish.set()
        case Stop():
            leadership.stop.set()
