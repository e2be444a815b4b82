"""The driver's side of the link, around work that is made up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tenure.clock import SystemClock
from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.driver.serving import Served, ServedPipeline
from tenure.events import Events
from tenure.link.driver import Ended
from tenure.link.records import HeardRecords
from tenure.link.words import Begin, Close, Elected, Lead, Link, Loaded, Over, Prepare, Prepared, Pulse, StandBy, Word

CLOCK = SystemClock()


class Work:
    """Notes what it is asked for. `stand_by` lasts until the reading thread has read all words before `Lead`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.elected_by_the_reader = threading.Event()

    def prepare(self) -> Mapping[str, float]:
        return {}

    def stand_by(self) -> None:
        self.elected_by_the_reader.wait()
        self.calls.append("stand by")

    def elected(self) -> None:
        self.calls.append("elected")
        self.elected_by_the_reader.set()

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        self.calls.append("lead")
        return Ended.IDLE

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        return Ended.CLEANED

    def pulse(self) -> Pulse:
        return Pulse({})

    def begun(self) -> Sequence[int | None]:
        return ()

    def close(self) -> None: ...


@contextmanager
def served(work: Work) -> Iterator[Link]:
    """The agent's end of the link. The driver is ended after the block."""

    def made(scope: Scope, events: Events, heard: HeardRecords) -> Work:
        return work

    ours, theirs = map(Link, socket.socketpair())
    driver = Served(theirs, load=lambda begin: ServedPipeline("rows", made), clock=CLOCK, orphaned=lambda: None)
    thread = threading.Thread(target=driver.run, daemon=True)
    thread.start()
    try:
        yield ours
    finally:
        ours.send(Close())
        thread.join()
        ours.close()


def next_of(link: Link, kind: type[Word]) -> Word:
    """The next word but pulses."""
    while isinstance(word := link.receive(), Pulse):
        continue
    assert isinstance(word, kind)
    return word


def test_an_election_that_is_read_before_the_standing_by_is_not_lost() -> None:
    """Standing by closes the connection of an earlier leadership, and the reading thread is ahead of that."""
    work = Work()
    term = Term(Scope("rows"), 2, "anna", Version("1"), Version("1"), Liveness(clock=CLOCK, until_s=float("inf")))
    with served(work) as link:
        link.send(Begin({}, "rows.py", until_idle=False))
        next_of(link, Loaded)
        link.send(Prepare("rows"))
        next_of(link, Prepared)
        link.send(StandBy())
        link.send(Elected())
        link.send(Lead(term.to_json(), until_s=float("inf")))
        assert next_of(link, Over) == Over(Ended.IDLE.value)
    assert work.calls == ["elected", "stand by", "elected", "lead"]
