"""For what a run waits: at a terminal one line that is replaced, elsewhere one line for each state."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from datetime import timedelta

import pytest

from tenure import events
from tenure.cli.narrator import Narrator
from tenure.cli.output import ERASE, complain, wait_no_more
from tenure.progress import SeedProgress
from tests.kit.clock import ManualClock

STARTED = events.DriverStarted(scope="rows", member="ben", pid=7)
READY = events.MemberReady(scope="rows", member="ben")
BEHIND = events.LeadershipAwaited(scope="rows", member="ben", leader="anna", epoch=3, paused=False)


@pytest.fixture(autouse=True)
def no_line_stays() -> Iterator[None]:
    """The lines are those of the process: a waiting line that stays is erased by the next test that writes."""
    yield
    with redirect_stderr(io.StringIO()):
        wait_no_more()


def away(why: str, again_s: float) -> events.Event:
    return events.StoreAway(scope="rows", member="ben", why=why, again_s=again_s)


class Terminal(io.StringIO):
    """A terminal of 80 columns, as it has no size of its own."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> list[str]:
        """The lines on its screen, without their times."""
        rows = [line.rsplit(ERASE, 1)[-1] for line in self.getvalue().split("\n")]
        return [row.partition(" ")[2] for row in rows]


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in the test itself: between a fixture and its test, pytest puts its own stderr back."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_the_next_line_replaces_a_waiting_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    narrator = Narrator(clock=ManualClock(), quiet=False)
    narrator.wait("waits for the store")
    assert terminal.shown == ["waits for the store"]
    narrator(STARTED)
    assert terminal.shown == ["rows: member ben waits for Spark to start"]
    narrator(READY)
    narrator(BEHIND)
    ready = "rows: member ben is ready, standing by"
    assert terminal.shown == [ready, "rows: member ben waits for the leadership: anna leads (epoch 3)"]
    complain("no luck")
    assert terminal.shown == [ready, "error: no luck", ""]
    wait_no_more()
    assert terminal.shown == [ready, "error: no luck", ""]


def test_the_end_removes_the_waiting_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    Narrator(clock=ManualClock(), quiet=False)(BEHIND)
    wait_no_more()
    assert terminal.shown == [""]


def test_a_store_that_stays_away_is_one_line_that_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    narrator = Narrator(clock=ManualClock(), quiet=False)
    for event in (away("locked", 0.2), away("locked", 0.4), away("locked", 0.8), away("gone", 1.6)):
        narrator(event)
    line = "rows: member ben tries the store again in {} s: {}"
    assert terminal.shown == [line.format("0.2", "locked"), line.format("1.6", "gone"), ""]


def test_a_waiting_line_is_not_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    Narrator(clock=ManualClock(), quiet=False).wait("x" * 200)
    assert len(terminal.getvalue()) == 79
    assert terminal.getvalue().endswith("x...")
    wait_no_more()


def test_a_quiet_run_shows_no_waiting_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    narrator = Narrator(clock=ManualClock(), quiet=True)
    narrator.wait("waits for the store")
    for event in (STARTED, BEHIND, away("locked", 0.2), away("locked", 0.4)):
        narrator(event)
    assert terminal.shown == ["rows: member ben tries the store again in 0.2 s: locked", ""]


@pytest.mark.parametrize("dumb", [False, True])
def test_without_such_a_terminal_each_state_is_one_line(monkeypatch: pytest.MonkeyPatch, dumb: bool) -> None:
    file = Terminal() if dumb else io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    narrator = Narrator(clock=ManualClock(), quiet=False)
    narrator.wait("waits for the store")
    for event in (STARTED, READY, BEHIND, away("locked", 0.2), away("locked", 0.4), BEHIND, away("locked", 0.2)):
        narrator(event)
    assert ERASE not in file.getvalue()
    assert [line.partition(" ")[2] for line in file.getvalue().splitlines()] == [
        "rows: member ben waits for Spark to start",
        "rows: member ben is ready, standing by",
        "rows: member ben waits for the leadership: anna leads (epoch 3)",
        "rows: member ben tries the store again in 0.2 s: locked",
        "rows: member ben waits for the leadership: anna leads (epoch 3)",
        "rows: member ben tries the store again in 0.2 s: locked",
    ]


def test_long_work_is_one_line_at_a_terminal_and_a_line_each_ten_seconds_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock()

    def goes_on(narrator: Narrator, seconds: int) -> None:
        for second in range(0, seconds, 2):
            narrator(SeedProgress("rows", query="copy", files=second, of=100))
            clock.advance(timedelta(seconds=2))

    goes_on(Narrator(clock=clock, quiet=False), 24)
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": copies ")[2] for line in told] == [
        f"the state of query copy: {files} of 100 files" for files in (0, 10, 20)
    ]
    terminal = at_a_terminal(monkeypatch)
    goes_on(Narrator(clock=clock, quiet=False), 24)
    assert terminal.shown == ["rows: copies the state of query copy: 22 of 100 files"]
