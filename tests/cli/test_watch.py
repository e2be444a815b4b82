"""`--watch`: at a terminal, into a pipe, and while the store is away."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tests.cli.support import Place, tenure
from tests.cli.test_verbs import Actor
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S, wait_until
from tests.stores import ONE_SERVER, new_store


class Watching:
    """A command that watches, into files."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen([*MAIN, *words], stdout=out, stderr=err)

    def texts(self) -> list[str]:
        """The lines so far."""
        return self._out.read_text().splitlines()

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.texts()]

    def waits_for(self, number: int) -> Any:
        """The line of that number, from 0."""
        wait_until(lambda: len(self.texts()) > number, what=f"line {number}")
        return self.lines()[number]

    def interrupt(self) -> tuple[int, str]:
        """End it as Ctrl-C does; return its exit code, and what it said on stderr."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(NEVER_S)
        return code, self._err.read_text()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(NEVER_S)


@contextmanager
def watching(folder: Path, *words: str) -> Iterator[Watching]:
    process = Watching(folder, *words)
    try:
        yield process
    finally:
        process.end()


def of(place: Place) -> list[str]:
    return ["--store", f"sqlite://{place.store}", "--scope", "rows"]


@pytest.mark.parametrize("kind", ONE_SERVER)
def test_each_change_is_a_line_in_a_pipe(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """The interval is longer than the test: the store reports the changes."""
    url, clock = new_store(request, kind, tmp_path), SystemClock()
    store = open_store(url, clock=clock)
    try:
        store.list(Scope("rows"), "")
        with watching(tmp_path, "status", "--store", url, "--scope", "rows", "--every", "3000") as told:
            assert told.waits_for(0)["leader"] is None
            who = Identity("anna", "here", 7)
            with held(store, Scope("rows"), who, ttl=timedelta(seconds=20), timeout=None, clock=clock):
                wait_until(lambda: told.lines()[-1]["leader"] == "anna")
            wait_until(lambda: told.lines()[-1]["leader"] is None)
            code, said = told.interrupt()
            assert (code, [line for line in said.splitlines() if "has a password" not in line]) == (130, [])
    finally:
        store.close()


def test_a_store_that_is_away_does_not_end_a_watch(place: Place, tmp_path: Path) -> None:
    place.make_store()
    with Actor(place, "anna"):
        wait_until(lambda: place.look("status")["leader"] == "anna")
    with watching(tmp_path, "history", *of(place), "-w", "0.2") as told:
        terms = told.waits_for(0)
        away = place.store.rename(place.store.with_suffix(".away"))
        assert str(place.store) in told.waits_for(1)["store_away"]
        away.rename(place.store)
        assert told.waits_for(2) == terms
        code, err = told.interrupt()
    assert (code, err) == (130, "")
    assert len(told.texts()) == 3, "an outage is said once, and the same picture is no change"


def test_a_watch_may_begin_while_the_store_is_away(place: Place, tmp_path: Path) -> None:
    with watching(tmp_path, "scopes", "--store", f"sqlite://{place.store}", "-w", "0.2") as told:
        assert "store_away" in told.waits_for(0)
        place.make_store()
        assert told.waits_for(1) == []


def test_yaml_has_a_document_for_each_change(place: Place, tmp_path: Path) -> None:
    place.make_store()
    with watching(tmp_path, "list", *of(place), "-W", "-o", "yaml") as told:
        wait_until(lambda: len(told.texts()) == 2)
        with Actor(place, "anna"):
            wait_until(lambda: "member: anna" in "\n".join(told.texts()))
        first, second, *_ = yaml.safe_load_all("\n".join(told.texts()))
    assert (first, second[0]["member"]) == ([], "anna")


def test_a_picture_is_drawn_anew_at_a_terminal(place: Place) -> None:
    place.make_store()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MAIN, "list", *of(place), "--watch"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(theirs)
    said = bytearray()

    def has(text: bytes) -> bool:
        return text in said

    os.set_blocking(ours, False)

    def reads(text: str) -> None:
        def look() -> bool:
            try:
                said.extend(os.read(ours, 65536))
            except BlockingIOError:
                pass
            except OSError:  # the other end is closed
                return True
            return has(text.encode())

        wait_until(look, what=f"{text!r} at the terminal")

    try:
        reads("nobody leads")
        with Actor(place, "anna"):
            reads("anna leads, epoch 1")
            process.send_signal(signal.SIGINT)
            assert process.wait(NEVER_S) == 130
            reads("the end of the output")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert has(b"\x1b[1A"), "the cursor goes back up, and the next picture replaces the last"
    assert said.endswith(b"\x1b[?25h"), "the cursor is shown again"
    assert b"Traceback" not in said


def test_one_look_for_cron_and_a_watch_exclude_each_other(place: Place) -> None:
    place.make_store()
    told = tenure("status", *of(place), "--check", "--watch")
    assert (told.code, told.error) == (2, "--check looks once, and --watch goes on; give one of them")


def test_an_interval_that_is_too_short(place: Place) -> None:
    place.make_store()
    told = tenure("list", *of(place), "--every", "0")
    assert told.code == 2
    assert "0.2" in told.error
