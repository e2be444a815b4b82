"""A driver that says why it ends, and ends: on a busy machine the agent told that the driver had died (exit code 9),
as the words came between its look for a word and its look for the end."""

from __future__ import annotations

import os
import queue
import socket
import threading
from datetime import timedelta

import pytest

from tenure.agent import driver_process
from tenure.agent.child import Child
from tenure.agent.driver_process import DriverProcess, Patience
from tenure.clock import SystemClock
from tenure.errors import UsageError, error_to_data
from tenure.events import Events
from tenure.link.words import Begin, Failed, Link, Word
from tests.kit.waiting import NEVER, NEVER_S


class Ends:
    """A child that says why it ends, and ends, once it is let."""

    pid = 1

    def __init__(self, *, held_open: bool) -> None:
        """`held_open`: another process keeps the driver's end of the link."""
        ours, self._theirs = socket.socketpair()
        self.link = Link(ours)
        self.end, self._ends = os.pipe()
        self.has_ended = threading.Event()
        self._held_open = held_open

    def ends(self) -> None:
        Link(self._theirs).send(Failed(error_to_data(UsageError("it is the setting"))))
        if not self._held_open:
            self._theirs.close()
        os.close(self._ends)
        self.has_ended.set()

    def wait(self) -> str:
        assert self.has_ended.wait(NEVER_S)
        return "exit code 2"

    def kill(self) -> None:
        """It ends by itself."""

    def reap(self) -> None:
        self.link.close()
        os.close(self.end)

    def clean_up(self) -> None:
        self._theirs.close()


class Between(queue.SimpleQueue[Word | None]):
    """Words of which the first, and the end, come just after the first look."""

    def __init__(self, child: Ends) -> None:
        self.running: driver_process._Running | None = None
        self._child = child

    def get(self, block: bool = True, timeout: float | None = None) -> Word | None:
        if not self._child.has_ended.is_set():
            self._child.ends()
            assert self.running is not None
            assert self.running.gone.wait(NEVER_S)
            raise queue.Empty
        return super().get(block, timeout)


@pytest.mark.parametrize("held_open", [False, True])
def test_the_words_of_a_driver_that_ends_are_told(held_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    child = Ends(held_open=held_open)
    words = Between(child)
    monkeypatch.setattr("tenure.agent.driver_process.queue.SimpleQueue", lambda: words)

    def started(member: str) -> Child:
        return child

    driver = DriverProcess(
        start=started,
        begin=Begin({}, "shop.py", until_idle=False),
        member="anna",
        patience=Patience(stop=NEVER, silence=timedelta(hours=1)),
        clock=SystemClock(),
        events=Events.nobody,
        driver_events=Events.nobody,
    )
    made = driver_process._Running.__init__

    def remembered(running: driver_process._Running, *given: object, **named: object) -> None:
        words.running = running
        made(running, *given, **named)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(driver_process._Running, "__init__", remembered)
    with pytest.raises(UsageError, match="it is the setting"):
        driver.load()
