"""Events reach every subscriber in order; a line of the file is one whole event."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tenure.event_log import JsonLines
from tenure.events import BatchCommitted, BlobLeft, Event, Events, MirrorFailed, Once, TermEnded, TermWon
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S


def test_every_subscriber_gets_each_event_in_order() -> None:
    first: list[Event] = []
    second: list[Event] = []
    events = Events(first.append, second.append)
    made = [TermWon("p", "a", 1), TermEnded("p", "a", 1, "deadline"), TermWon("p", "b", 2)]
    for event in made:
        events.emit(event)
    assert first == second == made


def test_nobody_listens_to_nobody() -> None:
    Events.nobody.emit(BlobLeft("p", "address", "why"))


def test_a_subscriber_that_raises_is_heard() -> None:
    def broken(event: Event) -> None:
        raise KeyError(event.scope)

    with pytest.raises(KeyError):
        Events(broken).emit(TermWon("p", "a", 1))


def test_an_event_of_a_state_comes_once_for_as_long_as_it_stands() -> None:
    told: list[Event] = []
    once = Once(Events(told.append))
    first, second = MirrorFailed("p", "q", "away"), MirrorFailed("p", "r", "full")
    for now in ((first,), (first, second), (first,), (first, second), (), (first,)):
        once.look(*now)
    assert told == [first, second, second, first]


def test_a_line_is_an_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink = JsonLines(str(path), clock=ManualClock())
    sink(BatchCommitted("p", 3, "q", 7, True, 0.5))
    assert json.loads(path.read_text()) == {
        "event": "BatchCommitted",
        "at": "2030-01-01T00:00:00+00:00",
        "scope": "p",
        "epoch": 3,
        "query": "q",
        "batch": 7,
        "repeated": True,
        "seconds": 0.5,
    }


def test_lines_of_many_threads_and_writers_are_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    sinks = [JsonLines(path, clock=ManualClock()) for _ in range(2)]

    def write(name: str) -> None:
        for n in range(50):
            sinks[n % 2](TermWon("p" * 500, name, n))

    threads = [threading.Thread(target=write, args=(f"m{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    found = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert len(found) == 300
    for name in {line["member"] for line in found}:
        assert [line["epoch"] for line in found if line["member"] == name] == list(range(50))
