"""A driver without Spark, as a process: what it does is in the settings that its agent sends.

Not a test: started by the tests beside it. Settings: `load`, `prepare`, `lead`, `pulse`: one word each, see below.
`pids`: a file to which it writes the ids of its process and of those that it started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.agent.child import become_child
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.driver.__main__ import end_group
from tenure.driver.serving import Served, ServedPipeline
from tenure.errors import PipelineFileError, QueryFailed, StoreUnavailable
from tenure.events import BatchCommitted, CleanupEnded, Events, MirrorFailed
from tenure.link.driver import Ended
from tenure.link.records import HeardRecords
from tenure.link.words import Begin, Pulse

HELD_S = 3.0
"""For how long the interpreter is held by `hold`; `seize` never lets it go."""


class Work:
    """Does what its words say."""

    def __init__(self, words: Mapping[str, Any], events: Events, heard: HeardRecords) -> None:
        self._words = words
        self._heard = heard
        self._events = events
        self._led = 0

    def prepare(self) -> Mapping[str, float]:
        if self._words.get("prepare") == "die":
            os._exit(5)
        Path(tempfile.gettempdir(), "unpacked.so").write_text("as a JVM does")
        jvm = subprocess.Popen(["sleep", "1000"])
        workers = subprocess.Popen(["sleep", "1000"], process_group=0)
        Path(self._words["pids"]).write_text(f"{os.getpid()} {jvm.pid} {workers.pid}")
        if "asks" in self._words:
            self._say([record.value for record in self._heard.ask()])
        return {"rows": 2.5} if "pulse" in self._words else {}

    def _say(self, values: list[bytes]) -> None:
        self._events.emit(MirrorFailed("rows", query="rows", why=b" ".join(values).decode()))

    def stand_by(self) -> None:
        self._events.emit(MirrorFailed("rows", query="rows", why=f"a new session after {self._led}"))

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        self._led += 1
        self._events.emit(BatchCommitted(term.scope, term.epoch, "rows", self._led, False, 0.0))
        match self._words["lead"]:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hold":
                # User code in C that never lets go of the interpreter.
                ctypes.PyDLL(None).usleep(int(HELD_S * 1e6))
                return Ended.LOST if term.lost else Ended.IDLE
            case "seize":
                while True:
                    ctypes.PyDLL(None).sleep(1000)
            case "disobey":
                while True:
                    time.sleep(1)
            case "fail":
                raise QueryFailed("no luck", fix="see the log")
            case "store":
                raise StoreUnavailable("disk is full")
            case "sequence" if self._led > 1:
                return Ended.IDLE
        while not (stop.is_set() or finish.is_set() or term.lost):
            time.sleep(0.01)
        if finish.is_set():
            time.sleep(1)  # the batch
            self._events.emit(BatchCommitted(term.scope, term.epoch, "rows", self._led + 1, False, 0.0))
        return Ended.LOST if term.lost else Ended.STOPPED

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        self._events.emit(CleanupEnded(term.scope, removed=term.epoch, left=0, first="", seconds=0.0))
        if self._words["lead"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while self._words["lead"] == "wait" and not (stop.is_set() or term.lost):
            time.sleep(0.01)
        return Ended.LOST if term.lost else Ended.STOPPED if stop.is_set() else Ended.CLEANED

    def pulse(self) -> Pulse:
        lag = {"batches": 2, "bytes": 70}
        match self._words.get("pulse"):
            case "never":
                time.sleep(1000)
            case "stuck":
                return Pulse({"rows": "7"}, lag, behind={"rows": 12})
            case "idle":
                return Pulse({"rows": None}, lag)
            case "moving":
                return Pulse({"rows": str(time.monotonic())}, lag)
        if self._words.get("asks") == "pulse":
            self._say([b"last", *(record.value[:8] for record in self._heard.last())])
        return Pulse({}, lag, self._words.get("trouble"))

    def elected(self) -> None: ...

    def begun(self) -> Sequence[int | None]:
        return ()

    def close(self) -> None: ...


def load(begin: Begin) -> ServedPipeline:
    match begin.settings.get("load"):
        case "refuse":
            raise PipelineFileError("pipeline file 'x.py' is not there", fix="give the path of a Python file")
        case "crash":
            raise ZeroDivisionError
        case "never":
            time.sleep(1000)
    return ServedPipeline(
        "rows",
        lambda scope, events, heard: Work({"scope": Scope(scope), **begin.settings}, events, heard),
        file="0123456789ab",
        spark="4.3.0",
    )


def main() -> None:
    link = become_child(int(sys.argv[-2]), int(sys.argv[-1]))
    os._exit(Served(link, load=load, clock=SystemClock(), orphaned=end_group).run())


if __name__ == "__main__":
    main()
