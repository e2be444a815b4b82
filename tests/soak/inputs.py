"""The inputs of a run: files of consecutive events, and what a person does with those that are done.

Each file may be a run of records in a topic of Kafka instead, which stays.

Promise: a file is there whole or not at all. `fed` is what was ever released, wherever the files are now. What is moved
away lies below `moved`, under the same names, and can be put back as it was.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.kit.servers import KafkaServer
from tests.soak.kinds import EVENTS_A_FILE, KEYS, KINDS, Prefixes, moment
from tests.soak.plan import Query, topic_of

PARTITIONS: Final = 3


def movable(names: Sequence[str], shown: int) -> list[str]:
    """The files of which all events show, by the number of events that do. File k holds the events from k * 21 on."""
    return [name for name in names if (number_of(name) + 1) * EVENTS_A_FILE <= shown]


def number_of(name: str) -> int:
    """The number of a file."""
    return int(name.partition(".")[0])


class Inputs:
    """The folders of one query, or its topics. Thread-safe."""

    def __init__(self, folder: Path, query: Query, *, broker: KafkaServer | None = None) -> None:
        """`folder`: of the run. `broker`: of the topics; None: they are folders."""
        self.query = query
        self._folder = folder
        self._broker = broker
        self.sources = KINDS[query.kind].sources
        self._here = folder / "input" / query.name
        self._away = folder / "moved" / query.name
        self._lock = threading.Lock()  # guards what follows, and all moving
        self._files = dict.fromkeys(self.sources, 0)
        self._back: set[tuple[str, str]] = set()  # what was put back: it stays

    def make(self) -> None:
        """Make the empty folders, and the topics."""
        for source in self.sources:
            if self._broker is not None:
                self._broker.make_topic(topic_of(self._folder, self.query.name, source), partitions=PARTITIONS)
            (self._here / source).mkdir(parents=True)
            (self._away / source).mkdir(parents=True)

    @property
    def fed(self) -> Prefixes:
        """How many events of each source were released."""
        with self._lock:
            return {source: files * EVENTS_A_FILE for source, files in self._files.items()}

    def release(self, source: str) -> None:
        """Release the next file of a source."""
        with self._lock:
            number = self._files[source]
            ids = range(number * EVENTS_A_FILE, (number + 1) * EVENTS_A_FILE)
            lines = [json.dumps({"id": i, "at": moment(i).isoformat(), "key": i % KEYS}) for i in ids]
            if self._broker is None:
                hidden = self._here / source / f".{number:06d}.json"
                hidden.write_text("\n".join(lines) + "\n")
                hidden.rename(self._here / source / f"{number:06d}.json")
            else:  # each file's events are in the topic before the next: Spark never sees a later file alone
                topic = topic_of(self._folder, self.query.name, source)
                self._broker.send(topic, lines, partition=number % PARTITIONS)
            self._files[source] = number + 1

    def move_away(self, shown: Prefixes) -> int:
        """Move the files away of which all events show, oldest first; return how many."""
        moved = 0
        with self._lock:
            for source in self.sources:
                names = sorted(path.name for path in (self._here / source).glob("[0-9]*.json"))
                for name in movable(names, shown.get(source, 0)):
                    if (source, name) in self._back:
                        continue
                    with suppress(FileNotFoundError):  # Spark cleans up, too
                        (self._here / source / name).rename(self._away / source / name)
                        moved += 1
        return moved

    def put_back(self) -> int:
        """Put everything back; return how many files. They stay until `let_go`."""
        put = 0
        with self._lock:
            for source in self.sources:
                for path in sorted((self._away / source).iterdir()):
                    path.rename(self._here / source / path.name)
                    self._back.add((source, path.name))
                    put += 1
        return put

    def let_go(self) -> None:
        """What was put back may be moved again."""
        with self._lock:
            self._back.clear()


class Routine:
    """Something that is done again and again, in one thread, until it is stopped; it can be paused meanwhile."""

    def __init__(self, name: str, act: Callable[[], None], *, every_s: float) -> None:
        self._act = act
        self._every_s = every_s
        self._stop = threading.Event()
        self._turn = threading.Lock()  # held while it acts, and while it is paused
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._paused = False
        self.failure: BaseException | None = None
        """What ended it; None: nothing did."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def pause(self) -> None:
        """Do nothing until `resume`; what is being done is done when this returns."""
        if not self._paused:
            self._turn.acquire()
            self._paused = True

    def resume(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._turn.release()

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self.resume()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            with self._turn:
                if self._stop.is_set():
                    return
                try:
                    self._act()
                except BaseException as error:
                    self.failure = error
                    raise


def feed(inputs: Sequence[Inputs]) -> Callable[[], None]:
    """What releases a file of each source of each query. Of `a` of `twice`, every third one is left out: the offsets of
    the other two are equal, and not its own."""
    turns = 0

    def release() -> None:
        nonlocal turns
        turns += 1
        for one in inputs:
            for source in one.sources:
                if (one.query.kind, source) == ("twice", "a") and turns % 3 == 1:
                    continue
                one.release(source)

    return release
