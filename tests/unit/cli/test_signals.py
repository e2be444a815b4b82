"""The signals of a run: the first stops the member, a second SIGINT interrupts, other signals change nothing more."""

from __future__ import annotations

import signal
import threading

import pytest

from tenure.cli.signals import stop_on_signals
from tests.kit.clock import ManualClock


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_second_signal_interrupts_nothing(second: signal.Signals) -> None:
    stop = threading.Event()
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(stop, clock=ManualClock()) as signalled:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        signal.raise_signal(second)
        assert signalled == {signal.SIGTERM, second}
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_interrupt_is_raised() -> None:
    with stop_on_signals(threading.Event(), clock=ManualClock()):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
